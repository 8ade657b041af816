"""Identities and limits of SWA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import Point, array, assert_close, linear, network_setup, train_network, train_point
from methods.identities.shared import distance, few, slope, vector
from methods.naive import Vector


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
@pytest.mark.parametrize("method", ["fedavg", "fedasam", "feddyn", "fedgloss"])
def test_swa_with_a_constant_rate_leaves_the_trajectory_alone(method: str, mode: str) -> None:
    setup = network_setup(lr_decay=1.0)
    average = ff.SWA(start=1 / 3, cycle=2, lr_low=setup.lr, mode=mode)
    averaged = train_network(ff.make(method), setup, average=average)
    plain = train_network(ff.make(method), setup)
    assert_close(averaged.vector, plain.vector, rel=1e-13)
    assert distance(array(averaged.eval_vector), array(averaged.vector)) > 1e-4


def swa_weights_of_a_run(mode: str, rounds: int, start: float, cycle: int) -> Vector:
    """What the model after each round weighs in the average.

    Client t pushes coordinate t alone, by 1, in round t alone: coordinate t of the average is the weight of
    all the models from round t on.
    """
    eye = np.eye(rounds)
    run = train_point(
        ff.make("fedavg"),
        Point(np.zeros(rounds)),
        [slope(-eye[t], n=1) for t in range(rounds)],
        schedule=[(t,) for t in range(rounds)],
        loss=linear,
        lr=1.0,
        average=ff.SWA(start=start, cycle=cycle, lr_low=1.0, mode=mode),
    )
    np.testing.assert_allclose(array(run.vector), 1.0, rtol=1e-12)
    later = np.append(array(run.eval_vector), 0.0)
    return later[:-1] - later[1:]


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
def test_swa_weights_its_captures_as_its_mode_says(mode: str) -> None:
    rounds, t0, c = 400, 300, 10
    actual = swa_weights_of_a_run(mode, rounds, 0.75, c)
    expected = np.zeros(rounds)
    if mode == "official":
        expected[range(t0 + c, rounds, c)] = 1 / 9  # as 249 of 1/249 for 10000 rounds
    elif mode == "end-of-cycle":
        expected[range(t0 + c - 1, rounds, c)] = 1 / 10
    else:
        expected[range(t0, rounds, c)] = 1 / 40  # as 250 of 0.001 for 10000 rounds
        expected[t0 - 1] = 0.75  # the model at the start of round t0
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@given(
    mode=st.sampled_from(["end-of-cycle", "official", "paper"]),
    rounds=st.integers(4, 24),
    t0=st.integers(1, 24),
    cycle=st.integers(1, 7),
)
@settings(few, max_examples=15)
def test_swa_weights_for_any_start_and_cycle(mode: str, rounds: int, t0: int, cycle: int) -> None:
    t0 = min(t0, rounds - 1)
    actual = swa_weights_of_a_run(mode, rounds, t0 / rounds, cycle)
    expected = np.zeros(rounds)
    for t, weight in naive.swa_weights(mode, rounds, t0, cycle).items():
        expected[t0 - 1 if t == -1 else t] += weight
    if not expected.any():
        expected[-1] = 1.0
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
def test_swa_is_off_when_it_starts_at_the_end(mode: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=1.0, cycle=2, mode=mode))
    np.testing.assert_array_equal(array(run.vector), vector("fedavg", setup))
    assert torch.equal(run.eval_vector, run.vector)


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
def test_a_cycle_of_one_leaves_the_rate_alone(mode: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=0.5, cycle=1, mode=mode))
    np.testing.assert_array_equal(array(run.vector), vector("fedavg", setup))


@pytest.mark.parametrize(
    ("mode", "phases"),
    [
        ("end-of-cycle", [1 / 3, 2 / 3, 1, 1 / 3]),
        ("official", [1, 1 / 3, 2 / 3, 1]),
        ("paper", [2 / 3, 1, 1 / 3, 2 / 3]),
    ],
)
def test_the_cycle_runs_from_the_decayed_rate_to_the_low_one(mode: str, phases: list[float]) -> None:
    setup = network_setup()  # rounds 2 to 5 of 6
    run = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=1 / 3, cycle=3, lr_low=0.01, mode=mode))
    decayed = [setup.lr * setup.lr_decay**t for t in range(6)]
    expected = decayed[:2] + [(1 - u) * high + u * 0.01 for u, high in zip(phases, decayed[2:], strict=True)]
    assert [row["lr"] for row in run.history] == pytest.approx(expected, rel=1e-12)
