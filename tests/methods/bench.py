"""The small problems of these tests, and the bridge from a naive set-up to `ff.train`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from flatfed.algorithms import ClientOptimiser
from flatfed.core.configuration.config import parameters
from methods.naive import CLASSES, DIMENSION, INPUTS, Opt, Setup, Swa, Vector, Wima, zero_gradient
from methods.table import Case

SIZES = (4, 7, 3, 9, 5, 6)
COHORTS = ((0, 3), (1, 2, 4), (3,), (0, 2), (4, 1), (2, 3, 0))  # client 5 is never asked
NEVER_SAMPLED = 5
SETTINGS = {"lr": 0.2, "local_epochs": 3, "weight_decay": 0.02, "lr_decay": 0.9}


def network_setup(sizes: Sequence[int] = SIZES, seed: int = 1, **changes: Any) -> Setup:
    """Clients of unequal size and differing labels for the tanh network of `naive/model.py`."""
    rng = np.random.default_rng(seed)
    clients = []
    for k, n in enumerate(sizes):
        x = rng.normal(size=(n, INPUTS)) + 0.5 * rng.normal(size=INPUTS)
        y = np.where(rng.random(n) < 0.6, k % CLASSES, rng.integers(0, CLASSES, n))
        clients.append((x, y.astype(np.int64)))
    w0 = rng.normal(size=DIMENSION) * 0.6
    return Setup(w0=w0, clients=clients, **{"schedule": COHORTS, **SETTINGS, **changes})


def repeated_sample_setup(**changes: Any) -> Setup:
    """Each client holds one sample many times, so any batch of a client has the same gradient."""
    setup = network_setup(**changes)
    clients = [(np.repeat(x[:1], len(y), 0), np.repeat(y[:1], len(y))) for x, y in setup.clients]
    return replace(setup, clients=clients)


class Point(nn.Module):
    """The parameters times the inputs: with the losses below, client k's objective is in its (x, y)."""

    def __init__(self, weight: Vector, bias: Vector | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.bias = None if bias is None else nn.Parameter(torch.tensor(bias))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.weight if self.bias is None else torch.cat([self.weight, self.bias]))


class Shift(nn.Module):
    """As `Point` with one parameter whose name does not contain "weight"."""

    def __init__(self, shift: Vector) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(shift))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.shift


def quadratic(outputs: Tensor, targets: Tensor) -> Tensor:
    """1/2 |x w - y|^2: gradient x (x w - y)."""
    return 0.5 * ((outputs - targets) ** 2).sum(1).mean()


def linear(outputs: Tensor, targets: Tensor) -> Tensor:
    """Gradient x y, whatever w."""
    return (outputs * targets).sum(1).mean()


def constant(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs * 0.0).sum()


def network(w: Vector, dtype: torch.dtype = torch.float64) -> nn.Module:
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).to(torch.float64)
    nn.utils.vector_to_parameters(torch.tensor(w), net.parameters())
    return net.to(dtype)


def client_opt(opt: Opt) -> Any:
    """The package's optimiser of that id, with these values; an id or a parameter that it does not know is an error."""
    chosen = ClientOptimiser.registry[opt.kind]
    radius = {"rho": opt.rho} if "rho" in parameters(chosen) else {}
    return chosen(**radius, **opt.more)


def server_average(average: Swa | Wima) -> Any:
    if isinstance(average, Wima):
        return ff.WIMA(window=average.window)
    return ff.SWA(start=average.start, cycle=average.cycle, lr_low=average.lr_low, mode=average.mode)


def algorithm(case: Case) -> Any:
    extra = {"client_opt": client_opt(case.client_opt)} if case.client_opt else {}
    return ff.make(case.row.id, **case.params, **extra)


def tensors(clients: Sequence[tuple[Any, Any]], dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    return [(torch.tensor(x, dtype=dtype), torch.as_tensor(y)) for x, y in clients]


def train_network(
    method: Any,
    setup: Setup,
    dtype: torch.dtype = torch.float64,
    loss: Callable | None = None,
    **changes: Any,
) -> Any:
    """`ff.train` on the tanh network, given what the naive computation was given."""
    clients = tensors(setup.clients, dtype)
    if loss is None:
        loss = constant if setup.gradient is zero_gradient else functional.cross_entropy
    task = ff.Task(model=network(setup.w0, dtype), clients=clients, test=clients[0], loss=loss)
    return ff.train(task, method, **{**train_arguments(setup), "dtype": dtype, **changes})


def train_case(case: Case, setup: Setup, **changes: Any) -> Any:
    """As `train_network`; a method that must warn about momentum is expected to, and no other may."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run = train_network(algorithm(case), setup, **changes)
    said = [str(warning.message) for warning in seen]
    expected = case.row.warns_with_momentum and setup.momentum > 0
    assert any("momentum" in message for message in said) == expected, said
    return run


def train_arguments(setup: Setup) -> dict[str, Any]:
    names = ("lr", "local_epochs", "batch_size", "weight_decay", "momentum", "lr_decay", "clip", "weighting")
    return {
        **{name: getattr(setup, name) for name in names},
        **({"average": server_average(setup.average)} if setup.average else {}),
        "rounds": setup.rounds,
        "sampling": ff.Replay([list(cohort) for cohort in setup.schedule]),
        "seed": 0,
        "workers": 0,
    }


def train_point(
    method: Any,
    model: nn.Module,
    clients: Sequence[tuple[Any, Any]],
    *,
    rounds: int = 1,
    schedule: Sequence[Sequence[int]] | None = None,
    loss: Callable = quadratic,
    **settings: Any,
) -> Any:
    """Plain settings (no weight decay, full batch, uniform) on a task given by its tensors."""
    cohorts = schedule or [list(range(len(clients)))] * rounds
    pairs = tensors(clients, torch.float64)
    task = ff.Task(model=model, clients=pairs, test=None, loss=loss)
    plain = {"lr": 0.1, "local_epochs": 1, "weight_decay": 0.0, "weighting": "uniform"}
    fixed = {"batch_size": None, "dtype": torch.float64, "workers": 0, "seed": 0}
    sampling = ff.Replay([list(cohort) for cohort in cohorts])
    return ff.train(task, method, rounds=len(cohorts), sampling=sampling, **{**plain, **fixed, **settings})


def array(vector: Any) -> Vector:
    return np.asarray(torch.as_tensor(vector).detach().cpu(), dtype=np.float64).reshape(-1)


def assert_close(actual: Any, expected: Any, rel: float = 1e-10, floor: float = 1e-13) -> None:
    """Euclidean distance at most `rel` times the expected norm; `floor` serves vectors that are nearly 0."""
    a, e = array(actual), array(expected)
    assert a.shape == e.shape
    assert np.isfinite(a).all()
    distance = float(np.linalg.norm(a - e))
    assert distance <= rel * float(np.linalg.norm(e)) + floor, f"distance {distance:.3e}"


def held(state: Mapping[str, Any], name: str, like: Vector) -> Vector:
    """A state vector; one that was never written counts as zero."""
    return array(state[name]) if name in state else np.zeros_like(like)


def same_state(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Bit for bit."""
    return set(a) == set(b) and all(np.array_equal(array(a[name]), array(b[name])) for name in a)
