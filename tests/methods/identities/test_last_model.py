"""Identities and limits of FedLESAM, FedLESAM-S and FedLESAM-D."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import COHORTS, Point, array, assert_close, network_setup, train_point
from methods.identities.shared import (
    EVERYONE,
    bowl,
    coordinates,
    distance,
    few,
    fewer,
    prefixes,
    radius,
    train_id,
    vector,
)
from methods.naive import DIMENSION, Setup, Vector, unit

PARAMS: dict[str, dict[str, Any]] = {"fedlesam": {}, "fedlesam-s": {}, "fedlesam-d": {"beta": 4.0}}
WITHOUT_ASCENT: dict[str, tuple[str, dict[str, Any]]] = {
    "fedlesam": ("fedavg", {}),
    "fedlesam-s": ("scaffold", {}),
    "fedlesam-d": ("feddyn", {"alpha": 0.25}),
}
STRANGERS = ((0, 3), (1,), (2, 4), (5,))  # nobody is asked twice
each_form = pytest.mark.parametrize("method", PARAMS)
each_ascent = pytest.mark.parametrize("ascent", ["client", "server"])


def lesam(method: str, setup: Setup, **params: Any) -> Vector:
    return vector(method, setup, **PARAMS[method], **params)


def plain(method: str, setup: Setup) -> Vector:
    base, params = WITHOUT_ASCENT[method]
    return vector(base, setup, **params)


@each_ascent
@each_form
def test_fedlesam_with_radius_zero_is_its_plain_method(method: str, ascent: str) -> None:
    setup = network_setup()
    assert_close(lesam(method, setup, rho=0.0, ascent=ascent), plain(method, setup), rel=1e-12)


@each_form
@given(rho=radius)
@fewer
def test_a_client_that_is_asked_for_the_first_time_is_not_perturbed(method: str, rho: float) -> None:
    setup = network_setup(schedule=STRANGERS)
    assert_close(lesam(method, setup, rho=rho), plain(method, setup), rel=1e-12)


@each_ascent
@each_form
@given(rho=radius)
@fewer
def test_the_first_round_of_fedlesam_is_its_plain_method(method: str, ascent: str, rho: float) -> None:
    setup = network_setup(schedule=COHORTS[:1])
    assert_close(lesam(method, setup, rho=rho, ascent=ascent), plain(method, setup), rel=1e-13)


@each_form
@given(rho=radius)
@fewer
def test_with_everyone_the_direction_of_the_clients_is_that_of_the_server(method: str, rho: float) -> None:
    setup = network_setup(schedule=(EVERYONE,) * 3)
    own, broadcast = (lesam(method, setup, rho=rho, ascent=ascent) for ascent in ("client", "server"))
    assert_close(own, broadcast, rel=1e-11)
    assert distance(own, plain(method, setup)) > 1e-6


@each_form
def test_with_some_of_the_clients_the_directions_differ(method: str) -> None:
    own, broadcast = (lesam(method, network_setup(), rho=0.3, ascent=ascent) for ascent in ("client", "server"))
    assert distance(own, broadcast) > 1e-3


@given(w=coordinates, rho=radius, K=st.integers(1, 4))
@few
def test_the_perturbation_is_rho_along_the_way_back_and_the_same_for_the_whole_round(
    w: Vector, rho: float, K: int
) -> None:
    lr, curvature = 0.1, np.arange(1.0, 5.0)
    method = ff.make("fedlesam", rho=rho)
    run = train_point(method, Point(w), [bowl(np.zeros(4), curvature)], rounds=2, lr=lr, local_epochs=K)
    w1 = w * (1 - lr * curvature) ** K
    eps, v = rho * unit(w - w1), w1
    for _ in range(K):
        v = v - lr * curvature * (v + eps)
    assert_close(run.vector, v, rel=1e-11)


@given(w=coordinates, rho=radius)
@fewer
def test_the_server_s_direction_reaches_clients_that_are_new(w: Vector, rho: float) -> None:
    lr, zero = 0.1, np.zeros(4)
    clients, schedule = [bowl(zero), bowl(zero, 2.0)], [(0,), (1,)]
    run = train_point(ff.make("fedlesam", rho=rho, ascent="server"), Point(w), clients, schedule=schedule, lr=lr)
    w1 = w * (1 - lr)
    assert_close(run.vector, w1 - lr * 2.0 * (w1 + rho * unit(w - w1)), rel=1e-11)
    own = train_point(ff.make("fedlesam", rho=rho), Point(w), clients, schedule=schedule, lr=lr)
    assert_close(own.vector, w1 * (1 - 2 * lr), rel=1e-12)


@each_form
def test_a_client_keeps_the_model_that_it_last_received(method: str) -> None:
    setup = network_setup()
    sent, last = setup.w0, {}
    for part in prefixes(setup):
        run = train_id(method, part, rho=0.3, **PARAMS[method])
        last.update(dict.fromkeys(part.schedule[-1], sent))
        for k in range(setup.N):
            assert float(run.client_state(k)["met"]) == (k in last)
            if k in last:
                np.testing.assert_array_equal(array(run.client_state(k)["old"]), last[k])
        sent = array(run.vector)


@each_form
def test_the_server_s_direction_needs_no_memory_on_clients_and_one_more_vector_down(method: str) -> None:
    setup = network_setup()
    own, broadcast = (train_id(method, setup, rho=0.3, ascent=a, **PARAMS[method]) for a in ("client", "server"))
    assert {"old", "met"} <= set(own.client_state(0))
    assert not {"old", "met"} & set(broadcast.client_state(0))
    before_the_last = train_id(method, list(prefixes(setup))[-2], rho=0.3, ascent="server", **PARAMS[method])
    assert_close(broadcast.server_state["previous"], before_the_last.vector, rel=1e-15)
    for t, (a, b, cohort) in enumerate(zip(own.history, broadcast.history, COHORTS, strict=True)):
        more = 8 * DIMENSION * len(cohort) if t > 0 else 0
        assert b["bytes_down"] - a["bytes_down"] == pytest.approx(more, abs=64 * len(cohort))
        assert a["bytes_up"] == pytest.approx(b["bytes_up"], abs=64 * len(cohort))


@each_ascent
@each_form
def test_fedlesam_runs_one_backprop_per_step(method: str, ascent: str) -> None:
    setup = network_setup()
    run = train_id(method, setup, rho=0.3, ascent=ascent, **PARAMS[method])
    assert [row["backprops"] for row in run.history] == [setup.local_epochs * len(cohort) for cohort in COHORTS]


@each_form
def test_a_server_that_does_not_move_gives_no_direction(method: str) -> None:
    w = np.array([1.0, 2.0])
    for ascent in ("client", "server"):
        made = ff.make(method, rho=0.5, ascent=ascent)
        np.testing.assert_array_equal(array(train_point(made, Point(w), [bowl(w)], rounds=3).vector), w)
