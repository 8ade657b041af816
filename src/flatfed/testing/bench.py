"""The small problems of the battery, and the bridge from a naive set-up to `ff.train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from flatfed.testing.naive.model import CLASSES, DIMENSION, HIDDEN, INPUTS, Vector, zero_gradient
from flatfed.testing.naive.training import Setup, Swa, Wima

SIZES = (4, 7, 3, 9, 5, 6)
COHORTS = ((0, 3), (1, 2, 4), (3,), (0, 2), (4, 1), (2, 3, 0))
NEVER_SAMPLED = 5
"""The client that is in none of the cohorts."""
SETTINGS: dict[str, Any] = {"lr": 0.2, "local_epochs": 3, "weight_decay": 0.02, "lr_decay": 0.9}
FOUR_ROUNDS = COHORTS[:4]
EVERYONE = tuple(range(len(SIZES)))


def network_setup(sizes: Sequence[int] = SIZES, seed: int = 1, **changes: Any) -> Setup:
    """Return clients of unequal size and differing labels for the tanh network of `naive/model.py`."""
    rng = np.random.default_rng(seed)
    clients = []
    for k, n in enumerate(sizes):
        x = rng.normal(size=(n, INPUTS)) + 0.5 * rng.normal(size=INPUTS)
        y = np.where(rng.random(n) < 0.6, k % CLASSES, rng.integers(0, CLASSES, n))
        clients.append((x, y.astype(np.int64)))
    w0 = rng.normal(size=DIMENSION) * 0.6
    return Setup(w0=w0, clients=clients, **{"schedule": COHORTS, **SETTINGS, **changes})


def repeated_sample_setup(**changes: Any) -> Setup:
    """Return clients that each hold one sample many times, so that any batch of a client has the same gradient."""
    setup = network_setup(**changes)
    clients = [(np.repeat(x[:1], len(y), 0), np.repeat(y[:1], len(y))) for x, y in setup.clients]
    return replace(setup, clients=clients)


SETUPS: dict[str, Callable[[], Setup]] = {
    "uniform": lambda: network_setup(weighting="uniform", schedule=FOUR_ROUNDS),
    "clip": lambda: network_setup(clip=0.15, schedule=FOUR_ROUNDS),
    "momentum": lambda: network_setup(momentum=0.7, schedule=FOUR_ROUNDS),
    "single-client": lambda: network_setup(sizes=(6,), schedule=((0,),) * 4),
    "full-participation": lambda: network_setup(schedule=(EVERYONE,) * 4),
    "clients-with-one-sample": lambda: network_setup(sizes=(1, 7, 1, 9, 1, 1), schedule=FOUR_ROUNDS),
    "one-local-step": lambda: network_setup(local_epochs=1),
    "constant-loss": lambda: network_setup(gradient=zero_gradient, schedule=FOUR_ROUNDS),
}
"""Settings that each change one thing; a method must agree with its naive computation in every one."""


def constant(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return a loss that is zero everywhere."""
    return (outputs * 0.0).sum()


def network(w: Vector, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Return the tanh network with these parameters."""
    net = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)).to(torch.float64)
    nn.utils.vector_to_parameters(torch.tensor(w), net.parameters())
    return net.to(dtype)


def server_average(average: Swa | Wima) -> Any:
    """Return the package's average with the values of a naive one."""
    if isinstance(average, Wima):
        return ff.WIMA(window=average.window)
    return ff.SWA(start=average.start, cycle=average.cycle, lr_low=average.lr_low, mode=average.mode)


def tensors(clients: Sequence[tuple[Any, Any]], dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    """Return the clients' examples as tensors."""
    return [(torch.tensor(x, dtype=dtype), torch.as_tensor(y)) for x, y in clients]


def train_network(
    method: Any,
    setup: Setup,
    dtype: torch.dtype = torch.float64,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    **changes: Any,
) -> Any:
    """Train the tanh network with `ff.train`, given what the naive computation was given."""
    clients = tensors(setup.clients, dtype)
    if loss is None:
        loss = constant if setup.gradient is zero_gradient else functional.cross_entropy
    task = ff.Task(model=network(setup.w0, dtype), clients=clients, test=clients[0], loss=loss)
    return ff.train(task, method, **{**train_arguments(setup), "dtype": dtype, **changes})


def train_arguments(setup: Setup) -> dict[str, Any]:
    """Return what `ff.train` is given for a set-up, besides task and method."""
    names = ("lr", "local_epochs", "batch_size", "weight_decay", "momentum", "lr_decay", "clip", "weighting")
    return {
        **{name: getattr(setup, name) for name in names},
        **({"average": server_average(setup.average)} if setup.average else {}),
        "rounds": setup.rounds,
        "sampling": ff.Replay([list(cohort) for cohort in setup.schedule]),
        "seed": 0,
        "workers": 0,
    }


def array(vector: Any) -> Vector:
    """Return a vector or number as a flat array in float64."""
    return np.asarray(torch.as_tensor(vector).detach().cpu(), dtype=np.float64).reshape(-1)


def assert_close(actual: Any, expected: Any, rel: float = 1e-10, floor: float = 1e-13) -> None:
    """Refuse a Euclidean distance above `rel` times the expected norm; `floor` serves vectors that are nearly 0."""
    a, e = array(actual), array(expected)
    assert a.shape == e.shape, f"{a.shape[0]} numbers instead of {e.shape[0]}"
    assert np.isfinite(a).all(), "not all numbers are finite"
    distance = float(np.linalg.norm(a - e))
    assert distance <= rel * float(np.linalg.norm(e)) + floor, f"distance {distance:.3e}"


def held(state: Mapping[str, Any], name: str, like: Vector) -> Vector:
    """Return a state vector; one that was never written counts as zero."""
    return array(state[name]) if name in state else np.zeros_like(like)


def same_state(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Say whether two states are the same, bit for bit."""
    return set(a) == set(b) and all(np.array_equal(array(a[name]), array(b[name])) for name in a)
