"""Vectors sent, and backprops run, per participating client and round: the published counts."""

from __future__ import annotations

import pytest

from methods.bench import COHORTS, network_setup
from methods.identities.shared import METHODS, OPTIMISERS, TAKE_A_CLIENT_OPT, any_opt, train_id
from methods.naive import DIMENSION
from methods.table import CLIENT_OPTS

SCALARS = 64  # bytes that scalars may add per client, exchange and direction
STEPS = 3

# down, up, backprops of a round of three full-batch steps with sgd clients
COSTS: dict[str, tuple[int, int, int]] = {
    "fedavg": (1, 1, STEPS),
    "fedprox": (1, 1, STEPS),
    "fedavgm": (1, 1, STEPS),
    "fedadam": (1, 1, STEPS),
    "fedyogi": (1, 1, STEPS),
    "fedadagrad": (1, 1, STEPS),
    "fedadamw": (2, 1, STEPS),
    "fednova": (1, 1, STEPS),
    "scaffold": (2, 2, STEPS),
    "feddyn": (1, 1, STEPS),
    "adabest": (1, 1, STEPS),
    "fedcm": (2, 1, STEPS),
    "fedacg": (1, 1, STEPS),
    "mimelite": (2, 2, STEPS + 1),
    "mime": (3, 2, 2 * STEPS + 1),
    "fedsam": (1, 1, 2 * STEPS),
    "fedasam": (1, 1, 2 * STEPS),
    "mofedsam": (2, 1, 2 * STEPS),
    "fedspeed": (1, 1, 2 * STEPS),
    "fedgamma": (2, 2, 2 * STEPS),
    "fedsmoo": (2, 2, 2 * STEPS),
    "fedlesam": (1, 1, STEPS),
    "fedlesam-s": (2, 2, STEPS),
    "fedlesam-d": (1, 1, STEPS),
    "fedgmt": (2, 1, STEPS),
    "fedgf": (2, 1, 2 * STEPS),
    "fedgloss": (1, 1, STEPS),
    "naivefedgloss": (2, 2, 2 * STEPS),
    "fedwmsam": (2, 1, STEPS),
    "fedvssam": (2, 1, 2 * STEPS),
}


def test_every_method_has_its_cost_here() -> None:
    assert set(COSTS) == set(METHODS)


@pytest.mark.parametrize("method", COSTS)
def test_a_round_costs_what_was_published(method: str) -> None:
    down, up, backprops = COSTS[method]
    run = train_id(method, network_setup(local_epochs=STEPS), **METHODS[method])
    for t, (row, cohort) in enumerate(zip(run.history, COHORTS, strict=True)):
        vector, spare = 8 * DIMENSION * len(cohort), 2 * SCALARS * len(cohort)
        sent = 1 if method == "fedgf" and t == 0 else down
        assert 0 <= row["bytes_down"] - sent * vector <= spare
        assert 0 <= row["bytes_up"] - up * vector <= spare
        assert row["backprops"] == backprops * len(cohort)


@any_opt
@pytest.mark.parametrize("method", TAKE_A_CLIENT_OPT)
def test_a_client_optimiser_changes_the_backprops_and_nothing_else(method: str, opt: str) -> None:
    setup, params = network_setup(schedule=COHORTS[:1]), METHODS[method]
    plain = train_id(method, setup, **params).history
    other = train_id(method, setup, **params, client_opt=OPTIMISERS[opt]()).history
    passes = 1 if method == "mimelite" else 0  # its full-batch gradient stays plain
    times = CLIENT_OPTS[opt].backprops
    for a, b, cohort in zip(plain, other, COHORTS[:1], strict=True):
        assert (a["bytes_down"], a["bytes_up"]) == (b["bytes_down"], b["bytes_up"])
        extra = passes * len(cohort)
        assert b["backprops"] - extra == times * (a["backprops"] - extra)


def test_full_batch_passes_count_one_backprop_per_batch() -> None:
    setup = network_setup(batch_size=2, schedule=((0, 3),), local_epochs=STEPS)
    batches = 2 + 5  # of 4 and of 9 samples
    for method, expected in {"mimelite": STEPS + 1, "mime": 2 * STEPS + 1}.items():
        assert train_id(method, setup).history[0]["backprops"] == expected * batches
