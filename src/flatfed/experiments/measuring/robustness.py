"""`robustness`: the models of runs on corrupted test images; each corruption is kept beside its run once measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.evaluation.evaluator import Evaluation
from flatfed.core.round.federation import Federation
from flatfed.core.task.examples import Examples
from flatfed.core.task.task import Task
from flatfed.data.corruptions import CorruptedExamples, corruptions, find, published, white_of
from flatfed.engines.choice import Workers
from flatfed.experiments.measuring.corruption_request import (
    PUBLISHED,
    CorruptionRequest,
    corruption_names,
)
from flatfed.experiments.measuring.progress import Failures, OnCount, Say, nobody
from flatfed.experiments.measuring.saved_runs import runs_named
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.model_metrics import check_asked
from flatfed.experiments.running.run import open_run, restored
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.results.results import collect, read_run
from flatfed.reports.robustness.methods import MeasuredRun, MethodRobustness
from flatfed.reports.robustness.one_run import FILE, FORMAT, CorruptionCell, Robustness, from_dict, write
from flatfed.runs.directory import RunDirectory, is_comparison
from flatfed.runs.records.files import read_json
from flatfed.runs.results import refuse_unwritable

SEED = 0
GENERATORS = 1
"""Counts changes of the generators that change their images: results of another number are not used again."""
SMALL = 5_000
"""Fewer test images than these are evaluated in this process: workers would take longer to start."""


def robustness(
    path: str | Path,
    *,
    severities: Sequence[int] = (5,),
    names: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    workers: Workers | None = None,
    task: Task | None = None,
    trust: bool = False,
    accept_changed_data: bool = False,
    on_corruption: OnCount = nobody,
    say: Say = nobody,
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
        trust: import the code that the run names, wherever it comes from: only for a run of somebody you trust.
        accept_changed_data: open it although its examples, labels or partition are not those that it was made with.
        on_corruption: called with the name of each corruption to be measured, and how many are done, of how many.
        say: called with remarks.
    """
    directory = open_run(Path(path), trust, accept_changed_data)
    check_asked(workers)
    request = CorruptionRequest.of_run(directory, severities, names, data_dir)
    return _measured(_Run(directory, request, data_dir, workers, task), on_corruption, say)


@dataclass(frozen=True)
class _Run:
    """A run directory, what is asked of it, and what it takes to open it."""

    directory: RunDirectory
    request: CorruptionRequest
    data_dir: str | Path | None
    workers: Workers | None
    task: Task | None = None


def _measured(run: _Run, on_corruption: OnCount, say: Say) -> Robustness:
    """Return what is known of a run, with what was missing of the request measured."""
    directory, request = run.directory, run.request
    newest = _newest(directory)
    known = _known(directory, newest)
    if known is not None and not request.missing(known):
        return known.only(request.names, request.severities)
    refuse_unwritable(directory.path)
    plan, federation = restored(directory, run.task, run.data_dir, say)
    # A damaged checkpoint is passed over: what is known of the newest round is then no use.
    if federation.round != newest:
        known = _known(directory, federation.round)
    images = _CorruptedImages(directory, plan.with_workers(run.workers), federation, request, known)
    return images.measure(on_corruption).only(request.names, request.severities)


def runs_of(
    paths: Sequence[Path], *, trust: bool = False, accept_changed_data: bool = False
) -> list[Path | RunDirectory]:
    """Return the runs that paths stand for, each once: a comparison stands for all its runs.

    A path that is neither is refused, before anything is measured; so runs that were named are open already, and those
    of a comparison are not. `trust` and `accept_changed_data` are as of `robustness`.
    """
    named = {path: open_run(path, trust, accept_changed_data) for path in paths if not is_comparison(path)}
    runs: dict[Path, Path | RunDirectory] = {}
    for path in runs_named(paths):
        # Distinguished by where they lead, but shown as they were written.
        runs.setdefault(path.resolve(), named.get(path, path))
    return list(runs.values())


def robustness_of_methods(
    runs: Sequence[Path | RunDirectory],
    *,
    severities: Sequence[int] = (5,),
    names: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
    workers: Workers | None = None,
    trust: bool = False,
    accept_changed_data: bool = False,
    on_corruption: OnCount = nobody,
    say: Say = nobody,
    called: Sequence[str] | None = None,
) -> list[MethodRobustness]:
    """Measure every run as `robustness` does, and group them: runs that differ in their seed alone are one method.

    `called` names each run in place of its method; then those of one name are one method.
    Where a run cannot be measured, a remark says why and the others go on; where none can, the first error is raised.
    """
    check_asked(workers)
    chosen = corruption_names(names)
    measured, read = dict[Path, MeasuredRun](), list[OneRun]()
    failures = Failures(len(runs), say)
    for number, run in enumerate(runs):
        path = _path(run)
        show = _Counted("/".join(path.parts[-2:]), number, len(runs), len(chosen), on_corruption)
        with failures.noted(path):
            directory = _opened(run, trust, accept_changed_data)
            one = read_run(directory)  # first: a history that cannot be read would spoil the table of all in the end
            request = CorruptionRequest.of_run(directory, severities, chosen, data_dir)
            results = _measured(_Run(directory, request, data_dir, workers), show, say)
            measured[path] = _measured_run(path, directory, results)
            read.append(one)
    failures.check(measured)
    if called is not None:
        return _by_name(dict(zip(map(_path, runs), called, strict=True)), measured)
    return [_of_method(result, measured) for result in collect(read)]


def _by_name(names: Mapping[Path, str], measured: Mapping[Path, MeasuredRun]) -> list[MethodRobustness]:
    methods: dict[str, MethodRobustness] = {}
    for path, run in measured.items():
        methods.setdefault(names[path], MethodRobustness(names[path], [])).runs.append(run)
    return list(methods.values())


def _opened(run: Path | RunDirectory, trust: bool, accept_changed_data: bool) -> RunDirectory:
    """Open a run; one that is open is read again only where another process has continued it meanwhile."""
    if isinstance(run, RunDirectory) and not run.was_continued():
        return run
    return open_run(_path(run), trust, accept_changed_data)


def _path(run: Path | RunDirectory) -> Path:
    return run.path if isinstance(run, RunDirectory) else run


def _of_method(result: Result, measured: Mapping[Path, MeasuredRun]) -> MethodRobustness:
    return MethodRobustness(result.method, [measured[run.path] for run in result.runs])


@dataclass(frozen=True)
class _Counted:
    """Tells of a run's corruptions as part of those of all runs; what is measured already counts as done."""

    label: str
    number: int
    runs: int
    count: int
    on_corruption: OnCount

    def __call__(self, name: str, done: int, total: int) -> None:
        if self.runs == 1:
            self.on_corruption(name, done, total)
            return
        before = self.number * self.count + self.count - total
        self.on_corruption(f"{self.label}: {name}", before + done, self.runs * self.count)


def _measured_run(path: Path, directory: RunDirectory, results: Robustness) -> MeasuredRun:
    settings, status = directory.config["settings"], directory.status()["status"]
    return MeasuredRun(path, int(settings["seed"]), str(status), int(settings["rounds"]), results)


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
        is_known = data.get("format") in (1, FORMAT)
        if not is_known or data.get("key") != _key(directory, round):
            return None
        return from_dict(data)
    except (CheckpointError, KeyError, TypeError):
        return None


class _CorruptedImages:
    """The model of a run, its test images, and what is known of it so far."""

    def __init__(
        self,
        directory: RunDirectory,
        plan: Plan,
        federation: Federation,
        request: CorruptionRequest,
        known: Robustness | None,
    ) -> None:
        self.directory, self.plan, self.federation, self.request = directory, plan, federation, request
        task = plan.task
        if task.test is None:
            raise ConfigError(f"{directory.path} has no test set to corrupt")
        self.clean: Examples = task.test
        if not isinstance(self.clean.batch(torch.arange(1))[0], torch.Tensor):
            raise ConfigError(f"{directory.path} was not trained on images alone; corruptions are of images")
        self.white = white_of(self.clean, task.prepare)
        self.shape = tuple(self.clean.batch(torch.arange(1))[0].shape[1:])
        self.results = known or self._on_clean_images()

    def _on_clean_images(self) -> Robustness:
        config = self.directory.config
        clean = self._evaluate({"clean": self.clean})["clean"]
        name = str(config["task"].get("dataset") or config["task"].get("name", "task"))
        return Robustness(config["method"], self.federation.round, name, len(self.clean), clean)

    def measure(self, on_corruption: OnCount) -> Robustness:
        """Measure what is missing, keeping each corruption when it is done."""
        missing = self.request.missing(self.results)
        for done, (name, severities) in enumerate(missing.items()):
            on_corruption(name, done, len(missing))
            self._measure(name, severities)
        self._write(figure=True)
        return self.results

    def _measure(self, name: str, severities: list[int]) -> None:
        skipped = dict(self.results.skipped)
        skipped.pop(name, None)
        reason = self._unfit(name)
        if reason is not None:
            self.results = replace(self.results, skipped=skipped | {name: reason})
            return
        cells = _merged(self.results.cells, self._cells(name, severities))
        self.results = replace(self.results, cells=cells, skipped=skipped)
        # After each corruption, so that an interrupted measurement goes on from there; the figure is drawn at the end.
        self._write(figure=False)

    def _unfit(self, name: str) -> str | None:
        """Say why a corruption cannot be made of these images, if so."""
        if self.request.sources[name] == PUBLISHED:
            return None
        return find(name).unfit(*self.shape)

    def _cells(self, name: str, severities: list[int]) -> list[CorruptionCell]:
        """Return what the model does on a corruption, a cell for each severity."""
        source = self.request.sources[name]
        tests = {f"{name}_{severity}": self._examples(name, severity) for severity in severities}
        metrics = self._evaluate(tests)
        return [CorruptionCell(name, severity, source, metrics[f"{name}_{severity}"]) for severity in severities]

    def _write(self, figure: bool) -> None:
        write(self.results, self.directory.path, _key(self.directory, self.federation.round), figure)

    def _examples(self, name: str, severity: int) -> Examples:
        if self.request.sources[name] == PUBLISHED:
            return published(self.results.dataset, name, severity, self.request.data_dir)
        return CorruptedExamples(self.clean, name, severity, self.white, SEED)

    def _evaluate(self, tests: dict[str, Examples]) -> dict[str, dict[str, float]]:
        """Return the metrics of the model on each of the test sets."""
        # An engine evaluates the test sets of its task: these images need a task and an engine of their own.
        task = replace(self.plan.task, test=None, tests=tests)
        plan = replace(self.plan, task=task, workers=self._workers(tests))
        engine = plan.engine()
        try:
            model, buffers = self.federation.evaluated, self.federation.server.buffers
            metrics = Evaluation(engine, task, plan.settings, model, buffers).metrics()
        finally:
            engine.close()
        # Lists, such as the accuracies of the classes, have no cell in the table.
        numbers = {name: value for name, value in metrics.items() if isinstance(value, float)}
        return {test: _of_test(test, numbers) for test in tests}

    def _workers(self, tests: Mapping[str, Examples]) -> Workers:
        is_small = sum(len(examples) for examples in tests.values()) < SMALL
        return 0 if is_small else self.plan.workers


def _merged(known: Sequence[CorruptionCell], fresh: Sequence[CorruptionCell]) -> list[CorruptionCell]:
    """Return cells with fresh ones of one corruption, in the order of the catalogue.

    Those of the same corruption from another source are dropped: one table does not mix the two.
    """
    name, source = fresh[0].corruption, fresh[0].source
    kept = [cell for cell in known if cell.corruption != name or cell.source == source]
    order = list(corruptions())
    return sorted([*kept, *fresh], key=lambda cell: (order.index(cell.corruption), cell.severity))


def _of_test(test: str, numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers of one test set under their names without its own."""
    prefix = f"{test}_"
    return {name.removeprefix(prefix): value for name, value in numbers.items() if name.startswith(prefix)}
