"""The small problems of these tests: a tanh network on a few points, and networks with everything a layout meets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import flatfed as ff

INPUTS, CLASSES = 4, 3
SIZES = (5, 8, 3, 6)
Pairs = list[tuple[Tensor, Tensor]]


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """Return the module with reproducible weights, the global generator left alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def net(seed: int = 0) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(INPUTS, 5), nn.Tanh(), nn.Linear(5, CLASSES)), seed).double()


def normed(seed: int = 0) -> nn.Module:
    """As `net`, with BatchNorm."""

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))

    return seeded(make, seed).double()


def conv_net() -> nn.Module:
    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, CLASSES))

    return seeded(make).double()


def images(count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 2, 3, 3, generator=generator, dtype=torch.float64), torch.arange(count) % CLASSES


def pairs(sizes: Sequence[int] = SIZES, seed: int = 0, dtype: torch.dtype = torch.float64) -> Pairs:
    """Return clients of these sizes, each with its own shift and favourite class."""
    generator = torch.Generator().manual_seed(seed)
    clients = []
    for k, n in enumerate(sizes):
        x = torch.randn(n, INPUTS, generator=generator, dtype=dtype) + 0.5 * k
        y = torch.where(torch.rand(n, generator=generator) < 0.5, k % CLASSES, torch.arange(n) % CLASSES)
        clients.append((x, y))
    return clients


def task(model: nn.Module | None = None, clients: Any = None, **changes: Any) -> ff.Task:
    return ff.Task(model=model or net(), clients=clients or pairs(), **{"test": pairs((9,), 5)[0], **changes})


def train(problem: ff.Task, method: Any = None, cohorts: Any = None, **changes: Any) -> ff.Run:
    """Train on a schedule (all clients twice unless given), full batch, float64, in this process."""
    cohorts = cohorts or [list(range(problem.population))] * 2
    plain = {
        "lr": 0.3,
        "weight_decay": 0.0,
        "batch_size": None,
        "dtype": torch.float64,
        "workers": 0,
        "vectorised": False,
    }
    sampling = ff.Replay(cohorts) if isinstance(cohorts, list) else cohorts
    settings = {"rounds": len(cohorts) if isinstance(cohorts, list) else 3, "sampling": sampling}
    return ff.train(problem, method or ff.make("fedavg"), **{**plain, **settings, **changes})


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters() if p.requires_grad])


def gradient(model: nn.Module, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy gradient at `w` by a route of its own."""
    names = [name for name, _ in model.named_parameters()]
    sizes = [p.numel() for p in model.parameters()]
    shapes = [p.shape for p in model.parameters()]
    w = w.clone().requires_grad_()
    parts = {n: v.view(s) for n, v, s in zip(names, w.split(sizes), shapes, strict=True)}
    loss = nn.functional.cross_entropy(torch.func.functional_call(model, parts, (x,)), y)
    return torch.autograd.grad(loss, w)[0]


def same_run(a: ff.Run, b: ff.Run, population: int) -> bool:
    """Say whether model, server state and every client's state are equal bit for bit."""
    states = [(a.server_state, b.server_state)] + [(a.client_state(k), b.client_state(k)) for k in range(population)]
    return torch.equal(a.vector, b.vector) and all(same_state(x, y) for x, y in states)


def same_state(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(torch.as_tensor(a[n]), torch.as_tensor(b[n])) for n in a)


# Plain loops in float64 for small methods on `net()` and `pairs()`: full batches, weighting by examples.

COHORTS = [[0, 2], [1, 2, 3], [0, 1], [2]]
LR, STEPS = 0.3, 2
WHERE = {"cohorts": COHORTS, "local_epochs": STEPS, "lr": LR}


def descend(k: int, w: Tensor, direction: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Take client k's local steps from `w` along `direction(w, g)`."""
    for _ in range(STEPS):
        w = w - LR * direction(w, gradient(net(), w, *pairs()[k]))
    return w


def mean(values: dict[int, Tensor]) -> Tensor:
    total = sum(SIZES[k] for k in values)
    return sum(SIZES[k] / total * v for k, v in values.items())


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-13)
