"""Landscapes of runs: which models, and over which examples. Those of clients' models: `client_landscapes.py`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from flatfed.core.errors import ConfigError
from flatfed.engines.choice import Workers
from flatfed.experiments.measuring.client_landscapes import (
    around_client,
    client_plane,
    through_clients,
    train_and_tests,
)
from flatfed.experiments.measuring.laboratory import Laboratory, laboratory
from flatfed.experiments.measuring.progress import OnCount, Say, nobody
from flatfed.experiments.measuring.saved_runs import numbered
from flatfed.experiments.measuring.views import MIXED, Landscape, View, keeping
from flatfed.experiments.spelling.measured import RUNS, Kind
from flatfed.flatness.drawable import Grid, Line
from flatfed.flatness.landscape import scenes
from flatfed.flatness.surface import Surface

__all__ = ["Kind", "Landscape", "View", "landscape"]

LINE = (-1.0, 2.0)
"""How far a line through two models reaches, in shares of the first."""


def landscape(
    paths: Sequence[Path],
    view: View,
    *,
    workers: Workers | None = None,
    data_dir: str | Path | None = None,
    trust: bool = False,
    accept_changed_data: bool = False,
    on_point: OnCount = nobody,
    say: Say = nobody,
    called: Sequence[str] | None = None,
) -> Landscape:
    """Evaluate a landscape; points that were evaluated before are taken from the first run's directory.

    `called` names the runs; by default they are called by their methods.
    """
    _check_count(paths, view.kind)
    # All are opened first, so that none is evaluated where one does not fit; workers start when a run's turn comes.
    labs = [
        laboratory(
            path,
            samples=view.samples,
            seed=view.seed,
            weights=view.weights,
            space=view.space,
            workers=workers,
            data_dir=data_dir,
            trust=trust,
            accept_changed_data=accept_changed_data,
            say=say,
            start=False,
        )
        for path in paths
    ]
    _check_shapes(paths, labs)
    if view.kind in MIXED:
        _check_mixable(paths, labs)
    evaluated = _KINDS[view.kind](labs, list(called or _labels(paths, labs)), view, on_point)
    return replace(
        evaluated,
        about=_about(labs),
        grids=[_with_space(grid, labs[0]) for grid in evaluated.grids],
        lines=[_with_space(line, labs[0]) for line in evaluated.lines],
    )


Drawable = TypeVar("Drawable", Grid, Line)


def _with_space(drawn: Drawable, lab: Laboratory) -> Drawable:
    """Return a grid or line whose note says in which space it lies, where some weights are frozen."""
    return replace(drawn, note="; ".join(filter(None, (drawn.note, lab.short_space))))


def _about(labs: Sequence[Laboratory]) -> str:
    """Say of what the models are: `digits: fedavg and fedsam after round 200`."""
    tasks = [lab.directory.config["task"] for lab in labs if lab.directory is not None]
    names = _listed([str(task.get("dataset") or task.get("name", "")) for task in tasks])
    models = _listed([lab.label for lab in labs])
    rounds = _listed([str(lab.run.round) for lab in labs if lab.directory is not None])
    if rounds:
        models += f" after round {rounds}"
    models_in_space = " ".join(filter(None, (models, labs[0].short_space)))
    return ": ".join(filter(None, (names, models_in_space)))


def _listed(words: Sequence[str]) -> str:
    """Return words, each once: `a and b`."""
    return " and ".join(dict.fromkeys(filter(None, words)))


def _check_count(paths: Sequence[Path], kind: Kind) -> None:
    """Refuse fewer or more runs than a kind takes."""
    least, most, words = RUNS[kind]
    if not least <= len(paths) <= most:
        raise ConfigError(f"a landscape of kind {kind} takes {words}, not {len(paths)}")


def _around(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    grids = []
    for lab, label in zip(labs, labels, strict=True):
        keep, tell = keeping(lab, [lab], view), functools.partial(on_point, label)
        with lab.started():
            grids.append(scenes.around(lab.surface, label, view.points, view.extent, view.seed, keep, tell))
    return Landscape(grids, [])


def _between(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    a, b = _models(labs, labels)
    tell = functools.partial(on_point, f"{b.name} to {a.name}")
    keep = keeping(labs[0], labs, view)
    with labs[0].started():
        line = scenes.between(train_and_tests(labs[0]), a, b, _shares(view.points), keep, tell)
    return Landscape([], [line])


def _shares(points: int) -> list[float]:
    """Return the places on a line: at least as many as asked for, with both models (0 and 1) among them."""
    low, high = LINE
    steps = (points - 1) * 3 // 2 // 3 * 3  # three equal parts: before, between and behind the models
    return [low + (high - low) * number / steps for number in range(steps + 1)]


def _through(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    models = _models(labs, labels)
    keep, grids = keeping(labs[0], labs, view), []
    with labs[0].started():
        for surface in train_and_tests(labs[0]):
            tell = functools.partial(on_point, f"plane, {surface.sample.of}")
            grids.append(scenes.through(surface, models, view.points, keep, tell))
    return Landscape(grids, [])


def _models(labs: Sequence[Laboratory], labels: Sequence[str]) -> list[scenes.PlacedModel]:
    pairs = zip(labels, labs, strict=True)
    return [scenes.PlacedModel(label, lab.surface.w, lab.surface.buffers) for label, lab in pairs]


def _along(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    steep, random = list[Line](), list[Line]()
    extent = view.points, view.extent
    for lab, label in zip(labs, labels, strict=True):
        keep, tell = keeping(lab, [lab], view), functools.partial(on_point, label)
        with lab.started():
            steep.append(scenes.along_gradient(lab.surface, label, *extent, keep, tell))
            random.append(scenes.along_random(lab.surface, label, *extent, view.directions, view.seed, keep, tell))
    return Landscape([], [*steep, *random])


_KINDS: dict[str, Callable[[list[Laboratory], list[str], View, OnCount], Landscape]] = {
    "surface": _around,
    "line": _between,
    "plane": _through,
    "along": _along,
    "client": around_client,
    "clients": through_clients,
    "client-plane": client_plane,
}


def _check_shapes(paths: Sequence[Path], labs: Sequence[Laboratory]) -> None:
    """Refuse models that have no common axes."""
    for path, lab in zip(paths, labs, strict=True):
        if _shapes(lab.surface) != _shapes(labs[0].surface):
            raise ConfigError(f"{path} has another model than {paths[0]}: they cannot be shown on one set of axes")


def _check_mixable(paths: Sequence[Path], labs: Sequence[Laboratory]) -> None:
    """Refuse models that have no common numbers or statistics."""
    first = labs[0].surface
    for path, lab in zip(paths, labs, strict=True):
        if lab.surface.w.dtype is not first.w.dtype:
            raise ConfigError(f"{path} has another number type than {paths[0]}: their models cannot be mixed")
        if set(lab.surface.buffers) != set(first.buffers):
            raise ConfigError(f"{path} and {paths[0]} do not both share BatchNorm statistics: they cannot be mixed")


def _shapes(surface: Surface) -> list[tuple[str, tuple[int, ...], bool]]:
    return [(piece.name, piece.shape, piece.local) for piece in surface.layout.parameters]


def _labels(paths: Sequence[Path], labs: Sequence[Laboratory]) -> list[str]:
    """Return a name for each: the method, with what tells equal ones apart."""
    methods = [lab.label for lab in labs]
    with_folders = [f"{method} ({path.name})" for method, path in zip(methods, paths, strict=True)]
    if _differ(methods):
        return methods
    if _differ(with_folders):
        return with_folders
    return numbered(methods)


def _differ(names: Sequence[str]) -> bool:
    return len(set(names)) == len(names)
