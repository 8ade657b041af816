"""Small networks with a dense Hessian to compare with, in float64."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.examples import TensorExamples
from flatfed.flatness.surface import Surface


def network(kind: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "tanh":
            return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
        if kind == "conv":
            parts = nn.Conv2d(2, 3, 2), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 3)
            return nn.Sequential(*parts).double()
        if kind == "batch norm":
            return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)).double()
        return nn.Sequential(nn.Linear(4, 6), nn.GroupNorm(2, 6), nn.Tanh(), nn.Linear(6, 3)).double()


KINDS = ("tanh", "conv", "batch norm", "group norm")


def data(kind: str, count: int = 23) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (2, 4, 4) if kind == "conv" else (4,)
    inputs = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    return inputs, torch.arange(count) % 3


def surface(kind: str, batch: int = 512, parts: int = 1) -> Surface:
    inputs, targets = data(kind)
    task = ff.Task(network(kind), [(inputs, targets)])
    pieces = zip(inputs.tensor_split(parts), targets.tensor_split(parts), strict=True)
    return Surface(task, [TensorExamples(x, y) for x, y in pieces], torch.float64, batch=batch)


def dense_hessian(kind: str, at: Tensor) -> Tensor:
    """Return the Hessian of the mean loss at a point in the surface's own order, by `torch.func`."""
    model, (inputs, targets), layout = network(kind).eval(), data(kind), surface(kind).layout

    def loss(w: Tensor) -> Tensor:
        values = {piece.name: piece.view(w) for piece in layout.parameters}
        return nn.functional.cross_entropy(torch.func.functional_call(model, values, (inputs,)), targets)

    return torch.func.hessian(loss)(at)
