"""`robustness`: the models of runs on corrupted test images; each corruption is kept beside its run once measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from flatfed.core.errors import CheckpointError, ConfigError, FlatfedError
from flatfed.core.evaluation.evaluations import Evaluation
from flatfed.core.round.federation import Federation
from flatfed.core.task.examples import Examples
from flatfed.core.task.task import Task
from flatfed.data.corruptions import CorruptedExamples, corruptions, find, has_published, published, white_of
from flatfed.experiments.comparing.compare import is_comparison
from flatfed.experiments.measuring.flatness import runs_named
from flatfed.experiments.running.loading import Say, open_run, restored
from flatfed.experiments.running.plan import Plan
from flatfed.experiments.running.play import make_engine
from flatfed.reports.results.results import collect
from flatfed.reports.robustness.methods import MeasuredRun, MethodRobustness
from flatfed.reports.robustness.one_run import FILE, FORMAT, Cell, Robustness, from_dict, write
from flatfed.runs.directory import RunDirectory
from flatfed.runs.files import read_json

SEED = 0
GENERATORS = 1
"""Counts changes of the generators that change their images: results of another number are not used again."""
SMALL = 5_000
"""So few test images are evaluated in this process: workers would take longer to start."""

OnCorruption = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Request:
    """What is asked for, and where the images come from."""

    names: list[str]
    severities: list[int]
    sources: dict[str, str]
    data_dir: str | Path | None


def robustness(
    path: str | Path,
    *,
    severities: Sequence[int] = (5,),
    names: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    workers: int | str | None = None,
    task: Task | None = None,
    on_corruption: OnCorruption = lambda name, done, total: None,
    say: Say = lambda text: None,
) -> Robustness:
    """Measure the evaluated model of the run in `path` on corrupted test images, and write the results beside it.

    What was measured before, for the same model and images, is not measured again.

    Args:
        path: the run directory.
        severities: some of 1 to 5.
        names: corruptions; None is all of them.
        data_dir: where the data sets and the published corruptions lie; by default where the run found its data.
        workers: another number of worker processes; results do not depend on it.
        task: needed only where the run was made from objects that no file can describe.
        on_corruption: called with the name of each corruption to be measured, and how many are done, of how many.
        say: called with remarks.
    """
    directory = open_run(Path(path))
    request = _request(directory, severities, names, data_dir)
    known = _known(directory, _newest(directory))
    if known is not None and not _missing(request, known):
        return known.only(request.names, request.severities)
    plan, federation = restored(directory, task, data_dir, say)
    if federation.round != _newest(directory):
        known = _known(directory, federation.round)
    plan = plan.with_workers(workers)
    found = _Measurement(directory, plan, federation, request, known).run(on_corruption)
    return found.only(request.names, request.severities)


def runs_of(paths: Sequence[Path]) -> list[Path]:
    """Return the runs that paths stand for, each once: a comparison stands for all its runs.

    A path that is neither is refused, before anything is measured.
    """
    for path in paths:
        if not is_comparison(path):
            open_run(path)
    found: dict[Path, Path] = {}
    for path in runs_named(paths):
        found.setdefault(path.resolve(), path)
    return list(found.values())


def robustness_of_methods(
    paths: Sequence[Path],
    *,
    severities: Sequence[int] = (5,),
    names: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    workers: int | str | None = None,
    on_corruption: OnCorruption = lambda name, done, total: None,
    say: Say = lambda text: None,
) -> list[MethodRobustness]:
    """Measure every run as `robustness` does, and group them: runs that differ in their seed alone are one method.

    A run that cannot be measured is told of and the others go on; where none can, the first error is raised.
    """
    chosen = [find(name).name for name in names] if names is not None else list(corruptions())
    wanted: dict[str, Any] = {"severities": severities, "names": chosen, "data_dir": data_dir, "workers": workers}
    measured, errors = dict[Path, MeasuredRun](), list[FlatfedError]()
    for number, path in enumerate(paths):
        show = _Counted("/".join(path.parts[-2:]), number, len(paths), len(chosen), on_corruption)
        try:
            collect([path])  # a history that cannot be read would spoil the table of all in the end
            measured[path] = _measured_run(path, robustness(path, **wanted, on_corruption=show, say=say))
        except FlatfedError as error:
            errors.append(error)
            if len(paths) > 1:
                say(f"{path}: {error}")
    if not measured:
        raise errors[0]
    results = collect(list(measured))
    return [MethodRobustness(result.method, [measured[run.path] for run in result.runs]) for result in results]


@dataclass(frozen=True)
class _Counted:
    """Tells of a run's corruptions as part of those of all runs; what is measured already counts as done."""

    label: str
    number: int
    runs: int
    count: int
    on_corruption: OnCorruption

    def __call__(self, name: str, done: int, total: int) -> None:
        if self.runs == 1:
            self.on_corruption(name, done, total)
        else:
            before = self.number * self.count + self.count - total
            self.on_corruption(f"{self.label}: {name}", before + done, self.runs * self.count)


def _measured_run(path: Path, found: Robustness) -> MeasuredRun:
    directory = RunDirectory.open(path)
    settings, status = directory.config["settings"], directory.status()["status"]
    return MeasuredRun(path, int(settings["seed"]), str(status), int(settings["rounds"]), found)


def _request(
    directory: RunDirectory, severities: Sequence[int], names: Sequence[str] | None, data_dir: str | Path | None
) -> Request:
    chosen = [find(name).name for name in names] if names is not None else list(corruptions())
    for severity in severities:
        if severity not in (1, 2, 3, 4, 5):
            raise ConfigError(f"severity must be 1 to 5, not {severity!r}")
    recipe = directory.config["task"]
    place = data_dir or recipe.get("data_dir")
    # The published labels are CIFAR-100's fine ones.
    dataset = "" if recipe.get("data_options", {}).get("labels") == "coarse" else str(recipe.get("dataset", ""))
    sources = {name: "published" if has_published(dataset, name, place) else "generated" for name in chosen}
    return Request(chosen, sorted(set(severities)), sources, place)


def _newest(directory: RunDirectory) -> int | None:
    rounds = directory.checkpoints.rounds()
    return rounds[0] if rounds else None


def _key(directory: RunDirectory, round: int | None) -> dict[str, Any]:
    """Return what decides the results: the run, the round of its model, the seed and the make of the images."""
    return {"run": directory.config["run"], "round": round, "seed": SEED, "generators": GENERATORS}


def _known(directory: RunDirectory, round: int | None) -> Robustness | None:
    """Return what was measured before for this model; a file that cannot be used is passed over."""
    try:
        data = read_json(directory.path / FILE)
        same = data.get("format") == FORMAT and data.get("key") == _key(directory, round)
        return from_dict(data) if same else None
    except (CheckpointError, KeyError, TypeError):
        return None


def _missing(request: Request, known: Robustness) -> dict[str, list[int]]:
    """Return the corruptions still to be measured, each with its severities."""
    found: dict[str, list[int]] = {}
    for name in request.names:
        source = request.sources[name]
        if name in known.skipped and source == "generated":
            continue
        done = {c.severity for c in known.cells if c.corruption == name and c.source == source}
        if left := [severity for severity in request.severities if severity not in done]:
            found[name] = left
    return found


class _Measurement:
    """The model of a run, its test images, and what is known of it so far."""

    def __init__(
        self,
        directory: RunDirectory,
        plan: Plan,
        federation: Federation,
        request: Request,
        known: Robustness | None,
    ) -> None:
        self.directory, self.plan, self.federation, self.request = directory, plan, federation, request
        task = plan.task
        if task.test is None:
            raise ConfigError(f"{directory.path} has no test set to corrupt")
        self.clean: Examples = task.test
        self.white = white_of(self.clean, task.prepare)
        self.shape = tuple(self.clean.batch(torch.arange(1))[0].shape[1:])
        self.found = known or self._fresh()

    def _fresh(self) -> Robustness:
        config = self.directory.config
        clean = self._evaluate({"clean": self.clean})["clean"]
        name = str(config["task"].get("dataset") or config["task"].get("name", "task"))
        return Robustness(config["method"], self.federation.round, name, len(self.clean), clean)

    def run(self, on_corruption: OnCorruption) -> Robustness:
        """Measure what is missing, keeping each corruption when it is done."""
        missing = _missing(self.request, self.found)
        for done, (name, severities) in enumerate(missing.items()):
            on_corruption(name, done, len(missing))
            self._measure(name, severities)
        self._write(figure=True)
        return self.found

    def _measure(self, name: str, severities: list[int]) -> None:
        source = self.request.sources[name]
        reason = find(name).unfit(*self.shape) if source == "generated" else None
        skipped = {other: why for other, why in self.found.skipped.items() if other != name}
        if reason is not None:
            self.found = replace(self.found, skipped=skipped | {name: reason})
            return
        tests = {f"{name}_{severity}": self._examples(name, severity) for severity in severities}
        figures = self._evaluate(tests)
        fresh = [Cell(name, severity, source, figures[f"{name}_{severity}"]) for severity in severities]
        kept = [c for c in self.found.cells if c.corruption != name or c.source == source]
        order = list(corruptions())
        cells = sorted(kept + fresh, key=lambda cell: (order.index(cell.corruption), cell.severity))
        self.found = replace(self.found, cells=cells, skipped=skipped)
        self._write(figure=False)

    def _write(self, figure: bool) -> None:
        write(self.found, self.directory.path, _key(self.directory, self.federation.round), figure)

    def _examples(self, name: str, severity: int) -> Examples:
        if self.request.sources[name] == "published":
            return published(self.found.dataset, name, severity, self.request.data_dir)
        return CorruptedExamples(self.clean, name, severity, self.white, SEED)

    def _evaluate(self, tests: dict[str, Examples]) -> dict[str, dict[str, float]]:
        """Return the figures of the model on each of the test sets."""
        task = replace(self.plan.task, test=None, tests=tests)
        small = sum(len(examples) for examples in tests.values()) < SMALL
        plan = replace(self.plan, task=task, workers=0 if small else self.plan.workers)
        engine = make_engine(plan, lambda: None)
        try:
            model, buffers = self.federation.evaluated, self.federation.server.buffers
            figures = Evaluation(engine, task, plan.settings, model, buffers).figures()
        finally:
            engine.close()
        numbers = {name: value for name, value in figures.items() if isinstance(value, float)}
        return {
            test: {n.removeprefix(f"{test}_"): v for n, v in numbers.items() if n.startswith(f"{test}_")}
            for test in tests
        }
