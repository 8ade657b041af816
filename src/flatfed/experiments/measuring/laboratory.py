"""A model opened for measuring: from a run, a checkpoint, or a live model and examples."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from flatfed.algorithms import make
from flatfed.core.configuration.settings import Settings, dtype_name
from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.evaluator import Statistics, default_statistics, has_local_statistics
from flatfed.core.method.engine import Engine
from flatfed.core.model.full_space import Space
from flatfed.core.round.federation import Federation
from flatfed.core.round.trainer import shared_buffers
from flatfed.core.task.outputs import Loss
from flatfed.core.task.task import Task
from flatfed.engines.choice import EngineConfig, Workers, chosen, start_engine
from flatfed.experiments.measuring.progress import OnStep, Say, nobody
from flatfed.experiments.measuring.saved_runs import SavedRun, open_saved
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.inference_model import inference_model
from flatfed.experiments.running.model_metrics import SMALL
from flatfed.experiments.running.past import past_of
from flatfed.experiments.running.run import Run, open_run, restored
from flatfed.experiments.spelling.methods import names_of, parse_measurements
from flatfed.flatness.measurement import Measurement, MeasurementResult, Subject
from flatfed.flatness.sums import Sample
from flatfed.flatness.surface import Surface, surface_at
from flatfed.hub_models.adapters import in_full_space
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults

Weights = Literal["evaluated", "global"]
FULL_SPACE = "in the full space: all parameters, adapters merged and frozen layers free"
PART_SPACE = "in the trained space: {trained} of {all} parameters, the others are frozen"
Source = str | Path | SavedRun | Run | Task | nn.Module


class Laboratory:
    """A model with everything that measurements need; close it, or use it in a `with` statement.

    Attributes:
        surface: the model's loss over the chosen examples.
        federation: the run whose clients can be asked in this space, or None.
        label: whose model it is.
        key: what decides a result besides the measurement: run, round, weights and sample.
        directory: where the run lies, or None.
        space: which parameters the loss is a function of, where these are not all that are trained.
        lift: what takes the parameters that are trained to those that the loss is a function of.
    """

    def __init__(
        self,
        surface: Surface,
        federation: Federation | None,
        label: str,
        key: dict[str, Any],
        directory: RunDirectory | None = None,
        on_step: OnStep = nobody,
        start: Callable[[], Engine] | None = None,
        space: str = "",
    ) -> None:
        self.surface, self.federation, self.label, self.key = surface, federation, label, key
        self.directory, self.space = directory, space
        self.lift: Callable[[Tensor], Tensor] = _same
        self._origin = federation
        self._on_step, self._start = on_step, start
        self._is_started = start is None

    @property
    def path(self) -> Path | None:
        """The run directory, or None."""
        return None if self.directory is None else self.directory.path

    @property
    def short_space(self) -> str:
        """In which space the loss is seen, in a few words; nothing where all parameters are trained."""
        return self.space.partition(":")[0]

    @property
    def run(self) -> Federation:
        """The run that the model comes from; a model alone has none."""
        if self._origin is None:
            raise ConfigError(f"{self.label} is a model alone; this needs a run")
        return self._origin

    def come_from(self, run: Federation, lift: Callable[[Tensor], Tensor]) -> None:
        """Say which run the model comes from, where its clients train other parameters than these."""
        self._origin, self.lift = run, lift

    def measure(self, *measurements: Measurement | str) -> dict[str, MeasurementResult]:
        """Take measurements, or look up what was taken of this run in the same way; return results by id.

        Where one id is asked for in several ways, results stand under what was written.
        """
        chosen: list[Measurement] = []
        for measurement in measurements:
            chosen += _parsed(measurement)
        return dict(zip(names_of(chosen), map(self._result, chosen), strict=True))

    def _result(self, measurement: Measurement) -> MeasurementResult:
        if self._kept is None:
            return self._taken(measurement)
        key = self.key | {"measurement": measurement.to_dict()}
        if measurement.version > 1:
            # The first version is not in the key: results that were kept before versions were counted are still found.
            key |= {"version": measurement.version}
        known = self._kept.find(key)
        if known is not None:
            return MeasurementResult.from_dict(known)
        self._kept.refuse_unwritable()
        result = self._taken(measurement)
        self._kept.keep(key, result.to_dict())
        return result

    def _taken(self, measurement: Measurement) -> MeasurementResult:
        self._on_step(measurement.id, 0, None)
        needs = "a run, not a model alone" if self._origin is None else "the trained space: no client has the full one"
        result = measurement.measure(Subject(self.surface, self.federation, self._on_step, needs))
        if not self.space:
            return result
        return replace(result, remark="; ".join(filter(None, (result.remark, self.space))))

    @functools.cached_property
    def _kept(self) -> KeptResults | None:
        """What was measured of the run; read when the first measurement is asked for, and when one is added."""
        return None if self.path is None else KeptResults(self.path)

    @contextmanager
    def started(self) -> Iterator[None]:
        """Have the workers for a while, where they were not to start at once; if they run already, use those.

        Landscapes open many runs together. Workers of all would share the cores, and each would hold a model: so a
        run's workers start only when its turn comes, and end with it.
        """
        if self._is_started or self._start is None:
            yield
            return
        idle, engine = self.surface.engine, self._start()
        self._use(engine, is_started=True)
        try:
            yield
        finally:
            engine.close()
            self._use(idle, is_started=False)

    def _use(self, engine: Engine, is_started: bool) -> None:
        # In both: measurements of the loss ask the surface, those of clients ask the federation.
        self.surface = replace(self.surface, engine=engine)
        self._is_started = is_started
        if self.federation is not None:
            self.federation.engine = engine

    def close(self) -> None:
        """End the workers."""
        self.surface.engine.close()

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        self.close()


def _same(w: Tensor) -> Tensor:
    return w


def _parsed(measurement: Measurement | str) -> list[Measurement]:
    return parse_measurements(measurement) if isinstance(measurement, str) else [measurement]


def laboratory(
    source: Source,
    examples: Any = None,
    *,
    data: str = "train",
    samples: int | None = None,
    seed: int = 0,
    weights: Weights = "evaluated",
    space: Space = "trained",
    loss: Loss = nn.functional.cross_entropy,
    workers: Workers | None = None,
    engine: str | EngineConfig | Engine | None = None,
    data_dir: str | Path | None = None,
    task: Task | None = None,
    trust: bool = False,
    accept_changed_data: bool = False,
    on_step: OnStep = nobody,
    say: Say = nobody,
    start: bool = True,
) -> Laboratory:
    """Open a model for measuring.

    Args:
        source: a run directory, a checkpoint in one (as a path or already open), a `Run`, a task (its initial model),
            or any `nn.Module`.
        examples: with a module: a pair of tensors, a torch Dataset, or a list with one of those per client.
        data: the loss is taken over `train` (all clients' examples), a test set, or one client's (`client 3`).
        samples: this number of them at random, if there are more; all by default.
        seed: key of that draw.
        weights: of a run with an average, the averaged model that is `evaluated`, or the last `global` one.
        space: the loss as a function of the parameters that are `trained` (with LoRA the adapters), or of all: in the
            `full` space adapters are merged into the weights and frozen layers are free. Remarks of results say which.
        loss: with a module and examples.
        workers: worker processes; by default the run's, or none where there is little to do.
        engine: where it is computed, as in `ff.train`.
        data_dir: where a run's data lie, if no longer where they were.
        task: of a run that no file can describe.
        trust: import the code that a run names, wherever it comes from: only for a run of somebody you trust.
        accept_changed_data: open it although its examples, labels or partition are not those that it was made with.
        on_step: hears what is being done.
        say: hears remarks.
        start: start the workers at once; if not, they run within `with lab.started():`.
    """
    sample = Sample(data, samples, seed)
    workers = chosen(engine, workers)
    _check_choice("weights", weights, Weights)
    _check_choice("space", space, Space)
    if isinstance(source, nn.Module):
        source = _task(source, examples, loss)
    else:
        _refuse_examples(source, examples)
    if isinstance(source, Task):
        return _of_task(in_full_space(source) if space == "full" else source, sample, workers or 0, on_step, space)
    if isinstance(source, str | Path):
        source = open_saved(source, trust=trust, accept_changed_data=accept_changed_data)
    opened = _opened(source, task, data_dir, say)
    if space == "full":
        return _of_whole_run(opened, sample, weights, workers, on_step, start)
    return _of_run(opened, sample, weights, workers, on_step, start)


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if value not in get_args(choices):
        raise ConfigError(f"{name} must be {' or '.join(map(repr, get_args(choices)))}, not {value!r}")


@dataclass(frozen=True)
class _OpenedRun:
    """A run to be measured.

    Attributes:
        federation: its state.
        label: its name for people.
        identity: what tells it from every other run, or nothing where it lies nowhere.
        directory: where it lies, or None.
        workers: the worker processes that it was trained with.
        idle: an engine of this process that holds the task's model already, or None.
    """

    federation: Federation
    label: str
    identity: str = ""
    directory: RunDirectory | None = None
    workers: Workers = 0
    idle: Engine | None = None

    def engine(self, workers: Workers) -> Engine:
        """Start workers; where none are asked for, the engine that is there serves: another would copy the model."""
        if workers == 0 and self.idle is not None:
            return self.idle
        return start_engine(self.federation.task, self.federation.algorithm, self.federation.settings, workers)

    def starter(self, workers: Workers | None, sample: Sample) -> Callable[[], Engine]:
        """Return what starts the workers that are asked for, or as many as the run was trained with."""
        asked = self.workers if workers is None else workers
        return partial(self.engine, _fitting(asked, sample, self.federation.task))


def _opened(source: Any, task: Task | None, data_dir: str | Path | None, say: Say) -> _OpenedRun:
    if isinstance(source, Run):
        return _live(source, say)
    if not isinstance(source, str | Path | SavedRun):
        raise ConfigError(f"a laboratory opens a run, its directory, a task or a module, not {source!r:.60}")
    return _restored(open_saved(source), task, data_dir, say)


def _live(run: Run, say: Say) -> _OpenedRun:
    """Open a run that is in memory."""
    # A copy has an engine of its own: laboratories of one run do not end each other's workers.
    federation = copy.copy(run._federation)
    label = federation.algorithm.id
    if run.path is None:
        return _OpenedRun(federation, label)
    directory = open_run(run.path)
    plan = Plan.from_config(directory.config, federation.task, rounds=None, by=directory.named_by)
    federation.recall = partial(past_of, directory, plan, federation.round, say)
    return _OpenedRun(federation, label, str(directory.config["run"]), directory)


def _restored(run: SavedRun, task: Task | None, data_dir: str | Path | None, say: Say) -> _OpenedRun:
    """Open a run from its checkpoint."""
    run.check()
    directory = run.directory
    plan, federation = restored(directory, task or run.task(data_dir), data_dir, say, run.round)
    federation.recall = partial(past_of, directory, plan, federation.round, say)
    identity = str(directory.config["run"])
    return _OpenedRun(federation, run.method, identity, directory, plan.workers, federation.engine)


def _of_run(
    run: _OpenedRun, sample: Sample, weights: Weights, workers: Workers | None, on_step: OnStep, start: bool
) -> Laboratory:
    federation = run.federation
    begin = run.starter(workers, sample)
    federation.engine = begin() if start else run.engine(0)
    try:
        surface = surface_at(federation, _weights(federation, weights).clone(), sample)
    except Exception:
        # Nobody else will end the workers: there is no laboratory to close yet.
        federation.engine.close()
        raise
    key = _key(run, weights, sample)
    begin_later = None if start else begin
    named = _trained_space(federation.task)
    return Laboratory(surface, federation, run.label, key, run.directory, on_step, begin_later, named)


def _of_whole_run(
    run: _OpenedRun, sample: Sample, weights: Weights, workers: Workers | None, on_step: OnStep, start: bool
) -> Laboratory:
    """Open a run's model with all of its parameters: no client has trained it so, and none can be asked."""
    federation = run.federation
    # Clients' models of a round are trained here, where one is asked for.
    federation.engine = run.engine(0)
    task = federation.task.apart()
    whole = in_full_space(replace(task, model=inference_model(federation, weights)))
    asked = run.workers if workers is None else workers
    lab = _of_task(whole, sample, asked, on_step, "full", start, _statistics(federation))
    lab.label, lab.directory = run.label, run.directory
    lab.key = _key(run, weights, sample) | {"space": "full"}
    lab.come_from(federation, partial(_lifted, task, federation.settings.torch_dtype))
    return lab


def _statistics(federation: Federation) -> Statistics:
    """Return the statistics that the run's model is evaluated with; calibrated ones are in the model already."""
    statistics = federation.settings.eval_stats or default_statistics(federation.task.layout())
    return "running" if statistics == "recalibrate" else statistics


def _lifted(task: Task, dtype: torch.dtype, w: Tensor) -> Tensor:
    """Return all parameters of the model whose trained ones are `w`, adapters merged."""
    layout = task.layout()
    if len(w) != layout.size or has_local_statistics(layout):
        raise ConfigError("layers of this model stay on the clients: their models are seen in the trained space only")
    model = task.fresh_model(dtype)
    layout.write(w, model)
    whole = in_full_space(replace(task, model=model))
    return whole.layout().read(whole.model)


def _trained_space(task: Task) -> str:
    """Return how many parameters are trained, where some are frozen."""
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in task.model.parameters()]
    trained, together = sum(size for size, is_trained in counts if is_trained), sum(size for size, _ in counts)
    return "" if trained == together else PART_SPACE.format(trained=trained, all=together)


def _weights(federation: Federation, weights: Weights) -> Tensor:
    return federation.evaluated if weights == "evaluated" else federation.server.w


def _key(run: _OpenedRun, weights: Weights, sample: Sample) -> dict[str, Any]:
    """Return what decides a result besides the measurement."""
    federation = run.federation
    return {
        "run": run.identity,
        "round": federation.round,
        "coming": min(federation.round, federation.settings.rounds - 1),  # kept results have it since the first version
        "weights": weights,
        "sample": _plain(sample),
    }


def _of_task(
    task: Task,
    sample: Sample,
    workers: Workers,
    on_step: OnStep,
    space: Space,
    start: bool = True,
    statistics: Statistics | None = None,
) -> Laboratory:
    layout = task.layout()
    dtype = next(parameter.dtype for parameter in task.model.parameters() if parameter.requires_grad)
    statistics = statistics or default_statistics(layout)
    # Nothing is trained: of these settings only the number type and the statistics matter.
    settings = Settings(rounds=1, lr=0.1, dtype=dtype_name(dtype), vectorised=False, eval_stats=statistics)
    begin = partial(start_engine, task, make("fedavg"), settings)
    begin_all = partial(begin, _fitting(workers, sample, task))
    engine = begin_all() if start else begin(0)
    w = layout.read(task.model)[: layout.shared]
    buffers = shared_buffers(layout.read_buffers(task.model, dtype), layout)
    try:
        surface = Surface(engine, task, w, buffers, sample, layout)
    except Exception:
        engine.close()  # nobody else will: there is no laboratory yet
        raise
    named = FULL_SPACE if space == "full" else _trained_space(task)
    begin_later = None if start else begin_all
    return Laboratory(surface, None, task.name, {"sample": _plain(sample)}, None, on_step, begin_later, named)


def _task(model: nn.Module, examples: Any, loss: Loss) -> Task:
    """Return the task of a module: each entry of a list of examples is a client's."""
    if examples is None:
        raise ConfigError("a model's loss is taken over examples; give them: laboratory(model, (inputs, targets))")
    clients = examples if isinstance(examples, list) else [examples]
    return Task(model, clients, loss=loss, name="model")


def _refuse_examples(source: Any, examples: Any) -> None:
    """Refuse examples beside a source that has some."""
    kind = "task" if isinstance(source, Task) else "run"
    if examples is not None:
        raise ConfigError(f"a {kind} has examples of its own; choose among them with data=")


def _fitting(workers: Workers, sample: Sample, task: Task) -> Workers:
    """Return the workers to start: none where there is so little to do that starting them would take longer."""
    # A number that was asked for is taken as it is.
    if workers == "auto" and sample.count(task) < SMALL:
        return 0
    return workers


def _plain(sample: Sample) -> dict[str, Any]:
    return {"of": sample.of, "most": sample.most, "seed": sample.seed}
