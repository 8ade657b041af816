"""What holds after every round, and what no method may depend on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, array, assert_close, network_setup, train_network
from methods.identities.shared import METHODS, OPTIMISERS, each_method, each_state, prefixes, train_id

CONTROL: dict[str, tuple[str, dict[str, Any]]] = {
    "scaffold": ("scaffold", {}),
    "scaffold-option-I": ("scaffold", {"option": "I", "server_lr": 0.7}),
    "scaffold-formed": ("scaffold", {"send_dc": False}),
    "fedgamma": ("fedgamma", {"rho": 0.3}),
    "fedgamma-formed": ("fedgamma", {"rho": 0.3, "send_dc": False}),
    "fedlesam-s": ("fedlesam-s", {"rho": 0.3}),
    "fedlesam-s-server": ("fedlesam-s", {"rho": 0.3, "ascent": "server", "send_dc": False}),
}
DUAL: dict[str, tuple[str, dict[str, Any]]] = {
    "feddyn": ("feddyn", {"alpha": 0.3}),
    "fedspeed": ("fedspeed", {"rho": 0.3, "alpha": 0.7, "lam": 3.0}),
    "fedspeed-unnormalised": ("fedspeed", {"rho": 0.3, "lam": 3.0, "normalise": False}),
    "fedlesam-d": ("fedlesam-d", {"rho": 0.3, "beta": 3.0}),
    "fedlesam-d-server": ("fedlesam-d", {"rho": 0.3, "beta": 3.0, "ascent": "server"}),
    "fedsmoo-A": ("fedsmoo", {"rho": 0.3, "beta": 3.0, "variant": "A"}),
    "fedsmoo-B": ("fedsmoo", {"rho": 0.3, "beta": 3.0, "variant": "B"}),
    "fedsmoo-C": ("fedsmoo", {"rho": 0.3, "beta": 3.0, "variant": "C"}),
    "fedgmt": ("fedgmt", {"beta": 3.0}),
}
SIGMA: dict[str, tuple[str, dict[str, Any]]] = {
    "fedgloss": ("fedgloss", {"rho_server": 0.4, "beta": 3.0}),
    "naivefedgloss": ("naivefedgloss", {"rho_server": 0.4, "beta": 3.0}),
}


def assert_mean_after_every_round(method: str, params: dict[str, Any], server: str, client: str) -> None:
    for part in prefixes(network_setup(local_epochs=2)):
        run = train_id(method, part, **params)
        mean = naive.mean(each_state(run, client, part))
        assert_close(run.server_state[server], mean, rel=1e-11)
        assert array(run.server_state[server]).any()


@pytest.mark.parametrize("name", CONTROL)
def test_c_is_the_mean_of_the_control_variates_of_all_clients(name: str) -> None:
    method, params = CONTROL[name]
    assert_mean_after_every_round(method, params, "c", "c")


@pytest.mark.parametrize("name", DUAL)
def test_h_is_the_mean_of_the_duals_of_all_clients(name: str) -> None:
    method, params = DUAL[name]
    assert_mean_after_every_round(method, params, "H", "h")


@pytest.mark.parametrize("name", SIGMA)
def test_sigma_is_the_mean_of_the_duals_of_all_clients(name: str) -> None:
    method, params = SIGMA[name]
    assert_mean_after_every_round(method, params, "sigma", "sigma")


@pytest.mark.parametrize("method", ["scaffold", "feddyn"])
@pytest.mark.parametrize("opt", OPTIMISERS)
def test_the_mean_holds_whatever_the_client_optimiser(method: str, opt: str) -> None:
    setup = network_setup(batch_size=2, local_epochs=1)
    run = train_id(method, setup, client_opt=OPTIMISERS[opt]())
    server, client = ("c", "c") if method == "scaffold" else ("H", "h")
    assert_close(run.server_state[server], naive.mean(each_state(run, client, setup)), rel=1e-11)


# --- what does not matter ---------------------------------------------------------------------------------


@each_method
def test_renaming_the_clients_renames_their_states_and_changes_nothing_else(method: str) -> None:
    setup, order = network_setup(), (3, 5, 0, 4, 1, 2)  # the new client j is the old client order[j]
    schedule = [tuple(order.index(k) for k in cohort) for cohort in COHORTS]
    renamed = replace(setup, clients=[setup.clients[k] for k in order], schedule=schedule)
    a, b = (train_id(method, s, **METHODS[method]) for s in (setup, renamed))
    assert_close(b.vector, a.vector, rel=1e-10)
    for name, value in a.server_state.items():
        assert_close(b.server_state[name], value, rel=1e-9)
    for j, k in enumerate(order):
        state = a.client_state(k)
        assert set(b.client_state(j)) == set(state)
        for name, value in state.items():
            assert_close(b.client_state(j)[name], value, rel=1e-9)


@each_method
def test_training_leaves_the_method_alone(method: str) -> None:
    made = ff.make(method, **METHODS[method])
    setup = network_setup(schedule=COHORTS[:2])
    first = train_network(made, setup)
    assert made == ff.make(method, **METHODS[method])
    assert torch.equal(train_network(made, setup).vector, first.vector)
