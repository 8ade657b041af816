"""The landscapes that papers show: between two models, through three, around one, and along perturbations.

Statistics of BatchNorm go with the weights between models (the same affine combination, variances not below 0) and stay
the model's own around it.

Around a model, random directions are on the scale of its filters. Each slice along the first axis of a tensor with two
or more axes is rescaled to the norm of the model's own slice; biases and norm parameters (one axis) stay where they
are:

    d_ij <- d_ij * ||w_ij|| / (||d_ij|| + 1e-10),          d = 0 on tensors with one axis

The raw Gaussian directions depend on the seed and the number of the direction alone, so that compared models of one
shape get the same ones; the rescaling is each model's own. Li et al., "Visualizing the loss landscape of neural
nets", NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.method.vectors import unit
from flatfed.core.model.layout import BUFFERS, Layout, Segment
from flatfed.core.randomness import torch_generator
from flatfed.flatness.drawable import Floats, Grid, Line
from flatfed.flatness.landscape.evaluate import Frame, OnPoint, column, evaluate
from flatfed.flatness.landscape.planes import Plane, barrier, grid_around, plane_through
from flatfed.flatness.sums import Coefficients
from flatfed.flatness.surface import Surface
from flatfed.runs.results import Points

SMALL = 1e-10


def raw_direction(size: int, number: int, seed: int, dtype: torch.dtype) -> Tensor:
    """Return a Gaussian direction, the same for every model of this size."""
    # Drawn in double precision, so that models of either type get the same directions.
    return torch.randn(size, generator=torch_generator(seed, "direction", number), dtype=torch.float64).to(dtype)


def filter_normalised(layout: Layout, w: Tensor, raw: Tensor) -> Tensor:
    """Return a direction with the norms of the model's filters."""
    direction = torch.zeros_like(w)
    for piece in layout.parameters:
        is_shared = piece.offset + piece.size <= len(w)  # the rest stays on the clients
        if is_shared and _has_filters(piece):
            piece.view(direction).copy_(_rescaled(piece.view(raw), piece.view(w)))
    return direction


def _has_filters(piece: Segment) -> bool:
    return len(piece.shape) >= 2


def _rescaled(raw: Tensor, weights: Tensor) -> Tensor:
    """Return a tensor's part of a direction with the norms of the filters, slices along the first axis."""
    rows, filters = raw.flatten(1), weights.flatten(1)
    scale = filters.norm(dim=1, keepdim=True) / (rows.norm(dim=1, keepdim=True) + SMALL)
    rescaled: Tensor = (rows * scale).view(raw.shape)
    return rescaled


def random_directions(layout: Layout, w: Tensor, count: int, seed: int = 0) -> list[Tensor]:
    """Return filter-normalised random directions for a model."""
    return [filter_normalised(layout, w, raw_direction(len(w), n, seed, w.dtype)) for n in range(count)]


MOST = 1001
"""Points per axis, at most: a million in a plane."""

Keep = Callable[[str], Points | None]
"""Returns where the points of a part of the scene are kept."""


class PlacedModel(NamedTuple):
    """A model that a line or a plane goes through: its name, weights and statistics."""

    name: str
    w: Tensor
    buffers: Mapping[str, Tensor]


def nowhere(part: str) -> None:
    """Keep nothing."""


def silent(done: int, total: int) -> None:
    """Tell nobody."""


def between(
    surfaces: Sequence[Surface],
    a: PlacedModel,
    b: PlacedModel,
    shares: Sequence[float],
    keep: Keep = nowhere,
    on_point: OnPoint = silent,
) -> Line:
    """Return the loss on the line `g w_A + (1 - g) w_B` over each of the surfaces' examples, with the barriers."""
    losses, barriers = dict[str, Floats](), dict[str, float]()
    for surface in surfaces:
        name = surface.sample.of
        frame = Frame(surface.at(b.w, b.buffers), [a.w - b.w], [_difference(a.buffers, b.buffers)])
        losses[name] = _losses_on_line(frame, shares, keep(name), on_point)
        barriers[name] = barrier(list(shares), losses[name].tolist())
    note = "; ".join(surface.note for surface in surfaces)
    marks = {a.name: 1.0, b.name: 0.0}
    return Line(f"{b.name} to {a.name}", np.array(shares), losses, f"share of {a.name}", marks, barriers, note)


def _difference(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: a[name] - b[name] for name in _moving(b)}


def through(
    surface: Surface,
    models: Sequence[PlacedModel],
    points: int,
    keep: Keep = nowhere,
    on_point: OnPoint = silent,
    also: Sequence[PlacedModel] = (),
    exact: bool = False,
) -> Grid:
    """Return the loss over the plane through three models, the first at the origin.

    Args:
        surface: the examples that the loss is taken over.
        models: what the plane goes through.
        points: points per axis.
        keep: says where points are kept.
        on_point: hears of each.
        also: models that are marked too, where they lie in the plane or their nearest point does; the note says which.
        exact: also evaluate the marked models themselves, which need not lie on the grid.
    """
    weights = [model.w for model in models]
    plane = plane_through(weights)
    axes = grid_around(plane, weights, points)
    first, marked = models[0], [*models, *also]
    frame = Frame(surface.at(first.w, first.buffers), [plane.u, plane.v], _statistics_along(plane, models))
    label = ", ".join(model.name for model in models)
    marks = {model.name: plane.coordinates(model.w) for model in marked}
    note = "; ".join([surface.note, *_places(plane, also)])
    grid = _grid(frame, label, axes, _axis_names(models), marks, note, keep, on_point)
    if exact or also:
        return replace(grid, at_marks=_losses(surface, marked))
    return grid


def _axis_names(models: Sequence[PlacedModel]) -> tuple[str, str]:
    """Say what the distances of a plane are along: the first model is at the origin, the second on the first axis."""
    first, second, third = (model.name for model in models)
    return f"distance along {first} → {second}", f"distance across, towards {third}"


def _places(plane: Plane, models: Sequence[PlacedModel]) -> list[str]:
    """Say of each model whether it lies in the plane."""
    return [f"{model.name}: {plane.where(model.w)}" for model in models]


def _statistics_along(plane: Plane, models: Sequence[PlacedModel]) -> list[dict[str, Tensor]]:
    """Return how statistics change along both axes, so that each of the three models has its own.

    With the second model at `(x_2, 0)` and the third at `(x_3, y_3)`:

        s_u = (b_2 - b_1) / x_2,          s_v = (b_3 - b_1 - x_3 s_u) / y_3
    """
    first, second, third = models
    x_2, _ = plane.coordinates(second.w)
    x_3, y_3 = plane.coordinates(third.w)
    along_u, along_v = dict[str, Tensor](), dict[str, Tensor]()
    for name in _moving(first.buffers):
        # Neither `x_2` nor `y_3` is 0: there is no plane through models on one line.
        along_u[name] = (second.buffers[name] - first.buffers[name]) / x_2
        along_v[name] = (third.buffers[name] - first.buffers[name] - x_3 * along_u[name]) / y_3
    return [along_u, along_v]


def _losses(surface: Surface, models: Sequence[PlacedModel]) -> dict[str, float]:
    return {model.name: surface.at(model.w, model.buffers).loss() for model in models}


def around(
    surface: Surface,
    label: str,
    points: int,
    extent: float = 1.0,
    seed: int = 0,
    keep: Keep = nowhere,
    on_point: OnPoint = silent,
    mark: str = "",
) -> Grid:
    """Return the loss along two filter-normalised random directions, the same raw ones for every model of a size."""
    axis = _symmetric(extent, points)
    frame = Frame(surface, random_directions(surface.layout, surface.w, 2, seed))
    note = f"{surface.note}; raw directions of seed {seed}, normalised by each model's filters"
    names = ("first direction", "second direction")
    return _grid(frame, label, (axis, axis), names, {mark or label: (0.0, 0.0)}, note, keep, on_point)


def along_gradient(
    surface: Surface, label: str, points: int, extent: float = 1.0, keep: Keep = nowhere, on_point: OnPoint = silent
) -> Line:
    """Return the loss at growing distance along the gradient, over the surface's examples."""
    distances = _from_zero(extent, points)
    frame = Frame(surface, [unit(surface.gradient())])
    losses = {"along the gradient": _losses_on_line(frame, distances, keep("gradient"), on_point)}
    return Line(label, np.array(distances), losses, "distance from the model", {label: 0.0}, note=surface.note)


def along_random(
    surface: Surface,
    label: str,
    points: int,
    extent: float = 1.0,
    directions: int = 10,
    seed: int = 0,
    keep: Keep = nowhere,
    on_point: OnPoint = silent,
) -> Line:
    """Return the mean loss along filter-normalised random directions, in multiples of the filters' norms."""
    steps = _from_zero(extent, points)
    places = [_on_axis(axis, step, directions) for axis in range(directions) for step in steps]
    frame = Frame(surface, random_directions(surface.layout, surface.w, directions, seed))
    by_place = column(evaluate(frame, places, keep("random"), on_point), "loss")
    losses = {"along random directions": by_place.reshape(directions, -1).mean(axis=0)}
    note = f"{surface.note}; mean over {directions} filter-normalised random directions of seed {seed}"
    return Line(label, np.array(steps), losses, "multiple of the filters' norms", {label: 0.0}, note=note)


def _symmetric(extent: float, points: int) -> list[float]:
    """Return an axis whose middle is the model itself: 0 to the bit, whatever the extent."""
    return [extent * (2 * number / (points - 1) - 1) for number in range(points)]


def _from_zero(extent: float, points: int) -> list[float]:
    """Return evenly spaced distances from 0 on."""
    return [extent * number / (points - 1) for number in range(points)]


def _losses_on_line(frame: Frame, places: Sequence[float], kept: Points | None, on_point: OnPoint) -> Floats:
    points = [(float(place),) for place in places]
    return column(evaluate(frame, points, kept, on_point), "loss")


def _on_axis(axis: int, step: float, count: int) -> Coefficients:
    """Return a point on one of several axes."""
    coordinates = [0.0] * count
    coordinates[axis] = step
    return tuple(coordinates)


def _grid(
    frame: Frame,
    label: str,
    axes: tuple[Sequence[float], Sequence[float]],
    names: tuple[str, str],
    marks: Mapping[str, tuple[float, float]],
    note: str,
    keep: Keep,
    on_point: OnPoint,
) -> Grid:
    xs, ys = axes
    # Row by row, as `reshape` takes them.
    places = [(float(x), float(y)) for y in ys for x in xs]
    points = evaluate(frame, places, keep(frame.surface.sample.of), on_point)
    shape = len(ys), len(xs)
    losses = column(points, "loss").reshape(shape)
    errors = column(points, "error").reshape(shape) if _have_errors(points) else None
    return Grid(label, np.array(xs), np.array(ys), losses, errors, *names, dict(marks), note)


def _have_errors(points: Sequence[Mapping[str, float]]) -> bool:
    return any("error" in numbers for numbers in points)


def check_points(points: int) -> None:
    """Refuse a grid without a middle or without points."""
    if points < 3 or points % 2 == 0:
        raise ConfigError(
            f"a landscape needs an odd number of at least 3 points per axis, not {points}", parameter="points"
        )
    if points > MOST:
        raise ConfigError(f"a landscape has at most {MOST} points per axis, not {points}", parameter="points")


def _moving(buffers: Mapping[str, Tensor]) -> list[str]:
    """Return the statistics that go with the weights between models; counters of batches and local ones do not."""
    return [name for name in buffers if name == BUFFERS]
