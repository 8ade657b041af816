"""Lines and planes through models, as coordinates.

line:   w(g) = g w_A + (1 - g) w_B
plane:  w(x, y) = w_1 + x u + y v,   u = unit(w_2 - w_1),   v = unit((w_3 - w_1) - <w_3 - w_1, u> u)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.method.vectors import unit

MARGIN = 0.2
"""How far a plane through three models reaches beyond them, as a share of their distances."""


@dataclass(frozen=True)
class Plane:
    """Points `origin + x u + y v`."""

    origin: Tensor
    u: Tensor
    v: Tensor

    def coordinates(self, w: Tensor) -> tuple[float, float]:
        """Return where a model of the plane lies, or its nearest point does, for orthonormal `u` and `v`."""
        away = w - self.origin
        return float(away @ self.u), float(away @ self.v)

    def off(self, w: Tensor) -> float:
        """Return the distance of a model from the plane, for orthonormal `u` and `v`."""
        x, y = self.coordinates(w)
        return float((w - self.origin - x * self.u - y * self.v).norm())

    def where(self, w: Tensor) -> str:
        """Say whether a model lies in the plane, or how far off."""
        off, away = self.off(w), float((w - self.origin).norm())
        # An average of models is one of the plane up to rounding, which counts by the size of the weights.
        rounding = 100 * torch.finfo(w.dtype).eps * float(w.norm())
        if off <= max(1e-6 * away, rounding):
            return "in the plane"
        return f"{off:.3g} off the plane, marked at its nearest point"


def plane_through(models: Sequence[Tensor]) -> Plane:
    """Return the plane through three models, the first at the origin, the second on the first axis."""
    _check_shapes(models)
    first, second, third = models
    u = unit(second - first)
    off = third - first
    v = off - (off @ u) * u
    are_same = float((second - first).norm()) == 0
    # Below this share of the length, what remains is rounding.
    on_one_line = float(v.norm()) <= 1e-6 * float(off.norm())
    if are_same or on_one_line:
        raise ConfigError("the three models lie on one line, or two are the same; there is no plane through them")
    return Plane(first, u, unit(v))


def _check_shapes(models: Sequence[Tensor]) -> None:
    shapes = {model.shape for model in models}
    if len(models) != 3 or len(shapes) != 1:
        raise ConfigError("a plane goes through three models of one shape")


def grid_around(plane: Plane, models: Sequence[Tensor], points: int) -> tuple[list[float], list[float]]:
    """Return the coordinates of a grid that holds the models with a margin: -0.2 to 1.2 of their distances."""
    xs, ys = zip(*(plane.coordinates(model) for model in models), strict=True)
    return _axis(xs, points), _axis(ys, points)


def _axis(places: Sequence[float], points: int) -> list[float]:
    """Return evenly spaced coordinates from below the least place to above the greatest."""
    low, high = min(places), max(places)
    margin = MARGIN * (high - low)
    coordinates: list[float] = torch.linspace(low - margin, high + margin, points, dtype=torch.float64).tolist()
    return coordinates


def barrier(shares: Sequence[float], losses: Sequence[float]) -> float:
    """Return how far the loss on the way between two models rises above the straight line between their losses.

    `max over g in [0, 1] of L(w(g)) - (g L(w_A) + (1 - g) L(w_B))`; 0 and 1 must be among the shares.
    """
    # Shares are computed: the ends of the way may miss 0 and 1 by a rounding.
    by_share = {round(share, 12): loss for share, loss in zip(shares, losses, strict=True)}
    if not {0.0, 1.0} <= set(by_share):
        raise ConfigError("the barrier needs the losses of both models: 0 and 1 must be on the grid")
    rises = [_rise(share, by_share) for share in by_share if 0.0 <= share <= 1.0]
    return max(rises)


def _rise(share: float, losses: Mapping[float, float]) -> float:
    """Return how far the loss at a share lies above the straight line."""
    return losses[share] - (share * losses[1.0] + (1 - share) * losses[0.0])
