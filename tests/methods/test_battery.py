"""What every method must do, row by row of `table.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from flatfed.core.round.federation import TIMES
from methods.bench import (
    COHORTS,
    NEVER_SAMPLED,
    SETTINGS,
    algorithm,
    array,
    assert_close,
    client_opt,
    held,
    network_setup,
    repeated_sample_setup,
    same_state,
    train_case,
    train_network,
)
from methods.naive import DIMENSION, Opt, Outcome, Setup, Swa, Wima, fedavg, lr_of_round, zero_gradient
from methods.table import CLIENT_OPTS, SCALAR_STATES, TABLE, Case, Row, rows

EVERY_ROUND = {
    "round",
    "clients",
    "lr",
    "train_loss",
    "update_norm",
    "model_norm",
    "bytes_down",
    "bytes_up",
    "backprops",
    *TIMES,
}
EVALUATION = {"test_loss", "test_accuracy"}
ITEMSIZE = {torch.float64: 8, torch.float32: 4}
SCALARS = 64  # bytes that scalars may add per client, exchange and direction

LOCAL_SETTINGS: dict[str, dict[str, Any]] = {
    "samples": {},
    "uniform": {"weighting": "uniform"},
    "clip": {"clip": 0.15},
    "momentum": {"momentum": 0.7},
}
AVERAGES = {
    "end-of-cycle": Swa(start=1 / 3, cycle=2, lr_low=0.05, mode="end-of-cycle"),
    "official": Swa(start=1 / 6, cycle=2, lr_low=0.05, mode="official"),
    "paper": Swa(start=1 / 3, cycle=2, lr_low=0.05, mode="paper"),
    "paper-off-cycle": Swa(start=0.5, cycle=2, lr_low=0.05, mode="paper"),
    "paper-before-capture": Swa(start=5 / 6, cycle=4, lr_low=0.05, mode="paper"),
    "no-capture-yet": Swa(start=0.5, cycle=4, lr_low=0.05, mode="end-of-cycle"),
    "constant-lr": Swa(start=0.5, cycle=1, lr_low=0.05, mode="official"),
    "wima": Wima(window=3),
    "wima-longer-than-the-run": Wima(),
    "wima-of-one": Wima(window=1),
}

BY_A_MULTIPLE = [case for case in rows() if case.row.first_round is not None]
EVERYONE = (0, 1, 2, 3, 4, 5)

every_case = pytest.mark.parametrize("case", rows(), ids=str)
every_method = pytest.mark.parametrize("case", rows(all_params=False, all_opts=False), ids=str)
every_variant = pytest.mark.parametrize("case", rows(all_opts=False), ids=str)
every_federated_variant = pytest.mark.parametrize(
    "case", [case for case in rows(all_opts=False) if not case.row.pooled], ids=str
)


STANDARD_RUNS: dict[tuple[str, torch.dtype], Any] = {}


def standard_run(case: Case, dtype: torch.dtype = torch.float64) -> Any:
    """The run of `network_setup()`, made once for all the tests that only look at it."""
    key = (str(case), dtype)
    if key not in STANDARD_RUNS:
        STANDARD_RUNS[key] = train_case(case, network_setup(), dtype=dtype)
    return STANDARD_RUNS[key]


def assert_agrees(case: Case, run: Any, expected: Outcome) -> None:
    assert_close(run.vector, expected.vector)
    assert_close(run.eval_vector, expected.eval_vector)
    for name, per_client in expected.client.items():
        for k, value in enumerate(per_client):
            assert_close(held(run.client_state(k), name, array(value)), value)
    for name, value in expected.server.items():
        assert_close(held(run.server_state, name, array(value)), value)


@pytest.mark.parametrize("local", LOCAL_SETTINGS)
@every_case
def test_six_rounds_agree_with_the_naive_computation(case: Case, local: str) -> None:
    setup = network_setup(**LOCAL_SETTINGS[local])
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@pytest.mark.parametrize(("batch_size", "momentum"), [(2, 0.0), (100, 0.0), (2, 0.6)])
@every_federated_variant
def test_clients_with_unequal_step_counts_agree(case: Case, batch_size: int, momentum: float) -> None:
    setup = repeated_sample_setup(batch_size=batch_size, local_epochs=2, lr=0.05, momentum=momentum)
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@pytest.mark.parametrize("average", AVERAGES)
@every_method
def test_averages_agree_with_the_naive_computation(case: Case, average: str) -> None:
    setup = network_setup(average=AVERAGES[average])
    expected = case.naive(setup)
    run = train_case(case, setup)
    assert_agrees(case, run, expected)
    assert [row["lr"] for row in run.history] == pytest.approx([lr_of_round(setup, t) for t in range(6)])


@every_variant
def test_a_single_client_agrees(case: Case) -> None:
    setup = network_setup(sizes=(6,), schedule=((0,),) * 6)
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@every_variant
def test_full_participation_agrees(case: Case) -> None:
    setup = network_setup(schedule=(EVERYONE,) * 4)
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@every_variant
def test_a_client_with_one_sample_agrees(case: Case) -> None:
    setup = network_setup(sizes=(1, 7, 1, 9, 1, 1))
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@every_variant
def test_one_local_step_agrees(case: Case) -> None:
    setup = network_setup(local_epochs=1)
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_defaults_are_the_published_ones(row: Row) -> None:
    setup = network_setup()
    assert_close(train_network(ff.make(row.id), setup).vector, row.naive(setup).vector)


@pytest.mark.parametrize(
    ("chosen", "published"),
    [
        (ff.SAM(), Opt("sam", 0.05)),
        (ff.ASAM(), Opt("asam", 0.5, eta=0.2)),
        (ff.PreviousSAM(), Opt("sam-prev", 0.05)),
        (ff.VaSSO(), Opt("vasso", 0.05, theta=0.9)),
        (ff.FriendlySAM(), Opt("fsam", 0.2, sigma=1.0, lam=0.6)),
    ],
    ids=lambda value: value.kind if isinstance(value, Opt) else "",
)
def test_defaults_of_client_optimisers_are_the_published_ones(chosen: Any, published: Opt) -> None:
    setup = network_setup()
    assert_close(train_network(ff.make("fedavg", client_opt=chosen), setup).vector, fedavg(setup, published).vector)


@pytest.mark.parametrize("opt", ["sam", "asam"])
@pytest.mark.parametrize("row", [row for row in TABLE if not row.accepts_client_opt], ids=lambda row: row.id)
def test_methods_without_a_choice_of_optimiser_refuse_one(row: Row, opt: str) -> None:
    case = Case(row, row.params[0], opt)
    with pytest.raises(Exception, match="client_opt"):
        algorithm(case)


@every_case
def test_bytes_are_the_published_vectors_and_a_few_scalars(case: Case) -> None:
    for dtype in (torch.float64, torch.float32):
        run = standard_run(case, dtype)
        for t, (row, cohort) in enumerate(zip(run.history, case.cohorts(COHORTS), strict=True)):
            vector = DIMENSION * ITEMSIZE[dtype] * len(cohort)
            spare = SCALARS * case.row.exchanges * len(cohort)
            assert 0 <= row["bytes_down"] - case.down(t) * vector <= spare
            assert 0 <= row["bytes_up"] - case.up * vector <= spare


@every_case
def test_backprops_are_counted_per_step_client_and_exchange(case: Case) -> None:
    run = standard_run(case)
    counted = [row["backprops"] for row in run.history]
    assert counted == [case.backprops(SETTINGS["local_epochs"]) * len(cohort) for cohort in case.cohorts(COHORTS)]


FULL_BATCH = pytest.mark.parametrize(
    ("method", "params", "per_step"),
    [("scaffold", {"option": "I"}, 1), ("mimelite", {"beta": 0.0}, 1), ("mime", {"beta": 0.0}, 2)],
    ids=["scaffold", "mimelite", "mime"],
)


@FULL_BATCH
def test_a_full_batch_pass_in_batches_counts_one_backprop_per_batch(
    method: str, params: dict[str, Any], per_step: int
) -> None:
    setup = network_setup(batch_size=2, schedule=((0, 3),))
    run = train_network(ff.make(method, **params), setup)
    batches = 2 + 5  # of 4 and of 9 samples
    assert run.history[0]["backprops"] == (setup.local_epochs * per_step + 1) * batches


@FULL_BATCH
def test_a_full_batch_gradient_in_batches_weighs_every_sample_alike(
    method: str, params: dict[str, Any], per_step: int
) -> None:
    setup = network_setup(batch_size=4, schedule=((1, 3),))  # 4 + 3 samples, 4 + 4 + 1 samples
    run = train_network(ff.make(method, **params), setup)
    g = {k: setup.g(k, setup.w0) for k in (1, 3)}
    if method == "scaffold":
        for k in g:
            assert_close(run.client_state(k)["c"], g[k])
    else:
        assert_close(run.server_state["momentum"], (7 * g[1] + 9 * g[3]) / 16)


def test_the_two_gradients_of_mime_see_the_same_batch() -> None:
    setup = network_setup(batch_size=2, lr=1e-7, weight_decay=0.0, schedule=((1, 3),))
    run = train_network(ff.make("mime", beta=0.0), setup)
    c = (7 * setup.g(1, setup.w0) + 9 * setup.g(3, setup.w0)) / 16
    steps = (7 * setup.K(1) + 9 * setup.K(3)) / 16  # each of which is c, whatever its batch, as long as w hardly moves
    assert_close((setup.w0 - array(run.vector)) / setup.lr, steps * c, rel=1e-4)


# --- gradients that are zero ------------------------------------------------------------------------------


@every_case
def test_a_constant_loss_leaves_the_model_where_it_is(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient, weight_decay=0.0)
    run = train_case(case, setup)
    assert_close(run.vector, setup.w0, rel=1e-14)


@every_case
def test_a_constant_loss_with_weight_decay_agrees(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient)
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@pytest.mark.parametrize("case", BY_A_MULTIPLE, ids=str)
def test_the_first_step_on_a_constant_loss_is_weight_decay_alone(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient, local_epochs=1, schedule=((0, 3),))
    run = train_case(case, setup)
    decay = -setup.lr * setup.weight_decay * setup.w0
    assert_close(run.vector, setup.w0 + case.first_round(2, setup.N) * decay, rel=1e-14)


@pytest.mark.parametrize("case", [case for case in BY_A_MULTIPLE if not case.pulled], ids=str)
def test_every_step_on_a_constant_loss_is_weight_decay_alone(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient, lr_decay=1.0, schedule=((1, 4),))
    factor = (1 - setup.lr * setup.weight_decay) ** setup.local_epochs
    run = train_case(case, setup)
    moved = case.first_round(2, setup.N) * (factor - 1)
    assert_close(run.vector, setup.w0 * (1 + moved), rel=1e-14)


@every_case
def test_zero_weights_and_zero_inputs_give_no_nan(case: Case) -> None:
    setup = network_setup(sizes=(6,) * 6)
    labels = np.arange(6) % 3
    dead = replace(setup, w0=setup.zeros(), clients=[(0.0 * x, labels) for x, _ in setup.clients])
    run = train_case(case, dead, dtype=torch.float32)
    assert np.isfinite(array(run.vector)).all()
    assert all(np.isfinite(array(value)).all() for k in case.clients(6) for value in run.client_state(k).values())


# --- who is touched, and in which order -------------------------------------------------------------------


@every_variant
def test_a_client_that_is_not_sampled_keeps_its_state_bit_for_bit(case: Case) -> None:
    setup = network_setup()
    last = set(case.cohorts(COHORTS)[-1])
    before = train_case(case, replace(setup, schedule=COHORTS[:-1]))
    after = standard_run(case)
    for k in case.clients(setup.N):
        if k not in last:
            assert same_state(before.client_state(k), after.client_state(k))
    if case.client_state:
        assert not any(same_state(before.client_state(k), after.client_state(k)) for k in last)


@every_federated_variant
def test_a_client_that_was_never_sampled_holds_nothing_but_zeros(case: Case) -> None:
    run = standard_run(case)
    for value in run.client_state(NEVER_SAMPLED).values():
        assert not array(value).any()


@every_case
def test_the_order_inside_a_cohort_changes_nothing(case: Case) -> None:
    setup = network_setup()
    a = standard_run(case)
    b = train_case(case, replace(setup, schedule=[tuple(reversed(cohort)) for cohort in COHORTS]))
    assert torch.equal(a.vector, b.vector)
    assert torch.equal(a.eval_vector, b.eval_vector)
    assert same_state(a.server_state, b.server_state)
    assert all(same_state(a.client_state(k), b.client_state(k)) for k in case.clients(setup.N))


@every_case
def test_equal_client_sizes_make_the_weightings_equal(case: Case) -> None:
    setup = network_setup(sizes=(5,) * 6)
    uniform = train_case(case, replace(setup, weighting="uniform"))
    assert_close(train_case(case, setup).vector, uniform.vector, rel=1e-12)


@every_variant
def test_unequal_client_sizes_matter_unless_the_mean_is_uniform(case: Case) -> None:
    setup = network_setup()
    a, b = standard_run(case), train_case(case, replace(setup, weighting="uniform"))
    if case.row.uniform_mean:
        assert torch.equal(a.vector, b.vector)
    else:
        assert np.linalg.norm(array(a.vector) - array(b.vector)) > 1e-3


@every_method
def test_the_same_run_twice_is_the_same_bit_for_bit(case: Case) -> None:
    setup = network_setup(batch_size=2)
    a, b = train_case(case, setup), train_case(case, setup)
    assert torch.equal(a.vector, b.vector)


# --- surface ----------------------------------------------------------------------------------------------


@every_case
def test_float32_runs_stay_near_float64(case: Case) -> None:
    run = standard_run(case, torch.float32)
    assert run.vector.dtype == torch.float32
    assert_close(run.vector, case.naive(network_setup()).vector, rel=1e-4)


@every_method
def test_history_has_every_column(case: Case) -> None:
    setup, run = network_setup(), standard_run(case)
    assert isinstance(run.history, list)
    assert [row["round"] for row in run.history] == list(range(6))
    assert [sorted(row["clients"]) for row in run.history] == [sorted(cohort) for cohort in case.cohorts(COHORTS)]
    assert [row["lr"] for row in run.history] == pytest.approx([lr_of_round(setup, t) for t in range(6)])
    for row in run.history:
        assert set(row) >= EVERY_ROUND
        assert all(np.isfinite(row[name]) for name in EVERY_ROUND - {"clients"})
    assert set(run.history[-1]) >= EVALUATION
    assert run.history[-1]["model_norm"] == pytest.approx(float(run.vector.norm()))


@every_variant
def test_run_shows_the_state_under_its_published_names(case: Case) -> None:
    run = standard_run(case)
    assert set(case.client_state) <= set(run.client_state(0))
    assert set(case.server_state) <= set(run.server_state)
    for name in case.client_state:
        size = 1 if name in SCALAR_STATES else DIMENSION
        assert array(run.client_state(0)[name]).shape == (size,)


@every_variant
def test_a_variant_holds_no_state_that_only_others_need(case: Case) -> None:
    run = standard_run(case)
    siblings = [Case(case.row, params, None) for params in case.row.params]
    client = {name for other in siblings for name in other.client_state}
    server = {name for other in siblings for name in other.server_state}
    assert not (client - set(case.client_state)) & set(run.client_state(0))
    assert not (server - set(case.server_state)) & set(run.server_state)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_an_unknown_parameter_is_refused(row: Row) -> None:
    with pytest.raises(Exception, match="no_such_parameter"):
        ff.make(row.id, no_such_parameter=1)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("scaffold", {"option": "I", "send_dc": False}),  # the server cannot know the change of c
        ("fedwmsam", {"alpha": 1.0, "rho": 0.1}),  # the perturbation divides by 1 - alpha
    ],
)
def test_a_combination_without_a_meaning_is_refused(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=next(iter(params))):
        ff.make(method, **params)


@pytest.mark.parametrize("opt", CLIENT_OPTS)
def test_make_and_the_class_are_the_same_thing(opt: str) -> None:
    setup: Setup = network_setup()
    chosen = client_opt(Case(TABLE[0], {}, opt).client_opt)
    a = train_network(ff.make("fedgloss", rho_server=0.4, client_opt=chosen), setup)
    b = train_network(ff.FedGloSS(rho_server=0.4, client_opt=chosen), setup)
    assert torch.equal(a.vector, b.vector)
