"""A model opened for measuring: from a run, a checkpoint, or a live model and examples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import torch
from torch import nn

from flatfed.algorithms import make
from flatfed.core.configuration.settings import Settings, dtype_name
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.evaluation.statistics import default_statistics
from flatfed.core.round.engine import Engine
from flatfed.core.round.federation import Federation
from flatfed.core.round.trainer import shared_buffers
from flatfed.core.task.task import Task
from flatfed.experiments.measuring.metrics import SMALL, start_engine
from flatfed.experiments.running.loading import open_run, restored
from flatfed.experiments.running.past import past_of
from flatfed.experiments.running.plan import Plan
from flatfed.experiments.running.run import Run
from flatfed.experiments.spelling.measurements import names_of, parse_measurements
from flatfed.flatness.measurement import Measurement, OnStep, Reading, Subject, surface_at
from flatfed.flatness.sample import Sample
from flatfed.flatness.surface import Surface
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import Readings

Weights = Literal["evaluated", "global"]
Source = str | Path | Run | Task | nn.Module


class Laboratory:
    """A model with everything that measurements need; close it, or use it in a `with` statement.

    Attributes:
        surface: the model's loss over the chosen examples.
        federation: the run that it stands in, or None.
        label: whose model it is.
        key: what decides a reading besides the measurement: run, round, weights and sample.
    """

    def __init__(
        self,
        surface: Surface,
        federation: Federation | None,
        label: str,
        key: dict[str, Any],
        path: Path | None = None,
        on_step: OnStep = lambda name, done, total: None,
        start: Callable[[], Engine] | None = None,
    ) -> None:
        self.surface, self.federation, self.label, self.key, self.path = surface, federation, label, key, path
        self._on_step, self._start = on_step, start

    def measure(self, *measurements: Measurement | str) -> dict[str, Reading]:
        """Take measurements, or look up what was taken of this run in the same way; return readings by id.

        Where one id is asked for in several ways, readings stand under what was written.
        """
        given = [parse_measurements(one) if isinstance(one, str) else [one] for one in measurements]
        chosen = [one for several in given for one in several]
        return {name: self._read(one) for name, one in zip(names_of(chosen), chosen, strict=True)}

    def _read(self, measurement: Measurement) -> Reading:
        kept = Readings(self.path) if self.path is not None else None
        key = self.key | {"measurement": measurement.to_dict()}
        if measurement.version > 1:
            key |= {"version": measurement.version}
        found = kept.find(key) if kept else None
        if found is not None:
            return Reading.from_dict(found)
        self._on_step(measurement.id, 0, None)
        reading = measurement.measure(Subject(self.surface, self.federation, self._on_step))
        if kept:
            kept.keep(key, reading.to_dict())
        return reading

    @contextmanager
    def started(self) -> Iterator[None]:
        """Have the workers for a while, where they were not to start at once."""
        before, engine = self.surface, (self._start or (lambda: self.surface.engine))()
        self._use(replace(before, engine=engine))
        try:
            yield
        finally:
            engine.close()
            self._use(before)

    def _use(self, surface: Surface) -> None:
        self.surface = surface
        if self.federation is not None:
            self.federation.engine = surface.engine

    def close(self) -> None:
        """End the workers."""
        self.surface.engine.close()

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        self.close()


def laboratory(
    source: Source,
    examples: Any = None,
    *,
    data: str = "train",
    samples: int | None = None,
    seed: int = 0,
    weights: Weights = "evaluated",
    loss: Callable[[Any, torch.Tensor], torch.Tensor] = nn.functional.cross_entropy,
    workers: int | str | None = None,
    data_dir: str | Path | None = None,
    task: Task | None = None,
    on_step: OnStep = lambda name, done, total: None,
    say: Callable[[str], None] = lambda text: None,
    start: bool = True,
) -> Laboratory:
    """Open a model for measuring.

    Args:
        source: a run directory, a checkpoint in one, a `Run`, a task (its initial model), or any `nn.Module`.
        examples: with a module: a pair of tensors, a torch Dataset, or a list with one of those per client.
        data: the loss is taken over `train` (all clients' examples), a test set, or one client's (`client 3`).
        samples: so many of them at random, if there are more; all by default.
        seed: key of that draw.
        weights: of a run with an average, the averaged model that is `evaluated`, or the last `global` one.
        loss: with a module and examples.
        workers: worker processes; by default the run's, or none where there is little to do.
        data_dir: where a run's data lie, if no longer where they were.
        task: of a run that no file can describe.
        on_step: hears what is being done.
        say: hears remarks.
        start: start the workers at once; if not, they run within `with lab.started():`.
    """
    sample = Sample(data, samples, seed)
    if weights not in ("evaluated", "global"):
        raise ConfigError(f"weights must be 'evaluated' or 'global', not {weights!r}")
    if isinstance(source, nn.Module | Task):
        return _of_model(_task(source, examples, loss), sample, workers or 0, on_step)
    if examples is not None:
        raise ConfigError("a run has examples of its own; choose among them with data=")
    if isinstance(source, Run):
        federation, path, label = copy.copy(source._federation), source.path, source._federation.algorithm.id
        identity = ""
        if path is not None:
            directory = open_run(path)
            identity = str(directory.config["run"])
            plan = Plan.from_config(directory.config, federation.task, rounds=None)
            federation.recall = partial(past_of, directory, plan, federation.round, say)
    elif not isinstance(source, str | Path):
        raise ConfigError(f"a laboratory opens a run, its directory, a task or a module, not {source!r:.60}")
    else:
        directory, round = _split(Path(source))
        plan, federation = restored(directory, task, data_dir, say, round)
        federation.recall = partial(past_of, directory, plan, federation.round, say)
        path, label, identity = directory.path, str(directory.config["method"]), str(directory.config["run"])
        workers = plan.workers if workers is None else workers
    return _of_federation(federation, sample, weights, workers or 0, path, label, identity, on_step, start)


def _split(path: Path) -> tuple[RunDirectory, int | None]:
    """Return the run that a path stands for and, where it leads to one of its checkpoints, which."""
    if is_checkpoint(path):
        directory, round = open_run(path.parent.parent), int(path.name.removeprefix("round-"))
        kept = directory.checkpoints.rounds()
        if round not in kept:
            there = ", ".join(map(str, sorted(kept))) or "none"
            raise CheckpointError(f"{path} is missing; there are checkpoints of the rounds {there}")
        return directory, round
    return open_run(path), None


def is_checkpoint(path: Path) -> bool:
    """Say whether a path leads to a checkpoint in a run directory, by its name."""
    number = path.name.removeprefix("round-")
    return path.parent.name == "checkpoints" and number != path.name and number.isascii() and number.isdigit()


def _of_federation(
    federation: Federation,
    sample: Sample,
    weights: Weights,
    workers: int | str,
    path: Path | None,
    label: str,
    identity: str,
    on_step: OnStep,
    start: bool,
) -> Laboratory:
    task, settings = federation.task, federation.settings
    begin = partial(start_engine, task, federation.algorithm, settings, _fitting(workers, sample, task))
    engine = begin() if start else start_engine(task, federation.algorithm, settings, 0)
    federation.engine = engine
    w = federation.evaluated if weights == "evaluated" else federation.server.w
    try:
        surface = surface_at(federation, w.clone(), sample)
    except Exception:
        engine.close()
        raise
    coming = min(federation.round, settings.rounds - 1)  # kept results have it in their key since the first version
    where = {"run": identity, "round": federation.round, "coming": coming}
    key = where | {"weights": weights, "sample": _plain(sample)}
    return Laboratory(surface, federation, label, key, path, on_step, begin)


def _of_model(task: Task, sample: Sample, workers: int | str, on_step: OnStep) -> Laboratory:
    layout = task.layout()
    dtype = next(p.dtype for p in task.model.parameters() if p.requires_grad)
    settings = Settings(rounds=1, lr=0.1, dtype=dtype_name(dtype), batched=False, eval_stats=default_statistics(layout))
    engine = start_engine(task, make("fedavg"), settings, _fitting(workers, sample, task))
    w = layout.read(task.model)[: layout.shared]
    buffers = shared_buffers(layout.read_buffers(task.model, dtype), layout)
    surface = Surface(engine, task, w, buffers, sample, layout)
    return Laboratory(surface, None, task.name, {"sample": _plain(sample)}, None, on_step)


def _task(source: nn.Module | Task, examples: Any, loss: Callable[[Any, torch.Tensor], torch.Tensor]) -> Task:
    if isinstance(source, Task):
        if examples is not None:
            raise ConfigError("a task has examples of its own; choose among them with data=")
        return source
    if examples is None:
        raise ConfigError("a model's loss is taken over examples; give them: laboratory(model, (inputs, targets))")
    clients: Sequence[Any] = examples if isinstance(examples, list) else [examples]
    return Task(source, clients, loss=loss, name="model")


def _fitting(workers: int | str, sample: Sample, task: Task) -> int | str:
    """Return the workers to start: none where there is so little to do that starting them would take longer."""
    return 0 if workers == "auto" and sample.count(task) < SMALL else workers


def _plain(sample: Sample) -> dict[str, Any]:
    return {"of": sample.of, "most": sample.most, "seed": sample.seed}
