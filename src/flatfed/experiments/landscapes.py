"""Landscapes of runs: which models, which examples, where the points are kept; and their numbers on disk."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flatfed.core.errors import ConfigError
from flatfed.core.loop import Federation
from flatfed.core.probe import ClientModel, last_round, probe
from flatfed.experiments.laboratory import Laboratory, Weights, laboratory
from flatfed.flatness.landscape import scenes
from flatfed.flatness.results import Grid, Line
from flatfed.flatness.sample import TRAIN, Sample, own
from flatfed.flatness.surface import Surface
from flatfed.runs.readings import Points, finite

Kind = Literal["surface", "line", "plane", "along", "client"]
RUNS: dict[str, tuple[int, int | None]] = {
    "surface": (1, None),
    "line": (2, 2),
    "plane": (3, 3),
    "along": (1, None),
    "client": (1, 1),
}
"""How many runs a kind takes, at least and at most."""

LINE = (-1.0, 2.0)
"""A line through two models reaches so far, in shares of the first."""

OnPoint = Callable[[str, int, int], None]


@dataclass(frozen=True)
class View:
    """What is looked at, and how finely.

    Attributes:
        kind: `surface` (around each model), `line` (between two), `plane` (through three), `along` (perturbations) or
            `client` (a client's model after local training, on its own examples and on everyone's).
        points: points an axis, odd.
        extent: how far from the model: in filter norms for a surface, in distance for `along`.
        samples: over so many examples at most; None is all.
        seed: key of the directions and of the draw of examples.
        weights: the evaluated or the last global model of a run with an average.
        client: whose model `client` shows; by default the first of the round.
        round: `client` shows a model of the `last` round, before it was averaged, or of the `next`.
        directions: random directions that `along` takes the mean over.
    """

    kind: Kind = "surface"
    points: int = 21
    extent: float = 1.0
    samples: int | None = 5_000
    seed: int = 0
    weights: Weights = "evaluated"
    client: int | None = None
    directions: int = 10
    round: Literal["last", "next"] = "last"

    def __post_init__(self) -> None:
        scenes.check_points(self.points)
        if not 0 < self.extent < math.inf:
            raise ConfigError(f"the extent must be a number greater than 0, not {self.extent:g}")


@dataclass(frozen=True)
class Landscape:
    """What came of it: grids or lines, ready to draw."""

    grids: list[Grid]
    lines: list[Line]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {"grids": [_plain(grid) for grid in self.grids], "lines": [_plain(line) for line in self.lines]}


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
        keep, tell = _keep(lab, [lab], view), functools.partial(on_point, label)
        with lab.started():
            grids.append(scenes.around(lab.surface, label, view.points, view.extent, view.seed, keep, tell))
    return Landscape(grids, [])


def _between(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    a, b = ((n, lab.surface.w, lab.surface.buffers) for n, lab in zip(labels, labs, strict=True))
    low, high = LINE
    steps = (view.points - 1) * 3 // 2 // 3 * 3  # so that 0 and 1 are on the grid
    shares = [low + (high - low) * number / steps for number in range(steps + 1)]
    tell = functools.partial(on_point, f"{labels[1]} to {labels[0]}")
    keep = _keep(labs[0], labs, view)
    with labs[0].started():
        return Landscape([], [scenes.between(_train_and_tests(labs[0]), a, b, shares, keep, tell)])


def _through(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    models = [(n, lab.surface.w, lab.surface.buffers) for n, lab in zip(labels, labs, strict=True)]
    grids, keep = [], _keep(labs[0], labs, view)
    with labs[0].started():
        for surface in _train_and_tests(labs[0]):
            tell = functools.partial(on_point, f"plane, {surface.sample.of}")
            grids.append(scenes.through(surface, models, view.points, keep, tell))
    return Landscape(grids, [])


def _along(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    steep, random = list[Line](), list[Line]()
    for lab, label in zip(labs, labels, strict=True):
        keep, tell = _keep(lab, [lab], view), functools.partial(on_point, label)
        with lab.started():
            steep.append(scenes.along_gradient(lab.surface, label, view.points, view.extent, keep, tell))
            where = view.points, view.extent, view.directions, view.seed
            random.append(scenes.along_random(lab.surface, label, *where, keep, tell))
    return Landscape([], [*steep, *random])


def _of_client(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    [lab], [label] = labs, labels
    assert lab.federation is not None
    if view.client is not None:
        own(view.client).count(lab.surface.task)
    with lab.started():
        model = _client_model(lab.federation, view)
        name, grids = f"client {model.client}", []
        keep = _keep(lab, [lab], view, client=model.client, round=view.round)
        for part, sample in (("own examples", own(model.client)), ("everyone's examples", lab.surface.sample)):
            surface = lab.surface.over(sample).at(model.w, model.buffers)
            tell, title = functools.partial(on_point, f"{name}, {part}"), f"{label}, {name}: {part}"
            grids.append(scenes.around(surface, title, view.points, view.extent, view.seed, keep, tell, mark=name))
    return Landscape(grids, [])


def _client_model(federation: Federation, view: View) -> ClientModel:
    """Return the model that a client trained in the last round, or would train in the next."""
    if view.round == "next":
        return probe(federation, None if view.client is None else [view.client]).models[0]
    models = {model.client: model for model in last_round(federation).models}
    client = min(models) if view.client is None else view.client
    if client not in models:
        took = ", ".join(map(str, sorted(models)))
        raise ConfigError(f"client {client} did not take part in the last round; those that did are {took}")
    return models[client]


_KINDS: dict[str, Callable[[list[Laboratory], list[str], View, OnPoint], Landscape]] = {
    "surface": _around,
    "line": _between,
    "plane": _through,
    "along": _along,
    "client": _of_client,
}


def _train_and_tests(lab: Laboratory) -> list[Surface]:
    """Return the loss over the training examples and over the test set, where there is one."""
    task, sample = lab.surface.task, lab.surface.sample
    names = [TRAIN, *list(task.test_sets)[:1]]
    return [lab.surface.over(Sample(name, sample.most, sample.seed)) for name in names]


def _keep(home: Laboratory, labs: Sequence[Laboratory], view: View, **more: Any) -> scenes.Keep:
    """Return what says where points are kept: in the run's directory, under what decides them."""
    models = [lab.key for lab in labs]
    grid = {"kind": view.kind, "seed": view.seed, "samples": view.samples, **more}

    def keep(part: str) -> Points | None:
        if home.path is None:
            return None
        key = {"format": 1, "view": grid, "part": part, "models": models}
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        return Points(home.path, f"{view.kind}-{part.replace(' ', '-')}-{digest}", key)

    return keep


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


def _plain(found: Grid | Line) -> dict[str, Any]:
    """Return the numbers, ready for JSON."""
    values = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in vars(found).items()}
    losses = values["losses"]
    if isinstance(losses, dict):
        values["losses"] = {name: entry.tolist() for name, entry in losses.items()}
    told: dict[str, Any] = finite(values)
    return told
