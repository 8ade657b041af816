"""Small pictures with masks for tests, written with Pillow, and a small network for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Image = pytest.importorskip("PIL.Image", reason="images need Pillow: pip install 'flatfed[data]'")

HEIGHT, WIDTH = 8, 10


def write_scene(
    image: Path, mask: Path, values: list[int], seed: int = 0, size: tuple[int, int] = (HEIGHT, WIDTH)
) -> None:
    """Write a picture whose upper and lower half show two of the labels by their brightness, and its mask."""
    generator = np.random.Generator(np.random.PCG64(seed))
    labels = generator.choice(values, 2)
    rows = np.repeat(labels, [size[0] // 2, size[0] - size[0] // 2])
    shown = np.broadcast_to(rows[:, None], size).astype(np.uint8)
    noise = generator.integers(0, 5, (*size, 3))
    for path, pixels in ((image, (shown[..., None] * 7 % 250 + noise).astype(np.uint8)), (mask, shown)):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def write_mask(path: Path, pixels: Any) -> None:
    """Write a mask of these values."""
    Image.fromarray(np.asarray(pixels, np.uint8)).save(path)


class Tiny(nn.Module):
    """A network with BatchNorm that returns main and auxiliary scores in training, the main ones otherwise."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.start, self.norm = nn.Conv2d(3, 6, 3, 2, 1), nn.BatchNorm2d(6)
        self.main, self.aux = nn.Conv2d(6, classes, 1), nn.ModuleList(nn.Conv2d(6, classes, 1) for _ in range(2))

    def forward(self, images: Tensor) -> Any:
        x = F.relu(self.norm(self.start(images)))
        sized = [F.interpolate(head(x), images.shape[2:], mode="bilinear") for head in (self.main, *self.aux)]
        return tuple(sized) if self.training else sized[0]


def tiny(classes: int, seed: int = 0) -> nn.Module:
    """Return the network, the same for a seed."""
    torch.manual_seed(seed)
    return Tiny(classes)
