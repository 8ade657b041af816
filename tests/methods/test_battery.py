"""What every method must do, row by row of `table.py`.

Each test runs on a short design of `designs.py`, which says what that guarantees, and in `make battery` on the
whole product of the table's cases and the settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from flatfed.core.configuration.base_optimiser import SGDStep
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser, client_slots
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots, vector
from flatfed.core.round.federation import TIMES
from flatfed.testing import assertions
from flatfed.testing.bench import SETUPS
from methods.bench import (
    COHORTS,
    NEVER_SAMPLED,
    SETTINGS,
    algorithm,
    array,
    assert_close,
    client_opt,
    network_setup,
    repeated_sample_setup,
    same_state,
    train_case,
    train_network,
)
from methods.designs import Pair, covering, few, marked, product, rotated, spread, turned
from methods.naive import DIMENSION, Opt, Outcome, Setup, Swa, Vector, Wima, fedavg, lr_of_round, zero_gradient
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
SOME_COME_BACK = COHORTS[:3]

UNEQUAL_STEPS: dict[str, dict[str, Any]] = {
    "batches-of-2": {"batch_size": 2, "momentum": 0.0},
    "batches-of-100": {"batch_size": 100, "momentum": 0.0},
    "batches-of-2-with-momentum": {"batch_size": 2, "momentum": 0.6},
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

SWAS = [name for name, average in AVERAGES.items() if isinstance(average, Swa)]
WIMAS = [name for name in AVERAGES if name not in SWAS]
IDS = [row.id for row in TABLE]
FIRST = rows(all_params=False, all_opts=False)


def by_a_multiple(cases: list[Case]) -> list[Case]:
    """Those whose first round moves the model by a multiple of the mean update."""
    return [case for case in cases if case.row.first_round is not None]


def unpulled(cases: list[Case]) -> list[Case]:
    return [case for case in by_a_multiple(cases) if not case.pulled]


every_case = marked("case", rows(), covering())
some_variants = few(spread(), lambda case: case.row.id)
every_variant = marked("case", rows(), some_variants)
every_federated_variant = marked(
    "case", [case for case in rows() if not case.row.pooled], [case for case in some_variants if not case.row.pooled]
)
every_method = pytest.mark.parametrize("case", FIRST, ids=str)


STANDARD_RUNS: dict[tuple[str, torch.dtype], Any] = {}


def standard_run(case: Case, dtype: torch.dtype = torch.float64) -> Any:
    """The run of `network_setup()`, made once for all the tests that only look at it."""
    key = (str(case), dtype)
    if key not in STANDARD_RUNS:
        STANDARD_RUNS[key] = train_case(case, network_setup(), dtype=dtype)
    return STANDARD_RUNS[key]


def federated(pairs: list[Pair]) -> list[Pair]:
    """Those whose method does not pool the clients."""
    return [(case, name) for case, name in pairs if not case.row.pooled]


def each_setting_once(pairs: list[Pair]) -> list[Pair]:
    """Every method with every setting, each with one of its cases, by turns."""
    return few(pairs, lambda pair: f"{pair[0].row.id}, {pair[1]}")


def assert_agrees(case: Case, run: Any, expected: Outcome) -> None:
    assertions.assert_agrees(run, expected)


@every_case
def test_six_rounds_agree_with_the_naive_computation(case: Case) -> None:
    assert_agrees(case, standard_run(case), case.naive(network_setup()))


@marked("case, name", product(SETUPS), rotated(SETUPS))
def test_every_set_up_agrees_with_the_naive_computation(case: Case, name: str) -> None:
    setup = SETUPS[name]()
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@marked("case, name", federated(product(UNEQUAL_STEPS)), federated(each_setting_once(rotated(UNEQUAL_STEPS))))
def test_clients_with_unequal_step_counts_agree(case: Case, name: str) -> None:
    setup = repeated_sample_setup(local_epochs=2, lr=0.05, schedule=SOME_COME_BACK, **UNEQUAL_STEPS[name])
    assert_agrees(case, train_case(case, setup), case.naive(setup))


@marked("id, average", [(id, name) for id in IDS for name in AVERAGES], turned(IDS, SWAS) + turned(IDS, WIMAS))
def test_averages_agree_with_the_naive_computation(id: str, average: str) -> None:
    [case] = [first for first in FIRST if first.row.id == id]
    setup = network_setup(average=AVERAGES[average])
    expected = case.naive(setup)
    run = train_case(case, setup)
    assert_agrees(case, run, expected)
    assert [row["lr"] for row in run.history] == pytest.approx([lr_of_round(setup, t) for t in range(6)])


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_defaults_are_the_published_ones(row: Row) -> None:
    setup = network_setup()
    assert_close(train_network(ff.make(row.id), setup).vector, row.naive(setup).vector)


@pytest.mark.parametrize("name", [name for name, row in CLIENT_OPTS.items() if row.published])
def test_defaults_of_client_optimisers_are_the_published_ones(name: str) -> None:
    setup, kind, values = network_setup(), CLIENT_OPTS[name].opt.kind, dict(CLIENT_OPTS[name].published)
    published = Opt(kind, values.pop("rho"), values)
    chosen = ClientOptimiser.registry[kind]()
    assert_close(train_network(ff.make("fedavg", client_opt=chosen), setup).vector, fedavg(setup, published).vector)


@pytest.mark.parametrize("opt", ["sam", "asam"])
@pytest.mark.parametrize("row", [row for row in TABLE if not row.accepts_client_opt], ids=lambda row: row.id)
def test_methods_without_a_choice_of_optimiser_refuse_one(row: Row, opt: str) -> None:
    case = Case(row, row.params[0], opt)
    with pytest.raises(Exception, match="client_opt"):
        algorithm(case)


def assert_bytes(case: Case, dtype: torch.dtype) -> None:
    run = standard_run(case, dtype)
    assertions.assert_traffic(run, case.cohorts(COHORTS), case.down, case.up, case.row.exchanges, case.per_tensor)


@every_case
def test_bytes_are_the_published_vectors_and_a_few_scalars(case: Case) -> None:
    assert_bytes(case, torch.float64)


@every_variant
def test_bytes_of_float32_are_those_of_its_smaller_numbers(case: Case) -> None:
    assert_bytes(case, torch.float32)


@every_case
def test_backprops_are_counted_per_step_client_and_exchange(case: Case) -> None:
    per_client = case.backprops(SETTINGS["local_epochs"])
    assertions.assert_backprops(standard_run(case), case.cohorts(COHORTS), per_client)


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


@every_variant
def test_a_constant_loss_leaves_the_model_where_it_is(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient, weight_decay=0.0, schedule=SOME_COME_BACK)
    run = train_case(case, setup)
    assert_close(run.vector, setup.w0, rel=1e-14)


@marked("case", by_a_multiple(rows()), by_a_multiple(spread()))
def test_the_first_step_on_a_constant_loss_is_weight_decay_alone(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient, local_epochs=1, schedule=((0, 3),))
    run = train_case(case, setup)
    decay = -setup.lr * setup.weight_decay * setup.w0
    assert_close(run.vector, setup.w0 + case.first_round(2, setup.N) * decay, rel=1e-14)


@marked("case", unpulled(rows()), unpulled(spread()))
def test_every_step_on_a_constant_loss_is_weight_decay_alone(case: Case) -> None:
    setup = network_setup(gradient=zero_gradient, lr_decay=1.0, schedule=((1, 4),))
    factor = (1 - setup.lr * setup.weight_decay) ** setup.local_epochs
    run = train_case(case, setup)
    moved = case.first_round(2, setup.N) * (factor - 1)
    assert_close(run.vector, setup.w0 * (1 + moved), rel=1e-14)


@every_variant
def test_zero_weights_and_zero_inputs_give_no_nan(case: Case) -> None:
    setup = network_setup(sizes=(6,) * 6, schedule=SOME_COME_BACK)
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


def assert_untouched(run: Any, method: Algorithm, client: int, w0: Vector) -> None:
    """Compare with what was declared: the first model where a state starts there, zeros everywhere else."""
    slots = client_slots(method, SGDStep())
    state = run.client_state(client)
    assert set(state) == set(slots)
    for name, value in state.items():
        first = w0 if slots[name].start == "model" else np.zeros_like(array(value))
        np.testing.assert_array_equal(array(value), first)


@every_federated_variant
def test_a_client_that_was_never_sampled_holds_what_was_declared(case: Case) -> None:
    assert_untouched(standard_run(case), algorithm(case), NEVER_SAMPLED, network_setup().w0)


class Anchored(Algorithm):
    """Keeps the model of a client's last round; before that, the first model."""

    def client_state(self) -> Slots:
        return {"anchor": vector(start="model"), "count": vector()}

    def finish(self, client: Client) -> Message:
        client.kept.anchor = client.w
        return super().finish(client)


def test_a_client_state_may_start_at_the_model() -> None:
    setup = network_setup()
    run = train_network(Anchored(), setup)
    assert_untouched(run, Anchored(), NEVER_SAMPLED, setup.w0)
    with pytest.raises(AssertionError):
        assert_untouched(run, Anchored(), 0, setup.w0)


def test_an_unknown_client_optimiser_is_an_error_on_both_sides() -> None:
    with pytest.raises(Exception, match="sma"):
        client_opt(Opt("sma", 0.3))
    with pytest.raises(ValueError, match="sma"):
        fedavg(network_setup(), Opt("sma", 0.3))


@every_variant
def test_the_order_inside_a_cohort_changes_nothing(case: Case) -> None:
    setup = network_setup()
    b = train_case(case, replace(setup, schedule=[tuple(reversed(cohort)) for cohort in COHORTS]))
    assertions.assert_same_run(standard_run(case), b, len(case.clients(setup.N)))


@every_variant
def test_equal_client_sizes_make_the_weightings_equal(case: Case) -> None:
    setup = network_setup(sizes=(5,) * 6, schedule=SOME_COME_BACK)
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
    setup = network_setup(batch_size=2, schedule=SOME_COME_BACK)
    a, b = train_case(case, setup), train_case(case, setup)
    assert torch.equal(a.vector, b.vector)


# --- surface ----------------------------------------------------------------------------------------------


@every_variant
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
