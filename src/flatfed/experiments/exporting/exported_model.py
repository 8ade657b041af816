"""What is exported: a model in inference mode, and what is known of the run that it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flatfed import __version__
from flatfed.core.configuration.checking import checked
from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.core.task.examples import Examples
from flatfed.core.task.task import Task
from flatfed.runs.history import Row

DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ExportedModel:
    """A model and its run.

    Args:
        model: in inference mode.
        task: what it learnt.
        config: the record of the run.
        rows: its history.
        round: how many rounds the model has behind it.
        status: how the run stands.
        reason: why it stands so.
        path: the run directory, or None.
        weights: `evaluated`, or `global` where an average is evaluated and the last global model is meant.
        client: whose own layers the model has; None where all is shared.
    """

    model: nn.Module
    task: Task
    config: Mapping[str, Any]
    rows: Sequence[Row]
    round: int
    status: str
    reason: str
    path: Path | None
    weights: str
    client: int | None = None

    def with_dtype(self, name: str | None) -> ExportedModel:
        """Return it with parameters and buffers of another type; None leaves them as they were trained."""
        if name is None:
            return self
        if checked(str, name, "dtype") not in DTYPES:
            raise ConfigError(f"{PARAMETER}: {nearest(name, DTYPES, 'type')}", parameter="dtype")
        return replace(self, model=self.model.to(getattr(torch, name)))

    @property
    def dtype(self) -> torch.dtype:
        """The type of its parameters."""
        return next(self.model.parameters()).dtype

    @property
    def class_names(self) -> list[str]:
        """The names of the classes, where they are known."""
        return list(map(str, self.task.class_names))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state_dict as plain contiguous tensors, each with memory of its own, in the model's order."""
        # Channels-last weights would be written in another order than they are named; tied ones have two names.
        return {
            name: tensor.detach().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.model.state_dict().items()
        }

    def facts(self) -> dict[str, str]:
        """Return what a file says of itself: texts by name."""
        facts = {
            "flatfed": __version__,
            "run": str(self.config.get("run", "")),
            "method": str(self.config["method"]),
            "data": self.task.name,
            "round": str(self.round),
            "weights": self.weights,
        }
        return facts | ({} if self.client is None else {"client": str(self.client)})

    def example_inputs(self, count: int) -> Tensor:
        """Return the raw inputs of some real examples: of a test set, or of the first client that holds some."""
        examples = self._some_examples()
        inputs, _ = examples.batch(torch.arange(min(count, len(examples))))
        if not isinstance(inputs, Tensor):
            raise ConfigError("an ONNX graph is made of examples of one tensor; take --format safetensors, torch or hf")
        return inputs

    def _some_examples(self) -> Examples:
        for examples in self.task.test_sets.values():
            return examples
        if self.task.holds_examples:
            for client in range(self.task.population):
                if self.task.samples(client):
                    return self.task.examples(client)
        raise ConfigError("there is no example here to check the file with; export where the data are")
