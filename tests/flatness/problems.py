"""Small networks in float64 whose loss, gradient and Hessian are computed here by a route of their own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.experiments.measuring.laboratory import Laboratory
from flatfed.flatness.surface import Surface

KINDS = ("tanh", "conv", "batch norm", "group norm")
COUNT, CLASSES = 23, 3
SIZES = (23,)
UNEQUAL = (9, 1, 0, 13)
Pairs = list[tuple[Tensor, Tensor]]


def network(kind: str) -> nn.Module:
    """Return a network; the one with BatchNorm has running statistics that are not those of any data here."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = _made(kind).double()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d | nn.GroupNorm):
                nn.init.normal_(module.weight, 1.0, 0.3)
                nn.init.normal_(module.bias, 0.0, 0.3)
            if isinstance(module, nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.3, 3.0)
        return model


def _made(kind: str) -> nn.Module:
    if kind == "tanh":
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES))
    if kind == "conv":
        return nn.Sequential(
            nn.Conv2d(2, 3, 2), nn.MaxPool2d(2), nn.Tanh(), nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(4, CLASSES)
        )
    norm = nn.BatchNorm1d(6) if kind == "batch norm" else nn.GroupNorm(2, 6)
    return nn.Sequential(nn.Linear(4, 6), norm, nn.Tanh(), nn.Linear(6, CLASSES))


def data(kind: str, ignored: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """Return the examples; the targets at some places are to be ignored."""
    generator = torch.Generator().manual_seed(1)
    shape = (2, 4, 4) if kind == "conv" else (4,)
    inputs = torch.randn(COUNT, *shape, generator=generator, dtype=torch.float64)
    targets = torch.arange(COUNT) % CLASSES
    targets[list(ignored)] = -100
    return inputs, targets


def divided(pair: tuple[Tensor, Tensor], sizes: Sequence[int]) -> Pairs:
    """Return the examples as clients of these sizes hold them."""
    inputs, targets = pair
    return list(zip(inputs.split(list(sizes)), targets.split(list(sizes)), strict=True))


def task(kind: str, sizes: Sequence[int] = SIZES, test_batch: int = 512, ignored: Sequence[int] = ()) -> ff.Task:
    clients = divided(data(kind, ignored), sizes)
    return ff.Task(network(kind), clients, test=clients[0], test_batch=test_batch)


def opened(
    kind: str,
    sizes: Sequence[int] = SIZES,
    test_batch: int = 512,
    ignored: Sequence[int] = (),
    of: str = "train",
    samples: int | None = None,
    workers: int = 0,
) -> Laboratory:
    """Return a laboratory of the network over examples that several clients hold."""
    return ff.laboratory(task(kind, sizes, test_batch, ignored), data=of, samples=samples, workers=workers)


def surface(kind: str, sizes: Sequence[int] = SIZES, test_batch: int = 512, ignored: Sequence[int] = ()) -> Surface:
    return opened(kind, sizes, test_batch, ignored).surface


class Direct:
    """The mean loss by `torch.func`, all examples at once, for a vector in the surface's order."""

    def __init__(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        self.model, self.inputs, self.targets = model.eval(), inputs, targets
        self.layout = ff.Task(model, [(inputs, targets)]).layout()

    def loss(self, w: Tensor) -> Tensor:
        values = {piece.name: piece.view(w) for piece in self.layout.parameters}
        outputs = torch.func.functional_call(self.model, values, (self.inputs,))
        return nn.functional.cross_entropy(outputs, self.targets)

    def gradient(self, w: Tensor) -> Tensor:
        return torch.func.grad(self.loss)(w)

    def hessian(self, w: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*torch.jit.script")  # what torch.func itself uses
            return torch.func.hessian(self.loss)(w)

    def eigenvalues(self, w: Tensor) -> Tensor:
        """Return all of them, in descending order."""
        return torch.linalg.eigvalsh(self.hessian(w)).flip(0)


def direct(kind: str, ignored: Sequence[int] = ()) -> Direct:
    return Direct(network(kind), *data(kind, ignored))


def directions(size: int, count: int = 1, seed: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(count)]


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


def with_spectrum(values: Tensor, seed: int = 0) -> Tensor:
    """Return a symmetric matrix with these eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=torch.float64))
    return q @ torch.diag(values) @ q.T


class Point(nn.Module):
    """A model that is its parameters: the loss is any function of them, whatever the examples."""

    def __init__(self, weight: Sequence[float], shift: Sequence[float] = ()) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight, dtype=torch.float64))
        self.shift = nn.Parameter(torch.tensor(shift, dtype=torch.float64)) if len(shift) else None

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight if self.shift is None else torch.cat([self.weight, self.shift])
        return x[:, :1] * w


class Quadratic:
    """1/2 w^T A w - <b, w>, whatever the examples."""

    def __init__(self, A: Tensor, b: Tensor | None = None) -> None:
        self.A, self.b = A, torch.zeros(len(A), dtype=A.dtype) if b is None else b

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (0.5 * (outputs @ self.A * outputs).sum(dim=1) - outputs @ self.b).mean()

    def value(self, w: Tensor) -> float:
        return float(0.5 * w @ self.A @ w - self.b @ w)


def quadratic(A: Tensor, w: Sequence[float], b: Tensor | None = None, shift: Sequence[float] = ()) -> Laboratory:
    """Return a laboratory of a quadratic at a point."""
    ones = torch.ones(5, 1, dtype=torch.float64)
    problem = ff.Task(Point(w, shift), [(ones, ones)], loss=Quadratic(A, b), test_batch=2)
    return ff.laboratory(problem)
