"""A test set with every image corrupted when it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples
from flatfed.data.corruptions.corruption_types import corrupt
from flatfed.data.corruptions.draws import Draws


class CorruptedExamples:
    """The images of a test set under one corruption; targets stay.

    Args:
        clean: images N x channels x height x width, bytes or numbers from 0 to `white`.
        name: the corruption.
        severity: 1 to 5.
        white: the value of a white pixel.
        seed: key of the draws.
    """

    def __init__(self, clean: Examples, name: str, severity: int, white: float = 255.0, seed: int = 0) -> None:
        self.clean, self.name, self.severity, self.white, self.seed = clean, name, severity, white, seed

    def __len__(self) -> int:
        return len(self.clean)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return corrupted inputs, bytes where white is 255 and the clean ones are bytes, and targets."""
        inputs, targets = self.clean.batch(indices)
        shares = inputs.permute(0, 2, 3, 1).numpy() * (255.0 / self.white)
        levels = np.clip(np.rint(shares), 0, 255).astype(np.uint8)
        draws = Draws.keyed(self.seed, self.name, self.severity, indices.tolist())
        corrupted = torch.from_numpy(corrupt(levels, self.name, self.severity, draws))
        images = corrupted.permute(0, 3, 1, 2).contiguous()
        if inputs.dtype == torch.uint8 and self.white == 255.0:
            return images, targets
        # Where white is not 255, corrupted values are no whole numbers.
        number = inputs.dtype if inputs.is_floating_point() else torch.float32
        return images.to(number) * (self.white / 255.0), targets


def white_of(examples: Examples, prepare: Any) -> float:
    """Return the value of a white pixel: what `prepare` says, else 255 for bytes and 1 for numbers from 0 to 1."""
    # A part is enough to see the range; the images may have to be decoded for it.
    inputs, _ = examples.batch(torch.arange(min(len(examples), 256)))
    if inputs.ndim != 4:
        raise ConfigError("corruptions are for images; these inputs are not N x channels x height x width")
    if inputs.dtype == torch.uint8:
        return float(getattr(prepare, "scale", 255.0))
    if not inputs.is_floating_point() or float(inputs.min()) < 0.0 or float(inputs.max()) > 1.0:
        raise ConfigError(
            "the test images are neither bytes nor numbers from 0 to 1, so black and white are not known; "
            "give the task raw images and a `prepare` that normalises them"
        )
    return 1.0
