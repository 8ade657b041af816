"""Measurements of clients, computed again in plain torch from the run's data and models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.flatness.measurement import MeasurementResult
from flatness.federations import (
    CLIENTS,
    COHORT,
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
    outputs,
    over,
    rise,
    task,
    trained,
    unit,
    weighted,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run"


def read(source: ff.Run | Path, measurement: str) -> MeasurementResult:
    with ff.laboratory(source) as lab:
        (actual,) = lab.measure(measurement).values()
    return actual


def before() -> Tensor:
    """Return FedAvg's model before the last round."""
    return trained(rounds=ROUNDS - 1).vector


def models(run: ff.Run) -> dict[int, Tensor]:
    """Return the local models of FedAvg's last round, as they were averaged."""
    start = before()
    return {k: descend(k, start) for k in cohort(run, ROUNDS - 1)}


def test_the_local_models_of_the_last_round_are_those_that_were_averaged() -> None:
    run = trained()
    torch.testing.assert_close(weighted(models(run)), run.vector)


def test_local_and_global_curvature_of_clients_models() -> None:
    run = trained()
    actual = read(run, "local_global(tolerance=1e-7)")
    local = {k: float(over(k).eigenvalues(w)[0]) for k, w in models(run).items()}
    everywhere = {k: float(over().eigenvalues(w)[0]) for k, w in models(run).items()}
    assert actual.clients == {"lambda_local": pytest.approx(local), "lambda_global": pytest.approx(everywhere)}
    assert actual.numbers["lambda_local"] == pytest.approx(sum(local.values()) / COHORT)
    assert actual.numbers["lambda_global"] == pytest.approx(sum(everywhere.values()) / COHORT)
    assert actual.remark == "3 clients of the last round"
    alone = read(run, "client_lambda(tolerance=1e-7)")
    assert alone.clients == {"client_lambda": pytest.approx(local)}
    assert alone.numbers == {"client_lambda": pytest.approx(sum(local.values()) / COHORT)}


def test_the_next_round_from_a_checkpoint_is_the_one_that_was_played(path: Path) -> None:
    run = trained(out=path)
    with ff.laboratory(checkpoint(path, ROUNDS - 1)) as lab:
        start = lab.surface.w
        actual = lab.measure("client_divergence(round=next)")["client_divergence"]
    new = {k: descend(k, start) for k in cohort(run, ROUNDS - 1)}
    torch.testing.assert_close(weighted(new), run.vector)
    apart = {k: float((w - start).square().sum()) for k, w in new.items()}
    assert actual.clients == {"client_divergence": pytest.approx(apart)}
    assert actual.numbers == {"client_divergence": pytest.approx(sum(apart.values()) / COHORT)}
    assert actual.remark == "3 clients of the next round"


def test_divergence_of_the_last_round_from_every_source(path: Path) -> None:
    run, start = trained(out=path), before()
    apart = {k: float((w - start).square().sum()) for k, w in models(run).items()}
    for source in (run, trained(), path, checkpoint(path, ROUNDS)):
        assert read(source, "client_divergence").clients == {"client_divergence": pytest.approx(apart)}


def test_after_the_last_round_the_next_one_is_that_of_a_longer_run(path: Path) -> None:
    run, longer = trained(out=path), trained(rounds=ROUNDS + 1)
    new = {k: descend(k, run.vector) for k in cohort(longer, ROUNDS)}
    torch.testing.assert_close(weighted(new), longer.vector)
    apart = {k: float((w - run.vector).square().sum()) for k, w in new.items()}
    for source in (run, path, checkpoint(path, ROUNDS)):
        actual = read(source, "client_divergence(round=next)")
        assert actual.clients == {"client_divergence": pytest.approx(apart)}


def test_divergence_is_that_which_the_row_tells(path: Path) -> None:
    """The history's own number is the mean distance, not squared, in the round that was really played."""
    run = trained(out=path)
    actual = read(path, "client_divergence").clients["client_divergence"]
    reported = run.history[-1]["watch"]["divergence"]
    assert sum(value**0.5 for value in actual.values()) / COHORT == pytest.approx(reported, rel=1e-12)


@pytest.mark.parametrize(
    ("method", "rho", "measurement"),
    [
        (ff.make("fedavg"), 0.05, "discrepancy"),
        (ff.make("fedavg"), 0.2, "discrepancy(rho=0.2)"),
        (ff.make("fedavg", client_opt=ff.SAM(rho=0.3)), 0.05, "discrepancy"),
        (ff.make("fedavg", client_opt=ff.SAM(rho=0.3)), 0.3, "discrepancy(own_rho=true)"),
        (ff.make("fedsam", rho=0.15), 0.05, "discrepancy"),
        (ff.make("fedsam", rho=0.15), 0.15, "discrepancy(own_rho=true)"),
        (ff.make("fedsam", rho=0.15), 0.4, "discrepancy(rho=0.4)"),
        (ff.make("fedsam", rho="ramp(0.1, 0.3, 4)"), 0.3, "discrepancy(own_rho=true)"),
    ],
)
def test_discrepancy(method: ff.Algorithm, rho: float, measurement: str) -> None:
    """`|S(w; all) - sum n_i/n S(w_i; own)|`, all clients trained one round from the final model."""
    run = trained(method, lr=LR)
    ascent = None if method.id == "fedavg" and method.client_opt.id == "sgd" else rho_of_steps(method)
    new = {k: sam_steps(k, run.vector, ascent) for k in range(CLIENTS)}
    rises = {k: rise(w, *client_data()[k], rho) for k, w in new.items()}
    whole, mean = rise(run.vector, *everyone(), rho), weighted(rises)
    actual = read(run, measurement)
    assert actual.clients == {"sharpness_local": pytest.approx(rises, rel=1e-9)}
    assert actual.numbers["sharpness_global"] == pytest.approx(whole, rel=1e-9)
    assert actual.numbers["sharpness_local"] == pytest.approx(mean, rel=1e-9)
    assert actual.numbers["discrepancy"] == pytest.approx(abs(whole - mean), rel=1e-9)
    assert actual.numbers["radius"] == rho
    assert actual.remark == f"radius {rho:g}, one step, 6 clients trained for one round"


def test_discrepancy_with_a_maximum_of_many_steps() -> None:
    run = trained()
    one, many = (read(run, f"discrepancy(rho=0.5, steps={steps})").numbers for steps in (1, 10))
    with ff.laboratory(run) as lab:
        assert many["sharpness_global"] == lab.measure("sharpness(rho=0.5, steps=10)")["sharpness"].numbers["sharpness"]
    assert many["sharpness_global"] > one["sharpness_global"]
    assert many["sharpness_local"] > one["sharpness_local"]


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (ff.make("fedasam"), "the rho of fedasam is measured in ASAM's norm"),
        (ff.make("scaffold", client_opt="asam"), "the rho of scaffold is measured in ASAM's norm"),
        (ff.make("fedavg"), "the clients of fedavg have no radius of their own"),
    ],
)
@pytest.mark.parametrize("measurement", ["discrepancy", "incompatibility"])
def test_a_method_without_a_distance_for_a_radius(method: ff.Algorithm, reason: str, measurement: str) -> None:
    run = trained(method, rounds=1)
    assert read(run, measurement).numbers["radius"] == 0.05
    with pytest.raises(ConfigError, match=reason):
        read(run, f"{measurement}(own_rho=true)")


def rho_of_steps(method: ff.Algorithm) -> float:
    settled = method.at(ROUNDS)
    rho = settled.rho if settled.id == "fedsam" else settled.client_opt.rho
    return float(rho)


def sam_steps(k: int, w: Tensor, rho: float | None) -> Tensor:
    x, y = client_data()[k]
    return descend(k, w, lambda v, g: g if rho is None else gradient(v + rho * unit(g), x, y))


def test_discrepancy_of_a_fixed_set_of_clients() -> None:
    run = trained()
    actual = read(run, "discrepancy(clients=3, seed=5)")
    chosen = actual.clients["sharpness_local"]
    assert len(chosen) == 3
    rises = {k: rise(descend(k, run.vector), *client_data()[k], 0.05) for k in chosen}
    assert actual.numbers["sharpness_local"] == pytest.approx(weighted(rises), rel=1e-9)
    assert read(trained(seed=9), "discrepancy(clients=3, seed=5)").clients["sharpness_local"].keys() == chosen.keys()
    others = {tuple(read(run, f"discrepancy(clients=3, seed={s})").clients["sharpness_local"]) for s in range(6)}
    assert len(others) > 1


def test_feature_norms() -> None:
    run = trained()
    actual = read(run, "feature_norm")
    norms = {k: float(outputs(run.vector, x).norm(dim=1).mean()) for k, (x, _) in enumerate(client_data())}
    assert actual.clients == {"feature_norm": pytest.approx(norms)}
    assert actual.numbers == {"feature_norm": pytest.approx(sum(norms.values()) / CLIENTS)}
    few = read(run, "feature_norm(clients=2)").clients["feature_norm"]
    assert len(few) == 2 and few == {k: pytest.approx(norms[k]) for k in few}


def test_accuracy_and_loss_on_each_clients_examples() -> None:
    run = trained()
    actual = read(run, "client_accuracy")
    right = {
        k: float((outputs(run.vector, x).argmax(1) == y).double().mean()) for k, (x, y) in enumerate(client_data())
    }
    losses = {k: loss(run.vector, x, y) for k, (x, y) in enumerate(client_data())}
    assert actual.clients == {"client_accuracy": pytest.approx(right), "client_loss": pytest.approx(losses)}
    assert actual.numbers["client_accuracy"] == pytest.approx(sum(right.values()) / CLIENTS)
    assert actual.numbers["client_loss"] == pytest.approx(sum(losses.values()) / CLIENTS)
    reported = {one["client"]: one["loss"] for one in run.client_metrics()}
    assert actual.clients["client_loss"] == pytest.approx(reported)


def test_clients_without_examples_are_left_out() -> None:
    data = client_data()
    problem = task(clients=[data[0], (data[1][0][:0], data[1][1][:0]), data[2], data[3]])
    run = trained(problem=problem, sampling=3)
    for measurement in ("discrepancy", "feature_norm", "client_accuracy"):
        (by,) = {tuple(one) for one in read(run, measurement).clients.values()}
        assert by == (0, 2, 3)
    assert 1 not in read(run, "client_lambda").clients["client_lambda"]
    with pytest.raises(ConfigError, match="client 1 holds no examples to take a loss over"):
        ff.laboratory(run, data="client 1")


@pytest.mark.parametrize("workers", [2])
def test_the_same_bits_with_workers(path: Path, workers: int) -> None:
    run = trained("scaffold", path, batch_size=3, sampling=4)
    names = "local_global", "client_divergence", "discrepancy", "feature_norm", "client_accuracy", "incompatibility"
    alone = ff.laboratory(run).measure(*names)
    (path / "flatness" / "results.json").unlink()
    with ff.laboratory(path, workers=workers) as lab:
        assert lab.measure(*names) == alone


def test_readings_say_how_many_clients_there_were() -> None:
    run = trained(sampling=ff.Replay([[0, 1, 2, 3], [2], [3, 4], [0, 5]]))
    actual = read(run, "client_lambda")
    assert actual.remark == "2 clients of the last round"
    assert tuple(actual.clients["client_lambda"]) == (0, 5)
    assert sum(SIZES) == 34
