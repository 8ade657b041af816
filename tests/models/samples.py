"""What each model of the catalogue takes: facts, inputs and targets of the right kind."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.models import build, models

OF_TEXTS = ("textcnn",)
OF_PIXELS = ("bisenetv2",)
OF_IMAGES = tuple(id for id in models() if id not in OF_TEXTS + OF_PIXELS)

CLASSES, VOCABULARY, LENGTH = 5, 50, 9


def facts(id: str, in_channels: int = 3, image_size: int = 16) -> dict[str, int]:
    """Facts of small data that suit the model."""
    if id in OF_TEXTS:
        return {"vocabulary": VOCABULARY, "length": LENGTH}
    return {"in_channels": in_channels, "image_size": image_size}


def made(id: str, seed: int = 0, **options: Any) -> nn.Module:
    """The model for such data."""
    return build(id, CLASSES, seed=seed, options=options, **facts(id))


def examples(id: str, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random inputs and targets for such data."""
    generator = torch.Generator().manual_seed(seed)
    if id in OF_TEXTS:
        inputs = torch.randint(0, VOCABULARY, (count, LENGTH), generator=generator)
    else:
        inputs = torch.randn(count, 3, 16, 16, generator=generator)
    shape = (count, 16, 16) if id in OF_PIXELS else (count,)
    return inputs, torch.randint(0, CLASSES, shape, generator=generator)


def loss(outputs: Any, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the heads where there are several."""
    heads = outputs if isinstance(outputs, tuple) else (outputs,)
    return torch.stack([F.cross_entropy(head, targets) for head in heads]).sum()


def parameters(model: nn.Module) -> int:
    """Number of trainable numbers."""
    return sum(p.numel() for p in model.parameters())
