"""Measurements while a run trains: taken when they are due, kept in the rows, and without a trace in the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from flatfed.core.round.federation import TIMES
from flatfed.experiments.spelling.methods import parse_watch

ROUNDS = 6
WATCH = "lambda_max:2,lpf(samples=3):3,client_divergence:2,discrepancy:3,client_accuracy:6,local_global:6"
OWN = ("divergence", "dual_norm", "perturbation", "control_norm", "momentum_norm", "direction_norm", "alpha")


def task(norm: bool = False) -> ff.Task:
    generator = torch.Generator().manual_seed(0)
    data = [(torch.randn(12, 4, generator=generator), torch.arange(12) % 3) for _ in range(5)]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        middle = [nn.BatchNorm1d(6)] if norm else []
        model = nn.Sequential(nn.Linear(4, 6), *middle, nn.Tanh(), nn.Linear(6, 3))
    return ff.Task(model, data, test=data[0])


def train(method: str, **given: Any) -> ff.Run:
    settings: dict[str, Any] = {
        "rounds": ROUNDS,
        "sampling": 3,
        "lr": 0.1,
        "batch_size": 4,
        "evaluate_every": 2,
        "workers": 0,
    }
    norm = given.pop("norm", False)
    return ff.train(task(norm), ff.make(method), **settings | given)


def without_measurements(run: ff.Run) -> list[dict[str, Any]]:
    """What methods say themselves, and all but the time."""
    rows = []
    for row in run.history:
        kept = {name: value for name, value in row.items() if name not in (*TIMES, "clients_watch", "watch")}
        rows.append(kept | {name: row["watch"][name] for name in OWN if name in row["watch"]})
    return rows


@pytest.mark.parametrize(
    ("method", "workers"),
    [("fedavg", 0), ("scaffold", 2), ("fedgloss", 0), ("fedwmsam", 2), ("mime", 2), ("fedvssam", 0), ("scaffold", 0)],
)
def test_every_bit_is_the_same_with_and_without(method: str, workers: int) -> None:
    plain = train(method)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    watched = train(method, watch=WATCH, workers=workers)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(watched.vector, plain.vector)
    assert without_measurements(watched) == without_measurements(plain)
    for name, value in plain.server_state.items():
        assert torch.equal(torch.as_tensor(watched.server_state[name]), torch.as_tensor(value)), name
    for client in range(5):
        for name, value in plain.client_state(client).items():
            assert torch.equal(torch.as_tensor(watched.client_state(client)[name]), torch.as_tensor(value)), name


@pytest.mark.parametrize("given", [{"vectorised": True}, {"norm": True}, {"norm": True, "eval_stats": "recalibrate"}])
def test_vectorised_and_statistics_too(given: dict[str, Any]) -> None:
    assert torch.equal(train("fedavg", watch=WATCH, **given).vector, train("fedavg", **given).vector)


def test_numbers_stand_in_the_rows_in_which_they_are_due() -> None:
    rows = train("fedavg", watch=WATCH).history
    assert [row["round"] for row in rows if "lambda_max" in row["watch"]] == [1, 3, 5]
    assert [row["round"] for row in rows if "lpf" in row["watch"]] == [2, 5]
    assert all("divergence" in row["watch"] for row in rows), "what methods watch stays"
    by_client = rows[5]["clients_watch"]
    assert sorted(by_client["client_accuracy"]) == ["0", "1", "2", "3", "4"]
    assert len(by_client["lambda_local"]) == 3


def test_a_stopped_run_goes_on_watching(tmp_path: Path) -> None:
    whole = train("scaffold", watch=WATCH)
    with pytest.raises(ValueError, match="stop"):
        train("scaffold", watch=WATCH, out=tmp_path / "run", checkpoint_every=1, on_round=_stop_after(2))
    again = ff.resume(tmp_path / "run")
    still = dict.fromkeys(TIMES)
    assert [row | still for row in again.history] == [row | still for row in whole.history]


def _stop_after(round: int) -> Any:
    def stop(row: dict[str, Any]) -> None:
        if row["round"] == round:
            raise ValueError("stop")

    return stop


def test_the_runs_record_says_what_is_watched(tmp_path: Path) -> None:
    train("fedavg", watch="lpf(samples=3):2", watch_data="test", watch_samples=7, out=tmp_path / "run")
    [monitor] = json.loads((tmp_path / "run" / "config.json").read_text())["watch"]
    assert monitor["every"] == 2
    assert monitor["measurement"] == {"id": "lpf", "sigma": 0.01, "samples": 3, "seed": 0}
    assert monitor["sample"] == {"of": "test", "most": 7, "seed": 0}


@pytest.mark.parametrize(("method", "watch"), [("fedavg", "tracking_error:2"), ("fedsam", "perturbation_gap:3")])
def test_what_means_nothing_for_a_method_is_left_out_with_a_warning(method: str, watch: str) -> None:
    with pytest.warns(UserWarning, match="left out"):
        run = train(method, watch=f"{watch},parameter_norm:1")
    assert all("parameter_norm" in row["watch"] and len(row["watch"]) == 2 for row in run.history)


def test_what_cannot_be_measured_is_none() -> None:
    good = task()
    bad = (torch.full((4, 4), torch.nan), torch.arange(4) % 3)
    both = ff.Task(good.model, good.clients, tests={"bad": bad})
    settings = {"rounds": 1, "sampling": 2, "lr": 0.1, "workers": 0, "watch_data": "bad"}
    run = ff.train(both, ff.make("fedavg"), watch="lambda_max:1,lpf(samples=2):1,loss:1", **settings)
    assert [run.history[0]["watch"][name] for name in ("lambda_max", "lpf", "loss")] == [None] * 3
    json.dumps(run.history, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lambda_max", "every how many rounds"),
        ("lambda_max:0", "every how many rounds"),
        ("lambda_max:often", "every how many rounds"),
        ("lambda_mex:5", "lambda_max"),
        ("lpf(sample=3):5", "samples"),
        ("lpf(samples=0):5", "at least 1"),
        ("lpf(1,2,3,4):5", "takes 3 values"),
        (":5", "not a measurement"),
    ],
)
def test_what_is_misspelt_is_refused(text: str, message: str) -> None:
    with pytest.raises(ff.ConfigError, match=message):
        parse_watch(text)


def test_unknown_data_is_refused_before_training() -> None:
    with pytest.raises(ff.ConfigError, match="tset"):
        train("fedavg", watch="loss:1", watch_data="tset")
