"""Measurements of directions, computed again in plain torch from the run's data, models and states."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.flatness.measurement import MeasurementResult
from flatfed.flatness.sums import Sample
from flatness.federations import (
    CLIENTS,
    LR,
    ROUNDS,
    SIZES,
    checkpoint,
    client_data,
    cohort,
    descend,
    everyone,
    gradient,
    loss,
    task,
    trained,
    unit,
    weighted,
)


def read(source: ff.Run | Path, measurement: str) -> MeasurementResult:
    with ff.laboratory(source) as lab:
        (actual,) = lab.measure(measurement).values()
    return actual


def gradients(w: Tensor) -> dict[int, Tensor]:
    return {k: gradient(w, *pair) for k, pair in enumerate(client_data())}


# --- incompatibility ----------------------------------------------------------------------------------------


def rises(w: Tensor, rho: float, along: Callable[[Tensor], Tensor]) -> dict[int, float]:
    """Return how each client's loss rises along the direction that it perturbs along."""
    actual = {}
    for k, g in gradients(w).items():
        x, y = client_data()[k]
        actual[k] = loss(w + rho * unit(along(g)), x, y) - loss(w, x, y)
    return actual


def spread(values: dict[int, float]) -> float:
    mean = sum(values.values()) / len(values)
    return sum((value - mean) ** 2 for value in values.values()) / len(values)


@pytest.mark.parametrize(
    ("method", "rho", "mix"),
    [
        (ff.make("fedavg"), 0.05, 1.0),
        (ff.make("fedsam", rho=0.2), 0.2, 1.0),
        (ff.make("scaffold", client_opt=ff.SAM(rho=0.1)), 0.1, 1.0),
        (ff.make("fedcm"), 0.05, 1.0),
        (ff.make("fedvssam", rho=0.2, mix_local=0.3), 0.2, 0.3),
        (ff.make("fedvssam", rho=0.2, mix_local=0.3, mix_perturb=0.8), 0.2, 0.8),
        (ff.make("fedvssam", rho=0.2, mix_perturb=0.0), 0.2, 0.0),
    ],
    ids=["fedavg", "fedsam", "scaffold+sam", "fedcm", "fedvssam", "fedvssam of its own", "fedvssam, d alone"],
)
def test_incompatibility(method: ff.Algorithm, rho: float, mix: float) -> None:
    """The variance of the clients' rises; only FedVSSAM mixes the server's direction into the perturbation."""
    run = trained(method)
    w, d = run.vector, run.server_state.get("d", torch.zeros_like(run.vector))
    assert (method.id == "fedvssam") == bool(d.any())
    expected = rises(w, rho, lambda g: mix * g + (1 - mix) * d)
    actual = read(run, f"incompatibility(rho={rho})")
    assert actual.clients == {"rise": pytest.approx(expected, rel=1e-9)}
    assert actual.numbers["incompatibility"] == pytest.approx(spread(expected), rel=1e-8)
    g = gradient(w, *everyone())
    whole = loss(w + rho * unit(g), *everyone()) - loss(w, *everyone())
    about = sum((one - whole) ** 2 for one in expected.values()) / len(expected)
    assert actual.numbers["rise_global"] == pytest.approx(whole, rel=1e-9)
    assert actual.numbers["incompatibility_global"] == pytest.approx(about, rel=1e-8)
    assert actual.numbers["radius"] == rho
    assert actual.remark.startswith(f"radius {rho:g}, 6 fixed clients; ")
    wider = read(run, f"incompatibility(rho={2 * rho})")
    assert wider.numbers["incompatibility"] == pytest.approx(
        spread(rises(w, 2 * rho, lambda g: mix * g + (1 - mix) * d)), rel=1e-8
    )


def test_heterogeneity_is_the_mean_square_distance_of_the_clients_gradients_from_theirs() -> None:
    run = trained()
    own = torch.stack(list(gradients(run.vector).values()))
    expected = float((own - own.mean(dim=0)).square().sum(dim=1).mean())
    actual = read(run, "incompatibility").numbers
    assert actual["heterogeneity"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (None, "batch deviation means nothing here: the run trains on full batches"),
        (64, "batch deviation means nothing here: no client holds more than a batch of 64"),
        (5, "batch deviation of 5 examples over 3 clients (3 hold no more than that)"),
        (2, "batch deviation of 2 examples over 6 clients"),
    ],
)
def test_a_deviation_is_that_of_the_runs_batches_and_says_when_it_means_nothing(batch: int | None, words: str) -> None:
    actual = read(trained(batch_size=batch), "incompatibility")
    assert math.isnan(actual.numbers["batch_deviation"]) == (batch in (None, 64))
    assert actual.remark.endswith(words)


def test_the_deviation_of_a_batch() -> None:
    """With one example a batch: the expectation is the mean over the client's examples; draws stay within it."""
    run = trained()
    deviations = []
    for k, (x, y) in enumerate(client_data()):
        whole = gradients(run.vector)[k]
        singles = [gradient(run.vector, x[n : n + 1], y[n : n + 1]) for n in range(SIZES[k])]
        deviations.append(torch.stack([(g - whole).square().sum() for g in singles]))
    actual = torch.tensor(
        [read(run, f"incompatibility(batch=1, seed={s})").numbers["batch_deviation"] for s in range(40)]
    )
    assert float(actual.min()) >= sum(float(d.min()) for d in deviations) / CLIENTS - 1e-12
    assert float(actual.max()) <= sum(float(d.max()) for d in deviations) / CLIENTS + 1e-12
    expected = sum(float(d.mean()) for d in deviations) / CLIENTS
    assert abs(float(actual.mean()) - expected) < 4 * float(actual.std()) / 40**0.5


def test_a_fixed_set_of_clients_is_the_same_in_every_round_and_run(tmp_path: Path) -> None:
    run, other = trained(out=tmp_path / "run"), trained("fedsam", seed=3)
    sets = [tuple(read(source, "incompatibility(clients=3)").clients["rise"]) for source in (run, other)]
    sets.append(tuple(read(checkpoint(tmp_path / "run", ROUNDS - 1), "incompatibility(clients=3)").clients["rise"]))
    assert len(set(sets)) == 1 and len(sets[0]) == 3


# --- friendly adversaries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "words"), [(0.05, ""), (0.3, "(rho=0.3)")])
def test_conflicts_between_clients(rho: float, words: str) -> None:
    """The share of ordered pairs of clients with `rho <g_A, g_B>/||g_A|| < 0`, and its mean."""
    run = trained(ff.make("fedsam", rho=0.3), rounds=2)
    own = gradients(run.vector)
    changes = [rho * float(own[a] @ own[b] / own[a].norm()) for a in own for b in own if a != b]
    actual = read(run, f"client_conflict{words}")
    assert actual.numbers["client_conflict"] == sum(change < 0 for change in changes) / len(changes)
    assert 0 < actual.numbers["client_conflict"] < 1
    assert actual.numbers["conflict_change"] == pytest.approx(sum(changes) / len(changes))
    assert actual.remark == f"30 ordered pairs of clients, all examples; change at radius {rho:g}"


def test_conflicts_need_two_clients() -> None:
    run = trained(problem=task(clients=client_data()[:1]), sampling=1)
    with pytest.raises(ConfigError, match="compares clients in pairs"):
        read(run, "client_conflict")


def test_friendly_batches_are_disjoint_and_of_one_client() -> None:
    """Batches of 3, at most two a client: those of 7, 9 and 6 examples have them, those of 4, 3 and 5 have not."""
    run = trained(batch_size=3)
    changes: list[float] = []
    for k in (1, 3, 5):
        parts = [Sample(f"client {k}", 3, 0, part).examples(task()) for part in range(2)]
        (xa, ya), (xb, yb) = (part.batch(torch.arange(3)) for part in parts)
        assert not {tuple(row) for row in xa.tolist()} & {tuple(row) for row in xb.tolist()}
        a, b = gradient(run.vector, xa, ya), gradient(run.vector, xb, yb)
        changes += [0.05 * float(a @ b / a.norm()), 0.05 * float(a @ b / b.norm())]
    actual = read(run, "friendly_rate(batches=2)")
    assert actual.numbers["friendly_rate"] == sum(change < 0 for change in changes) / 6
    assert actual.numbers["friendly_change"] == pytest.approx(sum(changes) / 6)
    assert tuple(actual.clients["friendly_rate"]) == (1, 3, 5)
    assert actual.remark == (
        "6 ordered pairs of batches of 3 within 3 clients; 3 of 6 clients hold fewer than two; change at radius 0.05"
    )


def test_one_client_with_two_kinds_of_examples_is_friendly_to_itself() -> None:
    """Heterogeneity between clients is none of it: a single client has a rate too."""
    x = torch.eye(2, dtype=torch.float64).repeat(4, 1)
    problem = ff.Task(torch.nn.Linear(2, 2).double(), [(x, torch.tensor([0, 1]).repeat(4))])
    actual = read(trained(problem=problem, sampling=1, batch_size=1), "friendly_rate(batches=8)")
    assert 0 < actual.numbers["friendly_rate"] < 1


@pytest.mark.parametrize("batch", [None, 64])
def test_a_rate_without_two_batches_says_that_it_means_nothing(batch: int | None) -> None:
    actual = read(trained(batch_size=batch), "friendly_rate")
    assert math.isnan(actual.numbers["friendly_rate"])
    assert actual.remark.startswith("means nothing here: ")


# --- tracking -----------------------------------------------------------------------------------------------

DIRECTIONS = {"fedvssam": "d", "scaffold": "c", "fedcm": "momentum", "mofedsam": "momentum", "fedwmsam": "momentum"}


@pytest.mark.parametrize("method", DIRECTIONS)
def test_tracking_error(method: str) -> None:
    """Batches of 512 are all 34 examples, so that the reference is the gradient of the global loss."""
    run = trained(method)
    d, G = run.server_state[DIRECTIONS[method]], gradient(run.vector, *everyone())
    actual = read(run, "tracking_error").numbers
    assert actual["tracking_error"] == pytest.approx(float((d - G).square().sum()))
    assert actual["tracking_relative"] == pytest.approx(float((d - G).norm() / G.norm()))
    assert actual["tracking_cosine"] == pytest.approx(float(d @ G / (d.norm() * G.norm())))


def test_directions_have_the_sign_of_a_gradient() -> None:
    """Where all clients take one step, the direction is the mean of the gradients at the model before it."""
    everybody = {"sampling": CLIENTS, "local_epochs": 1, "rounds": 1}
    own = torch.stack(list(gradients(torch.nn.utils.parameters_to_vector(task().model.parameters())).values()))
    for method in (ff.make("fedvssam", rho=0.0, mix_local=1.0, mix_global=1.0), ff.make("fedcm", alpha=1.0)):
        run = trained(method, **everybody)
        torch.testing.assert_close(run.server_state[DIRECTIONS[method.id]], own.mean(dim=0).detach())


def test_the_reference_is_a_mean_over_random_batches() -> None:
    run = trained("fedvssam")
    samples = [Sample("train", 8, 3 + number).examples(task()) for number in range(5)]
    pairs = [sample.batch(torch.arange(8)) for sample in samples]
    assert len({tuple(x.flatten().tolist()) for x, _ in pairs}) == 5
    G = torch.stack([gradient(run.vector, *pair) for pair in pairs]).mean(dim=0)
    actual = read(run, "tracking_error(batches=5, batch=8, seed=3)")
    assert actual.numbers["tracking_error"] == pytest.approx(float((run.server_state["d"] - G).square().sum()))
    assert actual.remark == "5 random batches of 8"


GLOBAL = {
    "fedgf": ff.make("fedgf", rho=0.1, rho_global=0.3),
    "fedlesam": ff.make("fedlesam", rho=0.2),
    "fedlesam, server": ff.make("fedlesam", rho=0.2, ascent="server"),
    "fedlesam-d": ff.make("fedlesam-d", rho=0.2),
}


def global_perturbations(method: ff.Algorithm) -> list[Tensor]:
    """Return what clients take for the global ascent after the last round, from shorter runs of the same draws."""
    run = trained(method)
    if method.id == "fedgf" or method.ascent == "server":
        rho = 0.3 if method.id == "fedgf" else method.rho
        return [rho * unit(trained(method, rounds=ROUNDS - 1).vector - run.vector)] * CLIENTS
    last = {k: r for r in range(ROUNDS) for k in cohort(run, r)}
    start = torch.nn.utils.parameters_to_vector(task().model.parameters()).detach()
    old = {r: trained(method, rounds=r).vector if r else start for r in set(last.values())}
    return [method.rho * unit(old[last[k]] - run.vector) for k in sorted(last)]


@pytest.mark.parametrize("name", GLOBAL)
def test_how_far_the_global_perturbation_is_from_the_true_one(name: str) -> None:
    method = GLOBAL[name]
    run, actual = trained(method), global_perturbations(method)
    G = gradient(run.vector, *everyone())
    errors = [float((e - e.norm() * unit(G)).norm()) for e in actual]
    cosines = [float(unit(e) @ unit(G)) for e in actual]
    reported = read(run, "tracking_error")
    assert reported.numbers["epsilon"] == pytest.approx(sum(errors) / len(errors), rel=1e-9)
    assert reported.numbers["tracking_cosine"] == pytest.approx(sum(cosines) / len(cosines), rel=1e-9)
    assert reported.remark == f"10 random batches of 512; mean over {len(actual)} clients"


def test_a_method_without_a_direction() -> None:
    with pytest.raises(ConfigError, match="tracking_error: fedavg keeps no estimate of the global gradient"):
        read(trained(), "tracking_error")


# --- FedGloSS's approximation -------------------------------------------------------------------------------


def gap(run: ff.Run, clients: list[int], rho: float, beta: float | None, states: dict[int, Any]) -> float:
    """Return `rho ||unit(D) - unit(Delta)||`, `Delta` from the clients' training from the unperturbed model."""
    w, D = run.vector, run.server_state["pseudo_gradient"]

    def steps(k: int) -> Tensor:
        sigma = states[k]["sigma"] if beta else 0.0
        return descend(k, w, lambda v, g: g - sigma + (v - w) / beta if beta else g)

    return rho * float((unit(D) - unit(weighted({k: w - steps(k) for k in clients}))).norm())


@pytest.mark.parametrize("beta", [None, 5.0], ids=["admm off", "admm on"])
def test_perturbation_gap(beta: float | None, tmp_path: Path) -> None:
    method = ff.make("fedgloss", rho_server=0.2, **({"admm": False} if beta is None else {"beta": beta}))
    whole, longer = trained(method, tmp_path / "run"), trained(method, rounds=ROUNDS + 1)
    for played, where in ((ROUNDS - 1, checkpoint(tmp_path / "run", ROUNDS - 1)), (ROUNDS, tmp_path / "run")):
        # a run of fewer rounds has come to the state of the checkpoint
        run = trained(method, rounds=played)
        assert [cohort(run, r) for r in range(played)] == [cohort(whole, r) for r in range(played)]
        states = {k: run.client_state(k) for k in range(CLIENTS)}
        clients = cohort(longer, played)  # those of the next round
        actual = read(where, "perturbation_gap")
        assert actual.numbers["perturbation_gap"] == pytest.approx(gap(run, clients, 0.2, beta, states), rel=1e-9)
        assert actual.numbers["perturbation_gap_share"] == pytest.approx(actual.numbers["perturbation_gap"] / 0.2)
        assert 0 < actual.numbers["perturbation_gap_share"] < 2
        assert actual.remark == "server radius 0.2"


@pytest.mark.parametrize("beta", [None, 5.0], ids=["admm off", "admm on"])
def test_the_gap_leaves_the_run_as_it_was(beta: float | None) -> None:
    method = ff.make("fedgloss", rho_server=0.2, **({"admm": False} if beta is None else {"beta": beta}))
    run, other = trained(method), trained(method)
    read(run, "perturbation_gap")
    assert torch.equal(run.vector, other.vector)
    for name, value in other.server_state.items():
        assert torch.equal(run.server_state[name], value)
    for k in range(CLIENTS):
        for name, value in other.client_state(k).items():
            assert torch.equal(run.client_state(k)[name], value)


def test_the_gap_follows_the_servers_radius_of_the_round() -> None:
    method = ff.make(
        "fedgloss", rho_server=0.2, rho_start=0.05, rho_warmup=8, rho_server_warmup="ramp", client_opt="sam"
    )
    run = trained(method)
    radius = 0.05 + (0.2 - 0.05) * ROUNDS / 8
    actual = read(run, "perturbation_gap").numbers
    assert actual["perturbation_gap"] == pytest.approx(radius * actual["perturbation_gap_share"])


def test_without_a_gap_the_two_directions_are_one() -> None:
    """One client on a loss with a constant slope: the pseudo-gradient is the same from wherever it starts."""
    ones = torch.ones(4, 3, dtype=torch.float64)
    problem = ff.Task(torch.nn.Linear(3, 1).double(), [(ones, ones[:, :1])], loss=slope)
    run = trained(ff.make("fedgloss", admm=False), problem=problem, sampling=1)
    assert read(run, "perturbation_gap").numbers["perturbation_gap"] == pytest.approx(0, abs=1e-9)


def slope(outputs: Tensor, targets: Tensor) -> Tensor:
    return outputs.mean()


@pytest.mark.parametrize("method", ["fedavg", "naivefedgloss", "fedsmoo"])
def test_the_gap_is_about_fedgloss(method: str) -> None:
    with pytest.raises(ConfigError, match=f"perturbation_gap is about fedgloss, not {method}"):
        read(trained(method, rounds=1, lr=LR), "perturbation_gap")
