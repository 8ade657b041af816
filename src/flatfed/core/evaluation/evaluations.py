"""The metrics of a model on the test sets, in pieces that any engine spreads over its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.evaluation.evaluator import Evaluator
from flatfed.core.evaluation.statistics import averaged, calibration_batches, has_batch_norm, test_chunks
from flatfed.core.method.engine import Engine
from flatfed.core.task.metrics import MetricValue, Totals, add_up, metric_values
from flatfed.core.task.task import TEST, Task

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
