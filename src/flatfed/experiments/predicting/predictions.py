"""What a model says of new inputs, computed just as its test metrics are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.evaluator import Evaluator, Statistics, even_chunks, has_batch_norm
from flatfed.core.method.state import State
from flatfed.core.model.devices import single_thread
from flatfed.core.model.layout import LOCAL_BUFFERS
from flatfed.core.randomness import preserved_global_state
from flatfed.core.task.task import Task
from flatfed.data.storage.new_inputs import ArrayReader, FileReading, InputReader, NewInputs, reader_of
from flatfed.experiments.tasks.recipe import DataSetOrigin

ARRAY = ".npy"


@dataclass(frozen=True)
class Prediction:
    """What a model says of one input.

    Attributes:
        name: of the input: a file, or a line of it.
        number: the class with the largest output; None where the model gives no classes.
        label: what people call the class; empty where there is none.
        outputs: probabilities by class (softmax), or the outputs themselves; a quantity of a table in its own unit.
    """

    name: str
    number: int | None
    label: str
    outputs: tuple[float, ...]

    @property
    def probability(self) -> float | None:
        """The probability of the class."""
        return None if self.number is None else self.outputs[self.number]

    def ranked(self) -> list[int]:
        """Return the classes, the most probable first."""
        return sorted(range(len(self.outputs)), key=lambda number: (-self.outputs[number], number))


@dataclass(frozen=True)
class PredictingModel:
    """A model as it is evaluated: parameters, buffers, and the layers that a client keeps.

    Args:
        task: what it learnt.
        settings: how it was trained.
        w: the parameters.
        buffers: those that go with them, calibrated where that is the policy.
        kept: what a client keeps; nothing for the shared model.
    """

    task: Task
    settings: Settings
    w: Tensor
    buffers: Mapping[str, Tensor]
    kept: State

    @property
    def needs_batch(self) -> bool:
        """Whether BatchNorm takes its statistics from the inputs themselves, so that they depend on each other."""
        return self._policy == "batch-stats" and has_batch_norm(self.task.model)

    @property
    def _policy(self) -> Statistics | None:
        return "running" if LOCAL_BUFFERS in self.kept else self.settings.eval_stats

    def predict(self, inputs: NewInputs) -> list[Prediction]:
        """Return what the model says of each input; batches are those of an evaluation."""
        evaluator = Evaluator(self.task, self.settings)
        predictions: list[Prediction] = []
        for first, count in even_chunks(len(inputs.names), self.task.test_batch):
            outputs = self._outputs(evaluator, inputs.read(first, count))
            for name, one in zip(inputs.names[first : first + count], outputs, strict=True):
                predictions.append(self._prediction(name, one, inputs))
        return predictions

    def _outputs(self, evaluator: Evaluator, raw: Tensor) -> Tensor:
        with single_thread(), preserved_global_state(), torch.no_grad():
            evaluator.show(self.w, self.buffers, self.kept)
            prepared = evaluator.oracle.prepared(raw)
            with evaluator.inference(self._policy):
                return _per_input(evaluator.inferred(prepared), len(raw))

    def _prediction(self, name: str, outputs: Tensor, inputs: NewInputs) -> Prediction:
        if len(outputs) < 2:  # a quantity, which has no classes
            values = outputs.tolist()
            return Prediction(
                name, None, "", tuple(values if inputs.quantity is None else map(inputs.quantity, values))
            )
        # Of the outputs themselves, as the accuracy is: two probabilities may be rounded to the same number.
        number = int(outputs.argmax())
        return Prediction(name, number, self.task.class_name(number), tuple(outputs.double().softmax(0).tolist()))


def _per_input(outputs: Any, count: int) -> Tensor:
    """Return a row of numbers for each input; a model of another kind is an error."""
    if isinstance(outputs, Tensor) and outputs.ndim == 1 and len(outputs) == count:
        outputs = outputs.unsqueeze(1)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != count:
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ConfigError(f"the model gives no class for an input but {shape}; use run.model() from Python")
    return outputs


def open_inputs(task: Task, files: Sequence[Path], how: FileReading) -> NewInputs:
    """Return the inputs in some files, read as the task's own data are; NumPy files are raw inputs of any task."""
    if not files:
        raise ConfigError("name at least one file")
    if all(file.suffix.lower() == ARRAY for file in files):
        return _arrays(task).open(files, how)
    pool = task.origin.pool if isinstance(task.origin, DataSetOrigin) else None
    reader: InputReader | None = None if pool is None else reader_of(pool)
    if reader is None:
        raise ConfigError(
            f"nothing is known of how files become inputs of {task.name!r}; give raw inputs as NumPy files "
            f"(FILE{ARRAY}, N x one input)"
        )
    return reader.open(files, how)


def _arrays(task: Task) -> ArrayReader:
    """Return a reader of arrays of the task's own raw inputs."""
    for examples in [*task.test_sets.values(), *(task.clients if task.holds_examples else ())]:
        if len(examples):
            raw = examples.batch(torch.arange(1))[0]
            if not isinstance(raw, Tensor):
                raise ConfigError("an input of this task is more than one array; use run.model() from Python")
            return ArrayReader(tuple(raw.shape[1:]), raw.dtype)
    raise ConfigError("there is no example here whose form inputs could have; predict where the data are")
