"""The figures of a model on the test sets, in pieces that any engine spreads over its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.evaluation.metrics import Figure, Totals, add_up, figures
from flatfed.core.evaluation.statistics import averaged, calibration_batches, has_batch_norm, test_chunks
from flatfed.core.round.engine import Engine
from flatfed.core.task.task import TEST, Task

if TYPE_CHECKING:
    from flatfed.core.round.trainer import Trainer


GLOBAL = "global"
"""Put before the figures of the global model where an average is evaluated."""


class Evaluation:
    """The test figures of one model: begun when it is made, done when they are asked for.

    An engine with gaps works on them while clients are trained. Where statistics are calibrated first, that is done at
    once. `whose` is put before the names of the figures (`named`).
    """

    def __init__(
        self, engine: Engine, task: Task, settings: Settings, w: Tensor, buffers: Mapping[str, Tensor], whose: str = ""
    ) -> None:
        self._task, self._chunks, self._whose = task, test_chunks(task), whose
        if self._chunks and settings.eval_stats == "recalibrate" and has_batch_norm(task.model):
            buffers = calibrated(engine, task, w, buffers)
        self._results = engine.compute(evaluation, {"w": w, **buffers}, self._chunks)

    def figures(self) -> dict[str, Figure]:
        """Return the figures, or nothing where there is no test set."""
        parts = dict(self._results)
        sums = [(chunk[0], parts[number]) for number, chunk in enumerate(self._chunks)]
        return summary(self._task, sums, self._whose)


class Evaluations:
    """The test figures of a round: of the evaluated model and, where an average makes it differ, of the global one.

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
        models = {"": evaluated} | ({} if torch.equal(evaluated, w) else {GLOBAL: w})
        self._parts = [
            Evaluation(engine, task, settings, model.clone(), buffers, whose) for whose, model in models.items()
        ]

    def figures(self) -> dict[str, Figure]:
        """Return the figures by their names in the history."""
        return {name: value for part in self._parts for name, value in part.figures().items()}


def calibrated(engine: Engine, task: Task, w: Tensor, buffers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return the buffers with statistics of the calibration sample."""
    batches = range(calibration_batches(task))
    found = dict(engine.compute(calibration, {"w": w, **buffers}, [(number,) for number in batches]))
    return {**buffers, **averaged([found[number] for number in batches])}


def evaluation(trainer: Trainer, given: Mapping[str, Tensor], test: str, first: int, count: int) -> Totals:
    """Return the sums of the given model over one chunk of a test set."""
    return trainer.measure(given["w"], given, test, first, count)


def calibration(trainer: Trainer, given: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """Return the statistics that the given model has on one batch of the calibration sample."""
    return trainer.calibrate(given["w"], given, number)


def summary(task: Task, parts: Sequence[tuple[str, Totals]], whose: str) -> dict[str, Figure]:
    """Return the figures for the history from the sums over the test sets' batches, in their order."""
    found: dict[str, Figure] = {}
    for name in task.test_sets:
        totals = add_up(part for test, part in parts if test == name)
        found |= {named(name, figure, whose): value for figure, value in figures(task.metrics, totals).items()}
    return found


def named(test: str, figure: str, whose: str) -> str:
    """Return a figure's name in the history: `test_loss`, `unseen_loss`; `global_loss`, `global_unseen_loss`."""
    words = (whose, "" if whose and test == TEST else test, figure)
    return "_".join(word for word in words if word)
