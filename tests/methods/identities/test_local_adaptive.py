"""Identities and limits of FedAdamW."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from flatfed.core.round.exchange import ENVELOPE_DOWN, ENVELOPE_UP
from methods.bench import (
    Point,
    array,
    assert_close,
    linear,
    network,
    network_setup,
    quadratic,
    tensors,
    train_network,
    train_point,
)
from methods.identities.shared import (
    EVERYONE,
    OPTIMISERS,
    any_opt,
    bowl,
    distance,
    few,
    fraction,
    plain_setup,
    slope,
    train_id,
    vector,
)
from methods.naive import DIMENSION, Setup, Vector

TENSORS = 4  # of the network
BLOCKS = pytest.mark.parametrize("blocks", ["tensor", "entry"])


def alone(rounds: int = 4, **changes: Any) -> Setup:
    return network_setup(sizes=(6,), **{"schedule": ((0,),) * rounds, "lr_decay": 1.0, "weight_decay": 0.1, **changes})


def adamw(setup: Setup, steps: int, beta1: float, beta2: float, eps: float) -> Vector:
    """PyTorch's AdamW with full batches of the first client."""
    model, [(x, y)] = network(setup.w0), tensors(setup.clients[:1], torch.float64)
    decay = {"weight_decay": setup.weight_decay}
    optimiser = torch.optim.AdamW(model.parameters(), lr=setup.lr, betas=(beta1, beta2), eps=eps, **decay)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return array(torch.nn.utils.parameters_to_vector(model.parameters()))


# --- what it is of AdamW ------------------------------------------------------------------------------------


@BLOCKS
@given(beta1=fraction, beta2=fraction, eps=st.floats(1e-3, 1), alpha=fraction, steps=st.integers(1, 5))
@few
def test_one_round_of_one_client_is_adamw(
    blocks: str, beta1: float, beta2: float, eps: float, alpha: float, steps: int
) -> None:
    setup = alone(rounds=1, local_epochs=steps)
    given_values = {"beta1": beta1, "beta2": beta2, "eps": eps}
    run = vector("fedadamw", setup, **given_values, alpha=alpha, blocks=blocks)
    assert_close(run, adamw(setup, steps, **given_values))


@given(beta1=fraction, beta2=fraction)
@few
def test_one_client_with_one_step_per_round_is_adamw_without_momentum(beta1: float, beta2: float) -> None:
    setup = alone(rounds=5, local_epochs=1)
    run = vector("fedadamw", setup, beta1=beta1, beta2=beta2, eps=0.01, alpha=0.0, blocks="entry")
    assert_close(run, adamw(setup, 5, 0.0, beta2, 0.01))


@given(beta2=fraction, steps=st.integers(2, 4))
@few
def test_the_second_moment_of_one_client_goes_on_from_round_to_round(beta2: float, steps: int) -> None:
    setup = alone(rounds=3, local_epochs=steps)
    run = vector("fedadamw", setup, beta1=0.0, beta2=beta2, eps=0.01, alpha=0.0, blocks="entry")
    assert_close(run, adamw(setup, 3 * steps, 0.0, beta2, 0.01))
    kept = train_network(ff.FedAvg(), setup, base_opt=ff.AdamW(beta1=0.0, beta2=beta2, eps=0.01, keep=True))
    assert_close(run, array(kept.vector))


@any_opt
@BLOCKS
def test_the_first_round_is_fedavg_with_adamw_steps(blocks: str, opt: str) -> None:
    setup, chosen = network_setup(schedule=((0, 2, 3),), weighting="uniform"), OPTIMISERS[opt]()
    values = {"beta1": 0.6, "beta2": 0.8, "eps": 0.01}
    steps = train_network(ff.FedAvg(client_opt=chosen), setup, base_opt=ff.AdamW(**values))
    assert_close(vector("fedadamw", setup, **values, blocks=blocks, client_opt=chosen), array(steps.vector))


# --- the direction, and the blocks --------------------------------------------------------------------------


@given(alpha=st.floats(0, 0.9), rounds=st.integers(1, 5))
@few
def test_a_constant_gradient_gives_a_geometric_sum(alpha: float, rounds: int) -> None:
    gradient, eps, lr, steps = np.array([1.0, -2.0]), 0.5, 0.1, 3
    method = ff.make("fedadamw", alpha=alpha, eps=eps, blocks="entry")
    clients = [slope(gradient), slope(gradient)]
    run = train_point(method, Point(np.zeros(2)), clients, rounds=rounds, loss=linear, lr=lr, local_epochs=steps)
    # Corrected for their start, the moments of a constant are the constant and its square.
    unit = gradient / (np.abs(gradient) + eps)
    d = [unit * sum(alpha**i for i in range(t)) for t in range(1, rounds + 1)]
    assert_close(run.server_state["d"], d[-1])
    assert_close(run.vector, -lr * steps * sum(d))


def test_tensors_of_one_entry_have_nothing_to_average() -> None:
    clients = [bowl(np.array([1.0, 3.0])), bowl(np.array([-2.0, 0.5]), 2.0)]
    made = (ff.make("fedadamw", blocks=blocks) for blocks in ("tensor", "entry"))
    point = {"rounds": 4, "loss": quadratic, "local_epochs": 3}
    tensor, entry = (train_point(m, Point(np.ones(1), np.ones(1)), clients, **point) for m in made)
    assert_close(tensor.vector, entry.vector, rel=1e-14)
    assert_close(tensor.server_state["v"], entry.server_state["v"], rel=1e-14)


def test_blocks_matter_from_the_second_round_on() -> None:
    for rounds, differs in ((1, False), (2, True)):
        setup = plain_setup(schedule=(EVERYONE,) * rounds)
        tensor, entry = (vector("fedadamw", setup, blocks=blocks) for blocks in ("tensor", "entry"))
        assert (distance(tensor, entry) > 1e-3) == differs


def test_the_numbers_of_the_tensors_are_means_of_the_entries() -> None:
    setup = plain_setup(schedule=((0, 3),))
    tensor, entry = (train_id("fedadamw", setup, blocks=blocks).server_state["v"] for blocks in ("tensor", "entry"))
    parts = np.split(array(entry), [20, 24, 36])
    assert_close(tensor, [part.mean() for part in parts])


def test_the_direction_without_weight_is_not_used() -> None:
    setup = network_setup()
    none, some = (vector("fedadamw", setup, alpha=alpha) for alpha in (0.0, 0.5))
    assert distance(none, some) > 1e-2


# --- what crosses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@BLOCKS
def test_bytes_are_exact(blocks: str, alpha: float, dtype: torch.dtype) -> None:
    setup = plain_setup(schedule=((0, 3), (1, 2, 4)))
    run = train_network(ff.make("fedadamw", blocks=blocks, alpha=alpha), setup, dtype=dtype)
    moment = TENSORS if blocks == "tensor" else DIMENSION
    down = DIMENSION * (2 if alpha else 1) + moment
    for row, cohort in zip(run.history, setup.schedule, strict=True):
        assert row["bytes_down"] == len(cohort) * (down * dtype.itemsize + 8 + ENVELOPE_DOWN)
        assert row["bytes_up"] == len(cohort) * ((DIMENSION + moment) * dtype.itemsize + ENVELOPE_UP)


def test_steps_are_counted_as_the_rounded_mean_of_the_clients() -> None:
    setup = network_setup(batch_size=2, local_epochs=1, schedule=((0, 3), (2, 3, 4)))
    run = train_id("fedadamw", setup)
    first, second = (2 + 5) / 2, (2 + 5 + 3) / 3
    assert run.server_state["steps"] == round(first) + round(second)


@BLOCKS
def test_layers_that_stay_on_the_client_have_no_number(blocks: str) -> None:
    setup = plain_setup(schedule=(EVERYONE,) * 2)
    clients = tensors(setup.clients, torch.float64)
    task = ff.Task(network(setup.w0), clients, test=clients[0], local=ff.Local(names=("2.*",)))
    given_settings = {"rounds": 2, "sampling": 3, "lr": 0.05, "dtype": torch.float64, "workers": 0}
    run = ff.train(task, ff.make("fedadamw", blocks=blocks), **given_settings)
    assert run.status == "finished"
    assert len(run.server_state["v"]) == (2 if blocks == "tensor" else 24)
