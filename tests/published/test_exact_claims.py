"""Exact claims of the papers that no other test proves: counts, bounds and identities, without training to the end."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import flatfed as ff
from flatness.federations import trained
from methods.bench import Point, array, assert_close, network_setup, train_network, train_point
from methods.identities.shared import bowl
from methods.naive import DIMENSION, Setup, Vector

SCALARS = 128
"""Bytes that scalars may add per client."""


def one_step(data: tuple[Vector, Vector], w: Vector, **changes: Any) -> Setup:
    """One client, one full-batch step with rate 1."""
    plain = {"lr": 1.0, "local_epochs": 1, "weight_decay": 0.0, "lr_decay": 1.0, "weighting": "uniform"}
    setup = network_setup(schedule=((0,),), **plain, **changes)
    return replace(setup, clients=[data], w0=w)


def gradient(data: tuple[Vector, Vector], w: Vector, method: Any = None) -> Vector:
    """The gradient that a step of a method follows."""
    return w - array(train_network(method or ff.make("fedavg"), one_step(data, w)).vector)


# --- FedGloSS ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("admm", [True, False])
@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_the_gap_of_fedgloss_is_at_most_twice_the_radius(rho: float, admm: bool) -> None:
    for rounds in (1, 3):
        run = trained(ff.make("fedgloss", rho_server=rho, admm=admm, client_opt="sam"), rounds=rounds)
        with ff.laboratory(run) as lab:
            gap = lab.measure("perturbation_gap")["perturbation_gap"].numbers["perturbation_gap"]
        assert 0 < gap <= 2 * rho * (1 + 1e-12)


# --- FedSAM, FedASAM, SWA ---------------------------------------------------------------------------------------------


def sent(method: str, **changes: Any) -> list[tuple[int, int]]:
    rows = train_network(ff.make(method), network_setup(), **changes).history
    return [(row["bytes_down"], row["bytes_up"]) for row in rows]


def test_sam_asam_and_swa_send_nothing_more() -> None:
    plain = sent("fedavg")
    assert sent("fedsam") == plain
    assert sent("fedasam") == plain
    assert sent("fedavg", average=ff.SWA(start=0.3, cycle=2)) == plain


# --- FedVSSAM ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "vectors"),
    [("fedavg", 1), ("fedvssam", 1), ("scaffold", 2), ("fedgamma", 2), ("fedlesam-s", 2), ("fedsmoo", 2)],
)
def test_fedvssam_sends_no_further_vector_up(method: str, vectors: int) -> None:
    for row in train_network(ff.make(method), network_setup()).history:
        clients = len(row["clients"])
        assert 0 <= row["bytes_up"] - vectors * 8 * DIMENSION * clients <= SCALARS * clients


def test_deviations_of_clients_and_of_batches_add_up() -> None:
    """Over all batches of two: the mean square distance from the global gradient is drift and variance."""
    setup = network_setup(sizes=(5, 4, 6))
    clients = setup.clients
    everyone = (np.concatenate([x for x, _ in clients]), np.concatenate([y for _, y in clients]))
    whole = gradient(everyone, setup.w0)
    for x, y in clients:
        own = gradient((x, y), setup.w0)
        batches = [gradient((x[list(two)], y[list(two)]), setup.w0) for two in itertools.combinations(range(len(y)), 2)]
        distance = np.mean([np.sum((batch - whole) ** 2) for batch in batches])
        variance = np.mean([np.sum((batch - own) ** 2) for batch in batches])
        drift = np.sum((own - whole) ** 2)
        assert min(drift, variance) > 1e-4
        assert distance == pytest.approx(drift + variance, rel=1e-9)


@pytest.mark.parametrize("mix", [0.2, 0.7, 1.0])
def test_mixing_scales_the_spread_of_a_local_step(mix: float) -> None:
    """Each client is a batch: its step deviates from the mean as its perturbed gradient does, times `mix`."""
    method = ff.make("fedvssam", rho=0.1, mix_perturb=1.0, mix_update=mix, mix_global=1.0)
    setup = network_setup(lr=0.3, local_epochs=1, weight_decay=0.0, lr_decay=1.0, weighting="uniform")
    first = array(train_network(method, replace(setup, schedule=((0,),))).vector)
    steps, fresh = [], []
    for k in range(1, setup.N):
        second = array(train_network(method, replace(setup, schedule=((0,), (k,)))).vector)
        steps.append((first - second) / setup.lr)
        fresh.append(gradient(setup.clients[k], first, ff.make("fedsam", rho=0.1)))
    spread = np.stack(steps) - np.mean(steps, axis=0)
    of_gradients = np.stack(fresh) - np.mean(fresh, axis=0)
    assert_close(spread, mix * of_gradients, rel=1e-9)
    assert np.sum(spread**2) == pytest.approx(mix**2 * np.sum(of_gradients**2), rel=1e-9)


# --- FedGF ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [0.0, 0.5, 3.0])
def test_the_discrepancy_is_bounded_by_gap_and_distance(apart: float) -> None:
    """`rho * gap + L rho * mean ||w - w_i||`, to first order, on bowls of one curvature with centres apart."""
    rho, lr, steps = 1e-3, 0.1, 4
    curvature = np.array([1.0, 0.5, 2.0])
    centres = apart * np.array([[1.0, -2.0, 0.5], [-3.0, 1.0, 2.0], [0.0, 4.0, -1.0]])
    run = train_point(
        ff.make("fedavg"),
        Point(np.array([1.0, 1.0, 1.0])),
        [bowl(centre, curvature) for centre in centres],
        rounds=2,
        lr=lr,
        local_epochs=steps,
    )
    w = array(run.vector)
    own = centres + (1 - lr * curvature) ** steps * (w - centres)
    gap = np.mean([np.linalg.norm(curvature * (centre - centres.mean(axis=0))) for centre in centres])
    away = np.mean([np.linalg.norm(w - model) for model in own])
    with ff.laboratory(run) as lab:
        measured = lab.measure(f"discrepancy(rho={rho})")["discrepancy"].numbers["discrepancy"]
    smoothness = curvature.max()
    assert 0 < measured <= rho * gap + smoothness * rho * away + smoothness * rho**2
