"""Which clients take part in a round."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from core.bench import INPUTS, pairs, same_run, task, train
from flatfed.core.round.sampling import as_sampler

EMPTY = (torch.zeros(0, INPUTS, dtype=torch.float64), torch.zeros(0, dtype=torch.int64))


@settings(deadline=None)
@given(population=st.integers(1, 60), share=st.floats(0, 1), seed=st.integers(0, 99), round=st.integers(0, 99))
def test_uniform_draws_so_many_different_clients(population, share, seed, round):
    count = max(1, int(share * population))
    cohort = ff.Uniform(count).draw(population, seed, round, 0)
    assert len(cohort) == len(set(cohort)) == count
    assert cohort == sorted(cohort)
    assert all(type(k) is int and 0 <= k < population for k in cohort)
    assert cohort == ff.Uniform(count).draw(population, seed, round, 0)


@pytest.mark.parametrize("sampler", [ff.Uniform(5), ff.Bernoulli(0.25)], ids=["uniform", "bernoulli"])
def test_every_client_is_drawn_equally_often(sampler):
    times = np.bincount(np.concatenate([sampler.draw(20, 0, t, 0) for t in range(2000)]), minlength=20)
    assert abs(times - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


@pytest.mark.parametrize("sampler", [ff.Uniform(10), ff.Bernoulli(0.5)], ids=["uniform", "bernoulli"])
def test_a_draw_depends_on_seed_round_and_attempt(sampler):
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    cohorts = {tuple(sampler.draw(40, *key)) for key in keys}
    assert len(cohorts) == len(keys)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        assert sampler.draw(40, 0, 0, 0) == sampler.draw(40, 0, 0, 0)


@settings(max_examples=50, deadline=None)
@given(population=st.integers(1, 30), p=st.floats(0.001, 1.0), round=st.integers(0, 9))
def test_bernoulli_is_never_empty_and_never_repeats(population, p, round):
    cohort = ff.Bernoulli(p).draw(population, 0, round, 0)
    assert 0 < len(cohort) == len(set(cohort)) <= population
    assert cohort == sorted(cohort)


def test_bernoulli_takes_a_share_p_with_the_spread_of_coins():
    sizes = np.array([len(ff.Bernoulli(0.1).draw(200, 0, t, 0)) for t in range(3000)])
    assert sizes.mean() == pytest.approx(20, abs=5 * np.sqrt(18 / 3000))
    assert sizes.var() == pytest.approx(18, rel=0.15)
    assert ff.Bernoulli(1.0).draw(7, 0, 0, 0) == list(range(7))


def test_a_schedule_replays_cohorts_of_any_size_and_order():
    run = train(task(), cohorts=[[3, 0], [2], [1, 0, 3, 2]])
    assert [row["clients"] for row in run.history] == [[0, 3], [2], [0, 1, 2, 3]]
    sorted_run = train(task(), cohorts=[[0, 3], [2], [0, 1, 2, 3]])
    assert same_run(run, sorted_run, 4)
    assert ff.Replay(np.array([[1, 0]])).draw(2, 0, 0, 0) == ff.Replay([{0, 1}]).draw(2, 0, 0, 0)


@pytest.mark.parametrize(
    ("sampling", "reason"),
    [
        (5, "cannot sample 5 of 4 clients; ask for at most 4"),
        (ff.Replay([[0], [1, 4]]), "round 1 names client 4, but there are 4"),
        (ff.Replay([[0], [-1]]), "round 1 names client -1"),
        (ff.Replay([[0]]), "the replay has 1 rounds, fewer than the 2 asked for"),
        (True, "sampling must be a number of clients"),
        (0.5, "sampling must be a number of clients"),
        (0, "count must be at least 1"),
        ([[0], [1]], "sampling must be a number of clients"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_training(sampling, reason):
    with pytest.raises(ff.ConfigError, match=reason):
        ff.train(task(), ff.make("fedavg"), rounds=2, sampling=sampling, lr=0.1, workers=0)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: ff.Replay([[0], []]), "round 1 names no client"),
        (lambda: ff.Replay([[0, 1, 0]]), "round 0 names a client twice"),
        (lambda: ff.Replay("01"), "list of lists"),
        (lambda: ff.Replay([0, 1]), "each cohort must be a list"),
        (lambda: ff.Replay([["a"]]), "client"),
        (lambda: ff.Replay([[0, 1.5]]), "client"),
        (lambda: ff.Bernoulli(0.0), "p must be greater than 0 and at most 1"),
        (lambda: ff.Bernoulli(1.5), "p must be greater than 0 and at most 1"),
    ],
)
def test_samplers_that_make_no_sense_are_refused(make, reason):
    with pytest.raises(ff.ConfigError, match=reason):
        make()


def test_a_number_means_uniform():
    assert as_sampler(3) == ff.Uniform(3)
    run = train(task(), sampling=2, rounds=4)
    assert [row["clients"] for row in run.history] == [ff.Uniform(2).draw(4, 0, t, 0) for t in range(4)]


def test_clients_without_data_are_skipped():
    clients = pairs((5, 8))
    run = train(task(clients=[clients[0], EMPTY, clients[1]]), cohorts=[[0, 1, 2], [1, 2]])
    same = train(task(clients=[clients[0], clients[1]]), cohorts=[[0, 1], [1]])
    assert [row["clients"] for row in run.history] == [[0, 2], [2]]
    assert [row["bytes_down"] for row in run.history] == [row["bytes_down"] for row in same.history]
    # Client 2 is client 1 of the other run; without mini-batches its id decides nothing.
    assert torch.equal(run.vector, same.vector)


def test_a_round_of_clients_without_data_stops_the_run_with_a_reason():
    run = train(task(clients=[EMPTY, *pairs((5,))]), cohorts=[[1], [0]])
    assert (run.status, len(run.history)) == ("stopped", 2)
    assert "round 2: 0 good replies" in run.reason


def test_a_participation_trace_is_replayed_under_its_public_name():
    assert ff.Replay([[0, 3], [2, 1]]).draw(5, 0, 1, 0) == [1, 2]
