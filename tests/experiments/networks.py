"""Small models and tasks whose way out of a run is tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.data.storage.pool import Normalise

CLASSES, SIDE = 3, 6
NAMES = ("ant", "bee", "cat")
SCALED = Normalise(mean=(0.4,), std=(0.3,))


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return bytes of grey images, brighter by class."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(count) % CLASSES
    pixels = torch.randint(0, 120, (count, 1, SIDE, SIDE), generator=generator)
    return (pixels + 60 * targets.view(-1, 1, 1, 1)).to(torch.uint8), targets


def normed_cnn() -> nn.Module:
    torch.manual_seed(3)
    head = nn.Dropout(0.5), nn.Flatten(), nn.Linear(4 * SIDE * SIDE, CLASSES)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), *head)


def image_task(model: nn.Module | None = None, **more: Any) -> ff.Task:
    clients = [images(12, seed) for seed in range(3)]
    more = {"prepare": SCALED, "class_names": NAMES, "name": "spots"} | more
    return ff.Task(model or normed_cnn(), clients, test=images(21, 9), **more)


def trained(task: ff.Task, method: str = "fedavg", out: Path | None = None, **settings: Any) -> ff.Run:
    given = {"rounds": 3, "sampling": 2, "lr": 0.05, "batch_size": 4, "workers": 0, "seed": 1, "evaluate_every": 1}
    return ff.train(task, method, out=out, **(given | settings))
