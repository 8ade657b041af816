"""The task: a model, the clients' examples, a test set and a loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.examples import Examples, Partition, as_examples
from flatfed.core.layout import Layout, Local
from flatfed.core.metrics import Classification, Metrics

Loss = Callable[[Any, Tensor], Tensor]
Augment = Callable[[Tensor, torch.Generator], Tensor]


@dataclass
class Task:
    """What is learnt: any `nn.Module` (its weights are the starting point) over the clients' data.

    Args:
        model: any module; it is copied, never changed.
        clients: per client a pair of tensors, a torch Dataset, or `Examples`; or a `Partition` of one pool.
        test: the same for the test set, or None.
        loss: `loss(outputs, targets)` to a mean scalar.
        augment: `augment(inputs, generator)` to inputs, drawn once a step (both passes of SAM see the same pixels).
        prepare: `prepare(inputs)` to what the model takes, e.g. bytes to normalised numbers; also used in tests.
        metrics: what the test measures besides the loss.
        local: parts of the model that stay on the clients: `"bn"` (FedBN), `"bn-stats"` (SiLoBN) or `ff.Local(...)`.
        name: for people.
    """

    model: nn.Module
    clients: Sequence[Any]
    test: Any = None
    loss: Loss = F.cross_entropy
    augment: Augment | None = None
    prepare: Callable[[Tensor], Tensor] | None = None
    metrics: Metrics = field(default_factory=Classification)
    local: Local | str = field(default_factory=Local)
    name: str = "task"

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise ConfigError(f"model must be a torch.nn.Module, not {type(self.model).__name__}")
        if isinstance(self.local, str):
            self.local = Local.named(self.local, self.model)
        if not isinstance(self.clients, Sequence) or isinstance(self.clients, str):
            raise ConfigError(f"clients must be a list with one entry per client, not a {type(self.clients).__name__}")
        if len(self.clients) == 0:
            raise ConfigError("the task has no clients")
        if not isinstance(self.clients, Partition):
            self.clients = [as_examples(c, f"client {k}") for k, c in enumerate(self.clients)]
        if self.test is not None:
            self.test = as_examples(self.test, "test")
            if len(self.test) == 0:
                raise ConfigError("the test set is empty; pass test=None to go without")
        if not any(len(self.examples(k)) for k in range(self.population)):
            raise ConfigError("no client has any data")

    @property
    def population(self) -> int:
        """Number of clients, N."""
        return len(self.clients)

    def examples(self, client: int) -> Examples:
        """Return one client's examples."""
        examples: Examples = self.clients[client]
        return examples

    def fresh_model(self, dtype: torch.dtype) -> nn.Module:
        """Return a copy of the model in this type."""
        return copy.deepcopy(self.model).to(dtype)

    def layout(self) -> Layout:
        """Return where the model's tensors lie in the flat vectors."""
        return Layout(self.model, self.kept_local)

    @property
    def kept_local(self) -> Local:
        """The parts of the model that stay on the clients."""
        assert isinstance(self.local, Local)
        return self.local
