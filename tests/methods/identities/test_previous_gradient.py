"""SAM along the previous sharpness-aware gradient, which lives on between the rounds of a client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.method.algorithm import ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.state import Slots, vector
from methods.bench import COHORTS, Point, array, assert_close, network_setup, train_network, train_point
from methods.identities.shared import TAKE_A_CLIENT_OPT, bowl, few, plain_setup, radius, train_id
from methods.naive import Vector, unit


def plain_loop(w: Vector, curvature: Vector, rho: float, lr: float, steps: int) -> tuple[Vector, Vector]:
    """The formula, on 1/2 w curvature w: where it comes to, and its last gradient."""
    g = np.zeros_like(w)
    for _ in range(steps):
        g = curvature * (w + rho * unit(g))
        w = w - lr * g
    return w, g


@given(rho=radius)
@few
def test_one_client_over_many_rounds_is_the_plain_loop(rho: float) -> None:
    start, curvature = np.array([1.0, -2.0, 0.5]), np.array([1.0, 3.0, 0.2])
    method = ff.make("fedavg", client_opt=ff.PreviousSAM(rho=rho))
    run = train_point(method, Point(start), [bowl(np.zeros(3), curvature)], rounds=4, local_epochs=3, lr=0.1)
    w, g = plain_loop(start, curvature, rho, 0.1, 12)
    assert_close(run.vector, w, rel=1e-11)
    assert_close(run.client_state(0)["previous_gradient"], g, rel=1e-11)


def test_rounds_do_not_matter_to_a_single_client() -> None:
    """Four rounds of three steps are one round of twelve."""
    setup, method = plain_setup(schedule=((3,),) * 4, local_epochs=3), ff.make("fedavg+sam-prev")
    long = plain_setup(schedule=((3,),), local_epochs=12)
    assert_close(train_network(method, setup).vector, array(train_network(method, long).vector), rel=1e-12)


@pytest.mark.parametrize("method", TAKE_A_CLIENT_OPT)
def test_radius_zero_is_sgd_at_the_same_cost(method: str) -> None:
    setup, params = network_setup(), TAKE_A_CLIENT_OPT[method]
    perturbed = train_id(method, setup, **params, client_opt=ff.PreviousSAM(rho=0.0))
    plain = train_id(method, setup, **params)
    assert torch.equal(perturbed.vector, plain.vector)
    assert [row["backprops"] for row in perturbed.history] == [row["backprops"] for row in plain.history]
    assert set(perturbed.client_state(0)) == {*plain.client_state(0), "previous_gradient"}


def test_the_first_step_of_a_client_is_not_perturbed() -> None:
    setup = network_setup(local_epochs=1, schedule=((0,), (1,), (3,)))  # everyone once
    perturbed, plain = (train_id("fedavg", setup, client_opt=o) for o in (ff.PreviousSAM(rho=0.5), ff.SGD()))
    assert torch.equal(perturbed.vector, plain.vector)


def test_one_backprop_a_step_is_counted() -> None:
    setup = network_setup()
    run = train_id("fedavg", setup, client_opt=ff.PreviousSAM())
    assert [row["backprops"] for row in run.history] == [setup.local_epochs * len(cohort) for cohort in COHORTS]


def test_the_probe_of_naivefedgloss_leaves_the_previous_gradient_alone() -> None:
    setup = network_setup(schedule=((0, 3), (0, 3)))
    params = {"rho_server": 0.0, "client_opt": ff.PreviousSAM(rho=0.3)}
    two, one = (train_id(method, setup, **params) for method in ("naivefedgloss", "fedgloss"))
    assert_close(two.client_state(0)["previous_gradient"], array(one.client_state(0)["previous_gradient"]), rel=1e-12)


def local_task() -> ff.Task:
    """A model whose last layer stays on the clients."""
    generator = torch.Generator().manual_seed(3)
    data = [(torch.randn(n, 6, generator=generator), (torch.arange(n) + k) % 3) for k, n in enumerate((5, 9, 7, 6))]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    return ff.Task(model, data, test=data[0], local=ff.Local(names=("2.*",)))


SETTINGS = {"rounds": 4, "sampling": 3, "lr": 0.1, "batch_size": 4, "seed": 2}


@pytest.mark.parametrize("method", ["fedavg+sam-prev", "scaffold+sam-prev", "naivefedgloss+sam-prev"])
def test_local_layers_workers_and_resuming_give_the_same_bits(method: str, tmp_path: Path) -> None:
    alone = ff.train(local_task(), method, **SETTINGS, workers=0)
    layout = local_task().layout()
    assert layout.shared < layout.size
    known = {k: alone.client_state(k)["previous_gradient"] for k in range(4)}
    assert all(len(gradient) == layout.size and gradient[layout.shared :].any() for gradient in known.values())
    together = ff.train(local_task(), method, **SETTINGS, workers=2)
    ff.train(local_task(), method, **SETTINGS | {"rounds": 2}, workers=0, out=tmp_path / "run")
    resumed = ff.resume(tmp_path / "run", rounds=4, task=local_task())
    for run in (together, resumed):
        assert torch.equal(run.vector, alone.vector)
        assert all(torch.equal(run.client_state(k)["previous_gradient"], known[k]) for k in range(4))


class Clashing(ClientOptimiser):
    """Keeps something under a name that SCAFFOLD uses."""

    def client_state(self) -> Slots:
        return {"c": vector()}

    def gradient(self, client: Client) -> Tensor:
        return client.gradient()


def test_two_states_of_one_name_are_refused() -> None:
    with pytest.raises(ff.ConfigError, match=r"scaffold and .* both keep 'c' on the client"):
        train_network(ff.SCAFFOLD(client_opt=Clashing()), network_setup())
    train_network(ff.FedAvg(client_opt=Clashing()), network_setup(schedule=((0,),)))
