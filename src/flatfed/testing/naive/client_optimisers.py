"""The client optimisers: what takes the place of g(w) in the local steps of a client.

A new one is one function here, which `RULES` names by its id, and one row in `tests/methods/table.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.training import Setup
from flatfed.testing.naive.vectors import norm, unit


@dataclass(frozen=True)
class Opt:
    """A client optimiser: its id in the package, its radius, and its other parameters by name."""

    kind: str = "sgd"
    rho: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict)
    memory: dict[int, Vector] = field(default_factory=dict, compare=False)  # by client, for a whole run

    def afresh(self) -> Opt:
        """The same optimiser in a run of its own."""
        return replace(self, memory={})


SGD = Opt()
LocalGradient = Callable[[Vector], Vector]


def sgd(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """The gradient as it is."""
    return lambda w: s.g(k, w)


def sam(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """The gradient at `w + rho * unit(g)`."""
    return lambda w: s.g(k, w + opt.rho * unit(s.g(k, w)))


def asam(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """T = |w| + eta on `tensors` and 1 elsewhere; eps = rho T^2 g / ||T g||."""

    def gradient(w: Vector) -> Vector:
        g = s.g(k, w)
        scaled = s.is_weight | (opt.more["tensors"] == "all")
        T = np.where(scaled, np.abs(w) + opt.more["eta"], 1.0)
        return s.g(k, w + opt.rho * T**2 * g / (norm(T * g) + 1e-16))

    return gradient


def sam_prev(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """Along the client's last gradient, which lives on in the optimiser's memory."""

    def gradient(w: Vector) -> Vector:
        opt.memory[k] = s.g(k, w + opt.rho * unit(opt.memory.get(k, s.zeros())))
        return opt.memory[k]

    return gradient


def vasso(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """theta is the weight of the fresh gradient; the smoothed one lasts a round."""
    past: Vector | None = None
    theta = opt.more["theta"]

    def gradient(w: Vector) -> Vector:
        nonlocal past
        g = s.g(k, w)
        past = g if past is None else (1 - theta) * past + theta * g
        return s.g(k, w + opt.rho * unit(past))

    return gradient


def fsam(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """sigma says how much of the past is taken out, lam is the weight of the past, which lasts a round."""
    past: Vector | None = None
    sigma, lam = opt.more["sigma"], opt.more["lam"]

    def gradient(w: Vector) -> Vector:
        nonlocal past
        g = s.g(k, w)
        eps = opt.rho * unit(g if past is None else g - sigma * past)
        past = g if past is None else lam * past + (1 - lam) * g
        return s.g(k, w + eps)

    return gradient


RULES = {"sgd": sgd, "sam": sam, "asam": asam, "sam-prev": sam_prev, "vasso": vasso, "fsam": fsam}


def local_gradient(s: Setup, opt: Opt, k: int) -> LocalGradient:
    """What takes the place of g(w) in the local steps of client k in one round."""
    if opt.kind not in RULES:
        raise ValueError(f"no naive computation of the client optimiser {opt.kind!r}; write one into RULES")
    return RULES[opt.kind](s, opt, k)
