"""What is measured while a run goes on is what a laboratory finds at the same state, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from engines.bench import rows_but_seconds
from flatness.federations import CLIENTS, ROUNDS, checkpoint, trained

CASES: dict[str, tuple[ff.Algorithm, str]] = {
    "curvature": (ff.make("scaffold"), "lambda_max"),
    "noise": (ff.make("fedavg"), "lpf(samples=3)"),
    "clients": (ff.make("scaffold"), "local_global"),
    "clients to come": (ff.make("scaffold"), "local_global(round=next)"),
    "discrepancy": (ff.make("fedsam", rho="ramp(0.1, 0.9, 4)"), "discrepancy"),
    "incompatibility": (ff.make("fedvssam"), "incompatibility"),
    "incompatibility on a schedule": (ff.make("fedvssam", mix_local="ramp(0.1, 0.9, 4)"), "incompatibility"),
    "tracking": (ff.make("fedvssam"), "tracking_error"),
    "gap": (ff.make("fedgloss"), "perturbation_gap"),
    "gap on a schedule": (ff.make("fedgloss", rho_server="ramp(0.1, 0.5, 4)"), "perturbation_gap"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_monitor_reads_what_a_laboratory_reads(name: str, tmp_path: Path) -> None:
    method, measurement = CASES[name]
    run = trained(method, tmp_path / "run", watch=f"{measurement}:1", watch_samples=None)
    for round in (ROUNDS,) if name == "clients" else (ROUNDS - 1, ROUNDS):
        with ff.laboratory(checkpoint(tmp_path / "run", round)) as lab:
            (actual,) = lab.measure(measurement).values()
        row = run.history[round - 1]
        assert {key: row["watch"][key] for key in actual.numbers} == actual.to_dict()["numbers"]
        clients = {key: {str(k): v for k, v in by.items()} for key, by in actual.clients.items()}
        assert row.get("clients_watch", {}) == clients


@pytest.mark.parametrize("changes", [{}, {"workers": 2}, {"average": ff.SWA(start=0.0, cycle=2)}], ids=str)
def test_a_monitored_run_comes_to_the_same_bits(changes: dict[str, Any]) -> None:
    watch = "lambda_max:1,local_global:2,discrepancy:3,lpf(samples=2):1"
    plain, watched = trained("scaffold", **changes), trained("scaffold", watch=watch, **changes)
    assert torch.equal(plain.vector, watched.vector) and torch.equal(plain.eval_vector, watched.eval_vector)
    for k in range(CLIENTS):
        assert torch.equal(plain.client_state(k)["c"], watched.client_state(k)["c"])
    for row in watched.history:
        row.pop("clients_watch", None)
        row["watch"] = {key: value for key, value in row["watch"].items() if key in plain.history[0]["watch"]}
    assert rows_but_seconds(plain.history) == rows_but_seconds(watched.history)
    assert len(plain.history) == ROUNDS
