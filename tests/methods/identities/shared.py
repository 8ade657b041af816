"""What the identity tests share: their drawn values, plain set-ups and one-client problems."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flatfed as ff
from methods.bench import COHORTS, array, client_opt, held, network_setup, train_network
from methods.naive import Setup, Vector
from methods.table import CLIENT_OPTS

EVERYONE = (0, 1, 2, 3, 4, 5)

few = settings(max_examples=5)
fewer = settings(few, max_examples=2)
radius = st.floats(1e-3, 2.0)
coordinates = arrays(np.float64, 4, elements=st.floats(0.1, 2.0) | st.floats(-2.0, -0.1))
fraction = st.floats(0.05, 0.95)
each_opt = pytest.mark.parametrize("opt", CLIENT_OPTS)


def opt_named(name: str) -> Any:
    return client_opt(CLIENT_OPTS[name].opt)


def vector(method_id: str, setup: Setup, **params: Any) -> Vector:
    return array(train_network(ff.make(method_id, **params), setup).vector)


def plain_setup(**changes: Any) -> Setup:
    """No weight decay, no clip; uniform so that every method compares."""
    return network_setup(**{"weight_decay": 0.0, "lr_decay": 1.0, "weighting": "uniform", **changes})


def distance(a: Vector, b: Vector) -> float:
    return float(np.linalg.norm(a - b))


def bowl(centre: Vector, curvature: Vector | float = 1.0, n: int = 3) -> tuple[Vector, Vector]:
    """The client whose objective is 1/2 |a w - y|^2 with a^2 = curvature and minimum at `centre`."""
    a = np.sqrt(np.broadcast_to(np.asarray(curvature, dtype=np.float64), centre.shape))
    return np.tile(a, (n, 1)), np.tile(a * centre, (n, 1))


def slope(gradient: Vector, n: int = 3) -> tuple[Vector, Vector]:
    """The client whose gradient is the same everywhere (with the loss `linear`)."""
    return np.ones((n, len(gradient))), np.tile(gradient, (n, 1))


# --- every method, for what holds of all of them ----------------------------------------------------------

TAKE_A_CLIENT_OPT: dict[str, Mapping[str, Any]] = {
    "fedavg": {"server_lr": 0.8},
    "fedprox": {"mu": 0.5},
    "fedavgm": {"server_momentum": 0.6},
    "fedadam": {"server_lr": 0.1, "tau": 0.1},
    "fedyogi": {"server_lr": 0.1, "tau": 0.1},
    "fedadagrad": {"server_lr": 0.1, "tau": 0.1},
    "fedadamw": {"beta1": 0.6, "beta2": 0.8, "eps": 0.01, "alpha": 0.4},
    "fednova": {},
    "scaffold": {},
    "feddyn": {"alpha": 0.3},
    "adabest": {"beta": 0.6, "mu": 0.2},
    "fedcm": {"alpha": 0.4},
    "fedacg": {"lam": 0.5, "beta": 0.3},
    "mimelite": {"beta": 0.6},
    "fedgloss": {"rho_server": 0.3, "beta": 3.0},
    "naivefedgloss": {"rho_server": 0.3, "beta": 3.0},
}
TAKE_NONE: dict[str, Mapping[str, Any]] = {
    "fedsam": {"rho": 0.3},
    "fedasam": {"rho": 0.6},
    "mofedsam": {"rho": 0.3, "beta": 0.4},
    "mime": {"beta": 0.6},
    "fedspeed": {"rho": 0.3, "alpha": 0.7, "lam": 3.0},
    "fedgamma": {"rho": 0.3},
    "fedsmoo": {"rho": 0.3, "beta": 3.0},
    "fedlesam": {"rho": 0.3},
    "fedlesam-s": {"rho": 0.3},
    "fedlesam-d": {"rho": 0.3, "beta": 3.0},
    "fedgmt": {"alpha": 0.8, "beta": 3.0},
    "fedgf": {"rho": 0.3, "threshold": 0.35},
    "fedwmsam": {"rho": 0.3, "alpha": 0.4, "lam": 0.3},
    "fedvssam": {"rho": 0.3, "mix_local": 0.6, "mix_global": 0.7},
}
METHODS = TAKE_A_CLIENT_OPT | TAKE_NONE
OPTIMISERS: dict[str, Callable[[], Any]] = {
    name: functools.partial(opt_named, name) for name, row in CLIENT_OPTS.items() if row.published is not None
}
each_method = pytest.mark.parametrize("method", METHODS)
any_opt = pytest.mark.parametrize("opt", OPTIMISERS)


def train_id(method_id: str, setup: Setup, **params: Any) -> Any:
    return train_network(ff.make(method_id, **params), setup)


def prefixes(setup: Setup) -> Iterator[Setup]:
    """The set-up stopped after each of its rounds."""
    for t in range(1, setup.rounds + 1):
        yield replace(setup, schedule=setup.schedule[:t])


def continued(setup: Setup, w: Vector, t: int) -> Setup:
    """Round t alone, from the model w."""
    return replace(setup, w0=w, schedule=setup.schedule[t : t + 1], lr=setup.lr * setup.lr_decay**t)


def each_state(run: Any, name: str, setup: Setup) -> list[Vector]:
    return [held(run.client_state(k), name, setup.w0) for k in range(setup.N)]


def one_round(**changes: Any) -> Setup:
    return plain_setup(schedule=COHORTS[:1], **changes)
