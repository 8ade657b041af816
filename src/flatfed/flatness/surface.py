"""The loss of a task over some examples as a function of the flat parameter vector.

    L(w) = (1/n) sum_i l(w; x_i, y_i)          gradient(w) = grad L(w)          product(w, v) = H(w) v

The model is in inference mode, nothing is augmented, and every example counts once: batches are weighted by their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.evaluation import even_chunks
from flatfed.core.examples import Examples
from flatfed.core.layout import BUFFERS, COUNTERS
from flatfed.core.oracle import Oracle
from flatfed.core.task import Task


class Surface:
    """The mean loss over some examples, its gradient and its Hessian's products, at any point.

    Args:
        task: the model's shape, the loss, and how raw examples are prepared.
        examples: over what; several sets are one.
        dtype: the type of the arithmetic.
        buffers: BatchNorm statistics to use, as a run's server has them; the initial model's where none are given.
        batch: examples at a time, at most.
    """

    def __init__(
        self,
        task: Task,
        examples: Sequence[Examples],
        dtype: torch.dtype = torch.float32,
        buffers: Mapping[str, Tensor] | None = None,
        batch: int = 512,
    ) -> None:
        self.samples = sum(len(part) for part in examples)
        if self.samples == 0:
            raise ConfigError("there are no examples to take the loss over")
        self.oracle = Oracle(task, dtype)
        self.layout, self.dtype = self.oracle.layout, dtype
        self._parts = [part for part in examples if len(part)]
        self._batch = batch
        self._set_buffers(buffers or {})
        self.oracle.model.eval()
        self.products = 0
        """Hessian products so far."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.layout.size

    def loss(self, w: Tensor) -> float:
        """Return `L(w)`."""
        total = 0.0
        with torch.no_grad():
            for inputs, targets in self._batches(w):
                outputs = self.oracle.model(inputs)
                total += float(self.oracle.task.loss(outputs, targets).double()) * len(targets)
        return total / self.samples

    def gradient(self, w: Tensor) -> Tensor:
        """Return the gradient of `L` at `w`."""
        total = torch.zeros_like(self.oracle.w)
        for inputs, targets in self._batches(w):
            gradient, _ = self.oracle.gradient(inputs, targets)
            total.add_(gradient, alpha=len(targets) / self.samples)
        return total

    def product(self, w: Tensor, v: Tensor) -> Tensor:
        """Return `H(w) v`, `H` the Hessian of `L`: the gradient of `<grad L, v>`."""
        total = torch.zeros_like(self.oracle.w)
        self.products += 1
        parameters = self._parameters()
        directions = [piece.view(v) for piece in self.layout.parameters]
        for inputs, targets in self._batches(w):
            loss = self.oracle.task.loss(self.oracle.model(inputs), targets)
            first = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
            along = [(g * d).sum() for g, d in zip(first, directions, strict=True) if g is not None and g.requires_grad]
            if not along:
                continue  # linear in the parameters
            second = torch.autograd.grad(torch.stack(along).sum(), parameters, allow_unused=True)
            for piece, part in zip(self.layout.parameters, second, strict=True):
                if part is not None:
                    piece.view(total).add_(part, alpha=len(targets) / self.samples)
        return total

    def _parameters(self) -> list[Tensor]:
        named = dict(self.oracle.model.named_parameters())
        return [named[piece.name] for piece in self.layout.parameters]

    def _batches(self, w: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Put the model at `w` and yield the batches."""
        self.oracle.w.copy_(w)
        for part in self._parts:
            for first, count in even_chunks(len(part), self._batch):
                yield self.oracle.batch(*part.batch(torch.arange(first, first + count)))

    def _set_buffers(self, given: Mapping[str, Tensor]) -> None:
        buffers, counters = (flat.clone() for flat in self.oracle.initial_buffers)
        for flat, name in ((buffers, BUFFERS), (counters, COUNTERS)):
            if name in given:
                flat[: len(given[name])] = given[name]
        self.layout.write_buffers(buffers, counters, self.oracle.model)
