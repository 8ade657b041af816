"""What the identity tests share: their drawn values, plain set-ups and one-client problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flatfed as ff
from methods.bench import array, client_opt, network_setup, train_network
from methods.naive import Setup, Vector
from methods.table import CLIENT_OPTS

few = settings(max_examples=8, deadline=None, derandomize=True, database=None)
radius = st.floats(1e-3, 2.0)
coordinates = arrays(np.float64, 4, elements=st.floats(0.1, 2.0) | st.floats(-2.0, -0.1))
each_opt = pytest.mark.parametrize("opt", CLIENT_OPTS)


def opt_named(name: str) -> Any:
    return client_opt(CLIENT_OPTS[name])


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
