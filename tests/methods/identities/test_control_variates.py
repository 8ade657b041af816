"""Identities of FedGAMMA, and of the change of c that the server forms itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, assert_close, network_setup, repeated_sample_setup, train_network
from methods.identities.shared import (
    EVERYONE,
    OPTIMISERS,
    distance,
    each_state,
    fewer,
    one_round,
    plain_setup,
    radius,
    train_id,
    vector,
)
from methods.naive import DIMENSION, unit

SEND = {
    "scaffold": {},
    "scaffold+sam": {"client_opt": OPTIMISERS["sam"]},
    "fedgamma": {"rho": 0.3},
    "fedlesam-s": {"rho": 0.3},
    "fedlesam-s/server": {"rho": 0.3, "ascent": "server"},
}


def sending(name: str, send_dc: bool) -> Any:
    """The method `name` that sends the change of c, or leaves it to the server."""
    params = {key: value() if callable(value) else value for key, value in SEND[name].items()}
    return ff.make(name.split("+")[0].split("/")[0], send_dc=send_dc, **params)


@given(rho=radius)
@fewer
def test_fedgamma_is_scaffold_with_sam(rho: float) -> None:
    setup = network_setup()
    gamma, sam = train_id("fedgamma", setup, rho=rho), train_id("scaffold", setup, client_opt=ff.SAM(rho=rho))
    assert_close(gamma.vector, sam.vector, rel=1e-12)
    assert_close(gamma.server_state["c"], sam.server_state["c"], rel=1e-12)


def test_fedgamma_with_radius_zero_is_scaffold() -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=1)
    gamma, scaffold = train_id("fedgamma", setup, rho=0.0), train_id("scaffold", setup)
    assert_close(gamma.vector, scaffold.vector, rel=1e-13)
    assert_close(gamma.server_state["c"], scaffold.server_state["c"], rel=1e-13)
    for a, b in zip(each_state(gamma, "c", setup), each_state(scaffold, "c", setup), strict=True):
        assert_close(a, b, rel=1e-13)


@given(rho=radius)
@fewer
def test_the_first_round_of_fedgamma_is_fedsam(rho: float) -> None:
    assert_close(vector("fedgamma", one_round(), rho=rho), vector("fedsam", one_round(), rho=rho), rel=1e-13)


def test_fedgamma_with_one_client_is_fedsam() -> None:
    setup = plain_setup(sizes=(6,), schedule=((0,),) * 5)
    assert_close(vector("fedgamma", setup, rho=0.3), vector("fedsam", setup, rho=0.3), rel=1e-11)


def test_fedgamma_with_one_step_and_everyone_is_distributed_sam_whatever_came_before() -> None:
    setup = plain_setup(local_epochs=1, schedule=(*COHORTS, EVERYONE))
    before = vector("fedgamma", replace(setup, schedule=COHORTS), rho=0.3)
    g = [setup.g(k, before + 0.3 * unit(setup.g(k, before))) for k in EVERYONE]
    after = train_id("fedgamma", setup, rho=0.3)
    assert_close(after.vector, before - setup.lr * naive.mean(g))
    for k in EVERYONE:
        assert_close(after.client_state(k)["c"], g[k], rel=1e-9)


@pytest.mark.parametrize("unequal_steps", [False, True], ids=["equal steps", "unequal steps"])
@pytest.mark.parametrize("name", SEND)
def test_the_change_of_c_that_the_server_forms_is_the_one_that_clients_send(name: str, unequal_steps: bool) -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=1) if unequal_steps else network_setup()
    sent, formed = (train_network(sending(name, send_dc), setup) for send_dc in (True, False))
    assert_close(formed.vector, sent.vector, rel=1e-12)
    assert_close(formed.server_state["c"], sent.server_state["c"], rel=1e-12)
    for a, b in zip(each_state(formed, "c", setup), each_state(sent, "c", setup), strict=True):
        assert_close(a, b, rel=1e-12)


@pytest.mark.parametrize("name", SEND)
def test_forming_the_change_of_c_spares_one_vector_up(name: str) -> None:
    setup = network_setup()
    sent, formed = (train_network(sending(name, send_dc), setup).history for send_dc in (True, False))
    for a, b, cohort in zip(sent, formed, COHORTS, strict=True):
        assert a["bytes_down"] == b["bytes_down"]
        assert a["bytes_up"] - b["bytes_up"] == pytest.approx(8 * DIMENSION * len(cohort), abs=64 * len(cohort))


def test_the_server_cannot_form_the_gradients_of_option_one() -> None:
    with pytest.raises(ff.ConfigError, match="option"):
        ff.make("scaffold", option="I", send_dc=False)


def test_option_one_and_two_are_different_methods() -> None:
    assert distance(vector("scaffold", plain_setup(), option="I"), vector("scaffold", plain_setup())) > 1e-3
