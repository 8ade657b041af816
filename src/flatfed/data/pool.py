"""A data set in memory: bytes, not floats, so that it lies once and small in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task import Augment


@dataclass(frozen=True, eq=False)
class Pool:
    """The samples of a data set, before they are divided among clients.

    Args:
        name: the id of the data set.
        train_inputs: uint8 images, N x channels x height x width.
        train_targets: int64 classes, 0 to `classes` - 1.
        test_inputs: the same for the test.
        test_targets: the same for the test.
        classes: number of classes.
        prepare: a uint8 batch to the float32 batch that a model takes; picklable.
        augment: `augment(inputs, generator)` on a uint8 training batch, or None; picklable.
        default_model: id of the model that suits these images.
    """

    name: str
    train_inputs: Tensor = field(repr=False)
    train_targets: Tensor = field(repr=False)
    test_inputs: Tensor = field(repr=False)
    test_targets: Tensor = field(repr=False)
    classes: int
    prepare: Callable[[Tensor], Tensor]
    augment: Augment | None
    default_model: str

    def __post_init__(self) -> None:
        self._check("train", self.train_inputs, self.train_targets)
        self._check("test", self.test_inputs, self.test_targets)

    @property
    def in_channels(self) -> int:
        """Number of channels of an image."""
        return self.train_inputs.shape[1]

    @property
    def image_size(self) -> int:
        """Height (and width) of an image."""
        return self.train_inputs.shape[2]

    def _check(self, part: str, inputs: Tensor, targets: Tensor) -> None:
        label = f"{self.name}: the {part} part"
        if inputs.dtype != torch.uint8 or targets.dtype != torch.int64:
            raise ConfigError(f"{label} must be uint8 inputs and int64 targets, not {inputs.dtype}, {targets.dtype}")
        if len(inputs) != len(targets) or len(inputs) == 0:
            raise ConfigError(f"{label} has {len(inputs)} inputs and {len(targets)} targets")
        if int(targets.min()) < 0 or int(targets.max()) >= self.classes:
            raise ConfigError(f"{label} has targets outside 0..{self.classes - 1}")
