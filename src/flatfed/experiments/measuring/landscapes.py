"""Landscapes of runs: which models, and over which examples. Those of clients' models: `client_landscapes.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.experiments.measuring.client_landscapes import (
    around_client,
    client_plane,
    through_clients,
    train_and_tests,
)
from flatfed.experiments.measuring.laboratory import Laboratory, laboratory
from flatfed.experiments.measuring.views import RUNS, Kind, Landscape, OnPoint, View, keeping
from flatfed.flatness.landscape import scenes
from flatfed.flatness.results import Line
from flatfed.flatness.surface import Surface

__all__ = ["Kind", "Landscape", "View", "landscape"]

LINE = (-1.0, 2.0)
"""A line through two models reaches so far, in shares of the first."""


def landscape(
    paths: Sequence[Path],
    view: View,
    *,
    workers: int | str | None = None,
    data_dir: str | Path | None = None,
    on_point: OnPoint = lambda name, done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> Landscape:
    """Evaluate a landscape; points that were evaluated before are taken from the first run's directory."""
    least, most = RUNS[view.kind]
    if len(paths) < least or (most is not None and len(paths) > most):
        wanted = f"{least}" if least == most else f"at least {least}"
        raise ConfigError(
            f"a landscape of kind {view.kind} takes {wanted} run{'s' if least > 1 else ''}, not {len(paths)}"
        )
    labs = [
        laboratory(
            path,
            samples=view.samples,
            seed=view.seed,
            weights=view.weights,
            workers=workers,
            data_dir=data_dir,
            say=say,
            start=False,
        )
        for path in paths
    ]
    _refuse_other_shapes(paths, labs, mixed=view.kind in ("line", "plane"))
    return _KINDS[view.kind](labs, _labels(paths, labs), view, on_point)


def _around(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    grids = []
    for lab, label in zip(labs, labels, strict=True):
        keep, tell = keeping(lab, [lab], view), functools.partial(on_point, label)
        with lab.started():
            grids.append(scenes.around(lab.surface, label, view.points, view.extent, view.seed, keep, tell))
    return Landscape(grids, [])


def _between(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    a, b = ((n, lab.surface.w, lab.surface.buffers) for n, lab in zip(labels, labs, strict=True))
    low, high = LINE
    steps = (view.points - 1) * 3 // 2 // 3 * 3  # so that 0 and 1 are on the grid
    shares = [low + (high - low) * number / steps for number in range(steps + 1)]
    tell = functools.partial(on_point, f"{labels[1]} to {labels[0]}")
    keep = keeping(labs[0], labs, view)
    with labs[0].started():
        return Landscape([], [scenes.between(train_and_tests(labs[0]), a, b, shares, keep, tell)])


def _through(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    models = [(n, lab.surface.w, lab.surface.buffers) for n, lab in zip(labels, labs, strict=True)]
    grids, keep = [], keeping(labs[0], labs, view)
    with labs[0].started():
        for surface in train_and_tests(labs[0]):
            tell = functools.partial(on_point, f"plane, {surface.sample.of}")
            grids.append(scenes.through(surface, models, view.points, keep, tell))
    return Landscape(grids, [])


def _along(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    steep, random = list[Line](), list[Line]()
    for lab, label in zip(labs, labels, strict=True):
        keep, tell = keeping(lab, [lab], view), functools.partial(on_point, label)
        with lab.started():
            steep.append(scenes.along_gradient(lab.surface, label, view.points, view.extent, keep, tell))
            where = view.points, view.extent, view.directions, view.seed
            random.append(scenes.along_random(lab.surface, label, *where, keep, tell))
    return Landscape([], [*steep, *random])


_KINDS: dict[str, Callable[[list[Laboratory], list[str], View, OnPoint], Landscape]] = {
    "surface": _around,
    "line": _between,
    "plane": _through,
    "along": _along,
    "client": around_client,
    "clients": through_clients,
    "client-plane": client_plane,
}


def _refuse_other_shapes(paths: Sequence[Path], labs: Sequence[Laboratory], mixed: bool) -> None:
    """Refuse models that have no common axes, and, where they are mixed, that have no common numbers or statistics."""
    first = labs[0].surface
    for path, lab in zip(paths, labs, strict=True):
        if _shapes(lab.surface) != _shapes(first):
            raise ConfigError(f"{path} has another model than {paths[0]}: they cannot be shown on one set of axes")
        if mixed and lab.surface.w.dtype is not first.w.dtype:
            raise ConfigError(f"{path} has another number type than {paths[0]}: their models cannot be mixed")
        if mixed and set(lab.surface.buffers) != set(first.buffers):
            raise ConfigError(f"{path} and {paths[0]} do not both share BatchNorm statistics: they cannot be mixed")


def _shapes(surface: Surface) -> list[tuple[str, tuple[int, ...], bool]]:
    return [(piece.name, piece.shape, piece.local) for piece in surface.layout.parameters]


def _labels(paths: Sequence[Path], labs: Sequence[Laboratory]) -> list[str]:
    """Return a name for each: the method, with what tells equal ones apart."""
    names = [lab.label for lab in labs]
    if len(set(names)) == len(names):
        return names
    told = [f"{name} ({path.name})" for name, path in zip(names, paths, strict=True)]
    return told if len(set(told)) == len(told) else [f"{name} #{n + 1}" for n, name in enumerate(names)]
