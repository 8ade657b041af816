"""Tiny federations, and what their measurements are, computed again in plain torch from a run's data and models.

The network's parameters lie in a vector in the order of `model.parameters()`, which is also the surface's order here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from flatness.problems import Direct

SIZES = (4, 7, 3, 9, 5, 6)
CLIENTS, INPUTS, CLASSES = len(SIZES), 3, 3
LR, STEPS, ROUNDS, COHORT = 0.3, 2, 4, 3


def mlp() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(INPUTS, 4), nn.Tanh(), nn.Linear(4, CLASSES)).double()


def client_data(sizes: Sequence[int] = SIZES) -> list[tuple[Tensor, Tensor]]:
    """Return what clients of unequal size hold, each with its own shift and favourite class."""
    generator = torch.Generator().manual_seed(7)
    actual = []
    for k, n in enumerate(sizes):
        x = torch.randn(n, INPUTS, generator=generator, dtype=torch.float64) + 0.5 * k
        y = torch.where(torch.rand(n, generator=generator) < 0.6, k % CLASSES, torch.arange(n) % CLASSES)
        actual.append((x, y))
    return actual


def task(**changes: Any) -> ff.Task:
    data = client_data()
    return ff.Task(**{"model": mlp(), "clients": data, "test": data[3], "test_batch": 5, **changes})


def trained(method: Any = "fedavg", out: Path | None = None, problem: ff.Task | None = None, **changes: Any) -> ff.Run:
    """Train a few rounds with full batches in float64; a checkpoint after every round, of which two stay."""
    plain = {"rounds": ROUNDS, "sampling": COHORT, "lr": LR, "local_epochs": STEPS, "batch_size": None, "workers": 0}
    plain |= {"weight_decay": 0.0, "dtype": torch.float64, "out": out, "checkpoint_every": 1, "vectorised": False}
    method = ff.make(method) if isinstance(method, str) else method
    return ff.train(problem or task(), method, **(plain | changes))


def checkpoint(path: Path, round: int) -> Path:
    return path / "checkpoints" / f"round-{round:06d}"


def cohort(run: ff.Run, round: int) -> list[int]:
    clients: list[int] = run.history[round]["clients"]
    return clients


# The same in plain torch.


def everyone() -> tuple[Tensor, Tensor]:
    data = client_data()
    return torch.cat([x for x, _ in data]), torch.cat([y for _, y in data])


def over(client: int | None = None) -> Direct:
    """Return the loss over one client's examples, or over everyone's."""
    return Direct(mlp(), *(everyone() if client is None else client_data()[client]))


def outputs(w: Tensor, x: Tensor) -> Tensor:
    a, b, c, d = (part.view(p.shape) for part, p in zip(_split(w), mlp().parameters(), strict=True))
    return torch.tanh(x @ a.T + b) @ c.T + d


def _split(w: Tensor) -> Sequence[Tensor]:
    return w.split([p.numel() for p in mlp().parameters()])


def gradient(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    w = w.clone().requires_grad_()
    return torch.autograd.grad(cross_entropy(outputs(w, x), y), w)[0]


def loss(w: Tensor, x: Tensor, y: Tensor) -> float:
    return float(cross_entropy(outputs(w, x), y))


def descend(
    client: int, w: Tensor, direction: Callable[[Tensor, Tensor], Tensor] = lambda w, g: g, lr: float = LR
) -> Tensor:
    """Take a client's local steps along `direction(w, g)`."""
    for _ in range(STEPS):
        w = w - lr * direction(w, gradient(w, *client_data()[client]))
    return w


def unit(v: Tensor) -> Tensor:
    return v / v.norm() if v.any() else v


def rise(w: Tensor, x: Tensor, y: Tensor, rho: float) -> float:
    """Return SAM's one-step rise."""
    return loss(w + rho * unit(gradient(w, x, y)), x, y) - loss(w, x, y)


def weighted(values: dict[int, Any]) -> Any:
    """Return the mean over clients by their numbers of examples."""
    total = sum(SIZES[k] for k in values)
    return sum(SIZES[k] / total * value for k, value in values.items())
