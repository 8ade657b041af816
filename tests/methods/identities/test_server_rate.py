"""The server's rate is a factor on the step that a method makes, and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from flatfed.algorithms.bases.server_rate import ServerRate
from flatfed.core.method.algorithm import Algorithm
from methods.bench import array, assert_close, network_setup, same_state, train_network
from methods.identities.shared import METHODS, prefixes, train_id, vector
from methods.table import TABLE

SCALED = (
    *(
        "fedgf",
        "fedwmsam",
        "fedadamw",
        "fedcm",
        "mime",
        "mimelite",
        "mofedsam",
        "fedgamma",
        "fedlesam",
        "fedlesam-s",
        "fedlesam-d",
        "fedsam",
        "fedasam",
    ),
    *("fedprox", "fedacg", "feddyn", "fedsmoo", "fedspeed", "fedgloss", "naivefedgloss"),
)
OWN = {
    "fedavg": {"server_lr": 0.6},
    "fedavgm": {"server_lr": 0.6},
    "scaffold": {"server_lr": 0.6},
    "fedvssam": {"server_lr": 0.6},
    "fedadam": {"server_lr": 0.6, "tau": 0.1},
    "fedyogi": {"server_lr": 0.6, "tau": 0.1},
    "fedadagrad": {"server_lr": 0.6, "tau": 0.1},
}
each_scaled = pytest.mark.parametrize("method", SCALED)


def without_the_hook(method: str) -> Any:
    """The method as it would be without a rate."""
    cls = Algorithm.registry[method]
    return type(f"Plain{cls.__name__}", (cls,), {"advance": Algorithm.advance})(**METHODS[method])


def test_these_methods_have_it() -> None:
    ours = {id: cls for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed.")}
    assert {id for id, cls in ours.items() if issubclass(cls, ServerRate)} == set(SCALED)
    assert {row.id for row in TABLE if row.scaled} == set(SCALED)


@pytest.mark.parametrize("rate", [0.3, 1.7])
@each_scaled
def test_one_round_goes_that_share_of_its_way(method: str, rate: float) -> None:
    for t, setup in enumerate(prefixes(network_setup(schedule=((0, 3), (1, 2, 4))))):
        before = setup.w0 if t == 0 else vector(method, replace(setup, schedule=setup.schedule[:t]), **METHODS[method])
        steps = f"steps(0:1, {t}:{rate})" if t else rate
        full, scaled = (vector(method, setup, **METHODS[method], server_lr=s) for s in (1.0, steps))
        assert_close(scaled, before + rate * (full - before), rel=1e-13)
        assert np.linalg.norm(scaled - full) > 1e-3


@each_scaled
def test_what_is_kept_after_one_round_does_not_depend_on_it(method: str) -> None:
    setup = network_setup(schedule=((0, 3),))
    one, other = (train_id(method, setup, **METHODS[method], server_lr=rate) for rate in (1.0, 0.4))
    assert same_state(one.server_state, other.server_state)
    assert all(same_state(one.client_state(k), other.client_state(k)) for k in range(setup.N))


@each_scaled
def test_a_rate_of_one_changes_no_bit(method: str) -> None:
    setup = network_setup(batch_size=2)
    plain = train_network(without_the_hook(method), setup)
    one = train_id(method, setup, **METHODS[method], server_lr=1.0)
    assert torch.equal(one.vector, plain.vector)
    assert same_state(one.server_state, plain.server_state)


@pytest.mark.parametrize("method", OWN)
def test_methods_with_a_rate_of_their_own_are_not_scaled_twice(method: str) -> None:
    """Their first step is proportional to the rate, which is in their own formula alone."""
    setup = network_setup(schedule=((0, 3),))
    slow = vector(method, setup, **OWN[method]) - setup.w0
    double = vector(method, setup, **OWN[method] | {"server_lr": 1.2}) - setup.w0
    assert_close(double, 2 * slow, rel=1e-12)


def test_the_parameters_of_scaffold_are_called_in_the_same_order() -> None:
    assert ff.SCAFFOLD(0.5, "I") == ff.make("scaffold", server_lr=0.5, option="I")
    with pytest.raises(TypeError):
        ff.FedGAMMA(0.1, 0.5)


def test_the_rate_may_follow_a_schedule() -> None:
    setup = network_setup()
    method = ff.make("feddyn", alpha=0.3, server_lr=ff.Steps({0: 1.0, 2: 0.5}))
    run = train_network(method, setup)
    moved = [row["update_norm"] for row in run.history]
    constant = train_network(ff.make("feddyn", alpha=0.3), replace(setup, schedule=setup.schedule[:3]))
    assert moved[:2] == [row["update_norm"] for row in constant.history[:2]]
    assert moved[2] == pytest.approx(constant.history[2]["update_norm"] / 2, rel=1e-12)


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_is_positive(rate: float) -> None:
    with pytest.raises(ff.ConfigError, match="server_lr must be greater than 0"):
        ff.make("fedsam", server_lr=rate)


def test_a_method_of_ones_own_gets_it_from_the_base() -> None:
    class Half(ServerRate):
        """FedAvg with a rate."""

    setup = network_setup(weighting="uniform")
    own = train_network(Half(server_lr=0.7), setup)
    assert_close(own.vector, array(train_id("fedavg", setup, server_lr=0.7).vector), rel=1e-13)
