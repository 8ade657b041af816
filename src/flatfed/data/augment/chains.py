"""One augmentation after another."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor

from flatfed.core.task.task import Augment, BatchTransform


@dataclass(frozen=True)
class Chain:
    """Augmentations of raw inputs, the first one first; all draw from the one generator."""

    steps: tuple[Augment, ...]

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return the inputs after every step."""
        # In the order given: each step goes on drawing where the last one stopped.
        for step in self.steps:
            inputs = step(inputs, generator)
        return inputs


@dataclass(frozen=True)
class BatchTransformChain:
    """Augmentations of prepared inputs with their targets, the first one first."""

    steps: tuple[BatchTransform, ...]

    def __call__(self, inputs: Tensor, targets: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return inputs and targets after every step."""
        for step in self.steps:
            inputs, targets = step(inputs, targets, generator)
        return inputs, targets
