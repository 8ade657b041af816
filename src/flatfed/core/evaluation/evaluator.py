"""The model of a process, in inference mode: sums over examples, and BatchNorm's statistics.

What an engine computes besides clients (tests, calibration, losses and Hessian products of a surface) is a function of
an `Evaluator`. Policies of BatchNorm: `running` uses the averaged running statistics, `batch-stats` each test batch's
own, `recalibrate` statistics estimated anew for the evaluated model on a mixed sample of the clients' training
examples.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.engine import Engine
from flatfed.core.method.state import State
from flatfed.core.model.devices import CPU
from flatfed.core.model.layout import BUFFERS, COUNTERS, LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS, Layout
from flatfed.core.model.precision import oracle_of
from flatfed.core.randomness import key, key_global_generators, torch_generator
from flatfed.core.task.examples import Examples, joined
from flatfed.core.task.metrics import MetricValue, Totals, add_up, metric_values
from flatfed.core.task.structures import Structure, call
from flatfed.core.task.task import TEST, Task

Statistics = Literal["running", "batch-stats", "recalibrate"]

CALIBRATION = 10_000
"""Training examples that statistics are estimated on, at most; drawn once per run."""

NOTHING = State({})


class LoadedModel:
    """The model of a process: its oracle, and what is written into its parameters and buffers."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.oracle = oracle_of(task, settings)
        self.layout = self.oracle.layout
        self._own_start = self.oracle.w[self.layout.shared :].clone()

    def show(self, w: Tensor, buffers: Mapping[str, Tensor], kept: State = NOTHING) -> None:
        """Put the model into inference mode, with these parameters and buffers and the local layers that are kept.

        Where none are kept, local layers are the initial ones.
        """
        self.oracle.w[: self.layout.shared] = w
        own = getattr(kept, LOCAL_PARAMETERS) if LOCAL_PARAMETERS in kept else self._own_start
        self.oracle.w[self.layout.shared :] = own
        self.write_buffers(buffers, kept)
        self.oracle.model.eval()

    def write_buffers(self, received: Mapping[str, Tensor], kept: State) -> None:
        """Give every buffer its value: received, kept by the client, or as in the initial model."""
        # Also those that no message holds, such as transient ones: the client before may have changed them.
        self.oracle.reset_buffers()
        if not (self.layout.buffers or self.layout.counters):
            return
        buffers, counters = (flat.clone() for flat in self.oracle.initial_buffers)
        for flat, name, local in ((buffers, BUFFERS, LOCAL_BUFFERS), (counters, COUNTERS, LOCAL_COUNTERS)):
            if name in received:  # the shared part, which comes first; or all, when they have been calibrated
                flat[: len(received[name])] = received[name]
            if local in kept:
                own = getattr(kept, local)
                flat[len(flat) - len(own) :] = own
        self.layout.write_buffers(buffers, counters, self.oracle.model)

    def read_buffers(self) -> tuple[Tensor, Tensor]:
        """Return the model's real buffers and its counters, each as one vector."""
        return self.layout.read_buffers(self.oracle.model, self.oracle.dtype)


def default_statistics(layout: Layout) -> Statistics:
    """Return the policy for a model: without shared statistics there are only the test batch's own."""
    return "batch-stats" if has_local_statistics(layout) else "running"


def has_local_statistics(layout: Layout) -> bool:
    """Say whether some statistics stay on the clients."""
    return any(piece.local for piece in layout.buffers)


def test_chunks(task: Task) -> list[tuple[str, int, int]]:
    """Return the fixed division of the test sets: (name, first, count) of each batch, whoever evaluates it."""
    size, tests = task.test_batch, task.test_sets.items()
    return [(name, *chunk) for name, examples in tests for chunk in even_chunks(len(examples), size)]


def even_chunks(total: int, size: int) -> list[tuple[int, int]]:
    """Divide `total` examples into as few batches of at most `size` as possible, that differ by at most one."""
    batches = -(-total // size)
    # A small rest would have poor statistics of its own, where BatchNorm takes those of the test batch.
    ends = [total * number // max(batches, 1) for number in range(batches + 1)]
    return [(first, end - first) for first, end in itertools.pairwise(ends)]


def calibration_batches(task: Task) -> int:
    """Return how many batches the calibration sample has."""
    total = sum(task.samples(k) for k in range(task.population))
    return len(even_chunks(min(total, CALIBRATION), task.test_batch))


class Calibration:
    """The sample of training examples on which statistics are estimated, mixed over all clients."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self._examples = joined(task.clients)
        order = torch.randperm(len(self._examples), generator=torch_generator(seed, "calibration"))
        self._sample = order[:CALIBRATION]

    def __len__(self) -> int:
        return calibration_batches(self.task)

    def inputs(self, number: int) -> Structure:
        """Return the raw inputs of one batch."""
        first, count = even_chunks(len(self._sample), self.task.test_batch)[number]
        return self._examples.batch(self._sample[first : first + count].sort().values)[0]


@contextmanager
def batch_statistics(model: nn.Module, remember: bool = False) -> Iterator[None]:
    """Let BatchNorm layers use their batch's statistics; with `remember` these become the running ones."""
    momenta = {module: module.momentum for module in _batch_norms(model)}
    for module in momenta:
        module.train()
        if remember:
            module.momentum = 1.0  # the running statistics become the batch's, and nothing of what was before
    try:
        yield
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum


def has_batch_norm(model: nn.Module) -> bool:
    """Say whether a model has BatchNorm layers."""
    return bool(_batch_norms(model))


def _batch_norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def averaged(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of the batches' statistics, added in their order."""
    return {name: torch.stack([part[name] for part in parts]).mean(dim=0) for name in parts[0]}


class NoStatistics(ConfigError):
    """A batch is too small for BatchNorm to take its statistics from."""


class Evaluator:
    """Evaluates models of a task on the one model of this process."""

    def __init__(self, task: Task, settings: Settings, model: LoadedModel | None = None) -> None:
        self.task, self.settings = task, settings
        self._loaded = model or LoadedModel(task, settings)
        self.oracle, self.layout = self._loaded.oracle, self._loaded.layout
        self.statistics = settings.eval_stats or default_statistics(self.layout)

    def show(self, w: Tensor, buffers: Mapping[str, Tensor], kept: State = NOTHING) -> None:
        """Put the model into inference mode, with these parameters and buffers and the local layers that are kept."""
        self._loaded.show(w, buffers, kept)

    def measure(self, w: Tensor, buffers: Mapping[str, Tensor], test: str, first: int, count: int) -> Totals:
        """Return sums over `count` examples of a test set from `first`, with the model in inference mode."""
        self.show(w, buffers)
        # Transforms of a data set draw in tests too: keyed by the chunk, whoever evaluates it.
        key_global_generators(key(self.settings.seed, test, first))
        return self.totals(self.task.test_sets[test], first, count)

    def measure_client(self, w: Tensor, buffers: Mapping[str, Tensor], kept: State, client: int) -> Totals:
        """Return sums over all of a client's own examples, the model having the client's own local layers."""
        examples, parts = self.task.examples(client), []
        policy: Statistics = "running" if LOCAL_BUFFERS in kept else self.statistics
        for first, count in even_chunks(len(examples), self.task.test_batch):
            # For every chunk: the pass before may have moved statistics and left BatchNorm in training mode.
            self.show(w, buffers, kept)
            key_global_generators(key(self.settings.seed, "own examples", client, first))
            parts.append(self.totals(examples, first, count, policy))
        return add_up(parts)

    def totals(self, examples: Examples, first: int, count: int, policy: Statistics | None = None) -> Totals:
        """Return sums over some examples, with the model as it is shown."""
        inputs, targets = self.oracle.batch(*examples.batch(torch.arange(first, first + count)))
        with torch.no_grad(), self.inference(policy):
            outputs = self.inferred(inputs)
            sums: dict[str, Tensor] = {"counted": torch.tensor(self.task.criterion.counted(targets, count))}
            sums |= self.task.metrics.measure(outputs, targets)
            # In float64, so that sums over many chunks lose no digits of the mean loss.
            mean = self.task.criterion(outputs, targets).double()
            # The mean over no target at all is NaN, which must not spoil the sum over the other chunks.
            loss = mean * sums["counted"] if sums["counted"] > 0 else torch.zeros_like(mean)
            return {name: value.to(CPU) for name, value in sums.items()} | {"loss": loss.to(CPU)}

    def inference(self, policy: Statistics | None = None) -> AbstractContextManager[None]:
        """Let BatchNorm use the statistics of the policy (default: the settings')."""
        if (policy or self.statistics) == "batch-stats":
            return batch_statistics(self.oracle.model)
        return nullcontext()

    def inferred(self, inputs: Structure) -> Any:
        """Return the outputs, with an error of our own where a batch is too small to have statistics."""
        try:
            return call(self.oracle.model, inputs)
        except ValueError as error:
            # torch has no type of its own for this; nothing else in it tells this ValueError from another.
            if "more than 1 value per channel" not in str(error):
                raise
            raise NoStatistics(
                "a batch of one example has no statistics of its own to evaluate with; take recalibrate, or another "
                "test_batch"
            ) from None

    def calibrate(self, w: Tensor, buffers: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
        """Return the real buffers of the model with the statistics of one batch of the calibration sample."""
        self.show(w, buffers)
        key_global_generators(key(self.settings.seed, "calibration batch", number))
        inputs = self.oracle.prepared(self.calibration.inputs(number))
        with torch.no_grad(), batch_statistics(self.oracle.model, remember=True):
            call(self.oracle.model, inputs)
        return {BUFFERS: self._loaded.read_buffers()[0]}

    def calibrated(self, w: Tensor, buffers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the buffers to evaluate with: as given, or calibrated where that is the policy."""
        if self.statistics != "recalibrate" or not has_batch_norm(self.oracle.model):
            return buffers
        return {**buffers, **averaged([self.calibrate(w, buffers, n) for n in range(len(self.calibration))])}

    @functools.cached_property
    def calibration(self) -> Calibration:
        """The sample that statistics are estimated on."""
        return Calibration(self.task, self.settings.seed)


GLOBAL = "global"
"""Put before the metrics of the global model where an average is evaluated."""


class Evaluation:
    """The test metrics of one model: begun when it is made, done when they are asked for.

    An engine with gaps works on them while clients are trained. Where statistics are calibrated first, that is done at
    once. `whose` is put before the names of the metrics (`named`).
    """

    def __init__(
        self, engine: Engine, task: Task, settings: Settings, w: Tensor, buffers: Mapping[str, Tensor], whose: str = ""
    ) -> None:
        self._task, self._chunks, self._whose = task, test_chunks(task), whose
        if self._chunks and settings.eval_stats == "recalibrate" and has_batch_norm(task.model):
            buffers = calibrated(engine, task, w, buffers)
        self._results = engine.compute(evaluation, {"w": w, **buffers}, self._chunks)

    def metrics(self) -> dict[str, MetricValue]:
        """Return the metrics, or nothing where there is no test set."""
        parts = dict(self._results)
        # Results come in any order; added in that of the chunks, their sums do not depend on the workers.
        sums = [(chunk[0], parts[number]) for number, chunk in enumerate(self._chunks)]
        return summary(self._task, sums, self._whose)


class Evaluations:
    """The test metrics of a round: of the evaluated model and, where an average makes it differ, of the global one.

    The latter are called `global_accuracy` and so on; where they are missing, the two models are the same.
    """

    def __init__(
        self,
        engine: Engine,
        task: Task,
        settings: Settings,
        evaluated: Tensor,
        w: Tensor,
        buffers: Mapping[str, Tensor],
    ) -> None:
        models = {"": evaluated}
        if not torch.equal(evaluated, w):
            models[GLOBAL] = w
        # Copies: metrics may be asked for a round later, and weight averaging changes its vector in place.
        self._parts = [
            Evaluation(engine, task, settings, model.clone(), buffers, whose) for whose, model in models.items()
        ]

    def metrics(self) -> dict[str, MetricValue]:
        """Return the metrics by their names in the history."""
        return {name: value for part in self._parts for name, value in part.metrics().items()}


def calibrated(engine: Engine, task: Task, w: Tensor, buffers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the buffers with statistics of the calibration sample."""
    batches = range(calibration_batches(task))
    statistics = dict(engine.compute(calibration, {"w": w, **buffers}, [(number,) for number in batches]))
    return {**buffers, **averaged([statistics[number] for number in batches])}


def evaluation(evaluator: Evaluator, given: Mapping[str, Tensor], test: str, first: int, count: int) -> Totals:
    """Return the sums of the given model over one chunk of a test set."""
    return evaluator.measure(given["w"], given, test, first, count)


def calibration(evaluator: Evaluator, given: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """Return the statistics that the given model has on one batch of the calibration sample."""
    return evaluator.calibrate(given["w"], given, number)


def summary(task: Task, parts: Sequence[tuple[str, Totals]], whose: str) -> dict[str, MetricValue]:
    """Return the metrics for the history from the sums over the test sets' batches, in their order."""
    values: dict[str, MetricValue] = {}
    for test in task.test_sets:
        totals = add_up(part for name, part in parts if name == test)
        for metric, value in metric_values(task.metrics, totals).items():
            values[named(test, metric, whose)] = value
    return values


def named(test: str, metric: str, whose: str) -> str:
    """Return a metric's name in the history: `test_loss`, `unseen_loss`; `global_loss`, `global_unseen_loss`."""
    if not whose:
        return f"{test}_{metric}"
    if test == TEST:
        return f"{whose}_{metric}"
    return f"{whose}_{test}_{metric}"
