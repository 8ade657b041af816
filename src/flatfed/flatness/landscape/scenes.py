"""The landscapes that papers show: between two models, through three, around one, and along perturbations.

Statistics of BatchNorm go with the weights between models (the same affine combination, variances not below 0) and stay
the model's own around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.method.vectors import unit
from flatfed.core.model.layout import BUFFERS
from flatfed.flatness.landscape.directions import random_directions
from flatfed.flatness.landscape.evaluate import Frame, OnPoint, column, evaluate
from flatfed.flatness.landscape.planes import barrier, grid_around, plane_through
from flatfed.flatness.results import Floats, Grid, Line
from flatfed.flatness.surface import Surface
from flatfed.runs.results import Points

MOST = 1001
"""Points an axis, at most: a million in a plane."""

Keep = Callable[[str], Points | None]
"""Returns where the points of a part of the scene are kept."""

Model = tuple[str, Tensor, Mapping[str, Tensor]]
"""A model's name, weights and statistics."""


def nowhere(part: str) -> None:
    """Keep nothing."""


def silent(done: int, total: int) -> None:
    """Tell nobody."""


def between(
    surfaces: Sequence[Surface],
    a: Model,
    b: Model,
    shares: Sequence[float],
    keep: Keep = nowhere,
    on_point: OnPoint = silent,
) -> Line:
    """Return the loss on the line `g w_A + (1 - g) w_B` over each of the surfaces' examples, with the barriers."""
    losses, barriers = dict[str, Floats](), dict[str, float]()
    points = [(float(share),) for share in shares]
    change = {name: a[2][name] - b[2][name] for name in _moving(b[2])}
    for surface in surfaces:
        name = surface.sample.of
        frame = Frame(surface.at(b[1], b[2]), [a[1] - b[1]], [change])
        losses[name] = column(evaluate(frame, points, keep(name), on_point), "loss")
        barriers[name] = barrier(list(shares), losses[name].tolist())
    note = "; ".join(surface.note for surface in surfaces)
    marks = {a[0]: 1.0, b[0]: 0.0}
    return Line(f"{b[0]} to {a[0]}", np.array(shares), losses, f"share of {a[0]}", marks, barriers, note)


def through(
    surface: Surface,
    models: Sequence[Model],
    points: int,
    keep: Keep = nowhere,
    on_point: OnPoint = silent,
    also: Sequence[Model] = (),
    exact: bool = False,
) -> Grid:
    """Return the loss over the plane through three models, the first at the origin.

    Args:
        surface: the examples that the loss is taken over.
        models: what the plane goes through.
        points: points an axis.
        keep: says where points are kept.
        on_point: hears of each.
        also: models that are marked too, where they lie in the plane or their nearest point does; the note says which.
        exact: also evaluate the marked models themselves, which need not lie on the grid.
    """
    plane = plane_through([w for _, w, _ in models])
    xs, ys = grid_around(plane, [w for _, w, _ in models], points)
    marks = {name: plane.coordinates(w) for name, w, _ in (*models, *also)}
    (second, _), (third_x, third_y) = (plane.coordinates(w) for _, w, _ in models[1:])
    first_b, second_b, third_b = (buffers for _, _, buffers in models)
    along_u = {n: (second_b[n] - first_b[n]) / second for n in _moving(first_b)}
    along_v = {n: (third_b[n] - first_b[n] - third_x * along_u[n]) / third_y for n in _moving(first_b)}
    frame = Frame(surface.at(models[0][1], first_b), [plane.u, plane.v], [along_u, along_v])
    label = ", ".join(name for name, _, _ in models)
    note = "; ".join([surface.note, *(f"{name}: {plane.where(w)}" for name, w, _ in also)])
    grid = _grid(frame, label, xs, ys, ("distance", "distance"), marks, note, keep, on_point)
    if not (exact or also):
        return grid
    return replace(grid, at_marks={name: surface.at(w, buffers).loss() for name, w, buffers in (*models, *also)})


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
    axis = [extent * (2 * number / (points - 1) - 1) for number in range(points)]  # its middle is 0 to the bit
    frame = Frame(surface, random_directions(surface.layout, surface.w, 2, seed))
    note = f"{surface.note}; raw directions of seed {seed}, normalised by each model's filters"
    names = ("first direction", "second direction")
    return _grid(frame, label, axis, axis, names, {mark or label: (0.0, 0.0)}, note, keep, on_point)


def along_gradient(
    surface: Surface, label: str, points: int, extent: float = 1.0, keep: Keep = nowhere, on_point: OnPoint = silent
) -> Line:
    """Return the loss at growing distance along the gradient, over the surface's examples."""
    distances = [extent * number / (points - 1) for number in range(points)]
    frame = Frame(surface, [unit(surface.gradient())])
    found = column(evaluate(frame, [(s,) for s in distances], keep("gradient"), on_point), "loss")
    losses = {"along the gradient": found}
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
    steps = [extent * number / (points - 1) for number in range(points)]
    spots = [tuple(s if k == n else 0.0 for k in range(directions)) for n in range(directions) for s in steps]
    frame = Frame(surface, random_directions(surface.layout, surface.w, directions, seed))
    found = column(evaluate(frame, spots, keep("random"), on_point), "loss")
    losses = {"along random directions": found.reshape(directions, -1).mean(axis=0)}
    note = f"{surface.note}; mean over {directions} filter-normalised random directions of seed {seed}"
    return Line(label, np.array(steps), losses, "multiple of the filters' norms", {label: 0.0}, note=note)


def _grid(
    frame: Frame,
    label: str,
    xs: Sequence[float],
    ys: Sequence[float],
    names: tuple[str, str],
    marks: Mapping[str, tuple[float, float]],
    note: str,
    keep: Keep,
    on_point: OnPoint,
) -> Grid:
    spots = [(float(x), float(y)) for y in ys for x in xs]
    found = evaluate(frame, spots, keep(frame.surface.sample.of), on_point)
    shape = len(ys), len(xs)
    errors = column(found, "error").reshape(shape) if any("error" in one for one in found) else None
    return Grid(
        label, np.array(xs), np.array(ys), column(found, "loss").reshape(shape), errors, *names, dict(marks), note
    )


def check_points(points: int) -> None:
    """Refuse a grid without a middle or without points."""
    if points < 3 or points % 2 == 0:
        raise ConfigError(f"a landscape needs an odd number of at least 3 points an axis, not {points}")
    if points > MOST:
        raise ConfigError(f"a landscape has at most {MOST} points an axis, not {points}")


def _moving(buffers: Mapping[str, Tensor]) -> list[str]:
    return [name for name in buffers if name == BUFFERS]
