"""What holds for every tracker: all is there once, the run has the same bits, and resuming goes on there."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import flatfed as ff
from engines.bench import eventually
from flatfed.runs.history import read_rows
from runs.bench import ROUNDS, digest, small_run
from tracking.table import TRACKERS, Bench, Row, remote_of, steps

pytestmark = pytest.mark.usefixtures("signals_heard")


@pytest.fixture(params=TRACKERS)
def id(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def row(id: str) -> Row:
    return TRACKERS[id]


@pytest.fixture
def bench(id: str, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    server = request.getfixturevalue("server") if id == "mlflow" else None
    return Bench(tmp_path, server)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return digest(small_run(None))


def plain_config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((path / "config.json").read_text())
    return {name: value for name, value in config.items() if name not in ("run", "seal", "workers")}


def test_all_of_a_run_is_there_once_and_its_bits_are_the_same(
    id: str, row: Row, bench: Bench, tmp_path: Path, expected: dict[str, Any]
) -> None:
    small_run(tmp_path / "plain")
    path = tmp_path / "run"
    run = small_run(path, track=row.make(bench), workers=2)
    assert digest(run) == expected
    assert plain_config(path) == plain_config(tmp_path / "plain")
    found, rows = row.read(bench, remote_of(path, id)), read_rows(path / "history.jsonl")
    assert steps(found) == list(range(1, ROUNDS + 1))
    for (_, numbers), line in zip(found.rounds, rows, strict=True):
        for name in ("train_loss", "seconds", "bytes_up", "test_accuracy"):
            if name in line:
                assert numbers[row.name(name)] == pytest.approx(line[name], rel=1e-6)
        assert not any("clients" in name and "watch" not in name and "seconds" not in name for name in numbers)
        assert f"watch/{next(iter(line['watch']))}" in numbers
    assert found.seconds == sorted(found.seconds)
    assert found.seconds[-1] - found.seconds[0] == pytest.approx(sum(r["seconds"] for r in rows[1:]), abs=0.01)
    assert float(json.loads(found.parameters["settings.batch_size"].split()[-1])) == 4
    assert "feddyn+sam+swa" in found.parameters["method"]
    assert found.status == "finished"
    model = run.model().state_dict()
    written = load_file(path / "model.safetensors")
    assert written.keys() == model.keys()
    assert all(torch.equal(written[name], model[name]) for name in model)
    assert ("model.safetensors" in found.files) == row.has_model


def test_a_run_that_is_interrupted_goes_on_in_the_same_place(
    id: str, row: Row, bench: Bench, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "run"

    def interrupt(line: dict[str, Any]) -> None:
        if line["round"] == 1:
            signal.raise_signal(signal.SIGINT)

    assert small_run(path, track=row.make(bench), on_round=interrupt).status == "interrupted"
    remote = remote_of(path, id)
    assert row.read(bench, remote).status == "interrupted"
    assert digest(ff.resume(path)) == expected
    assert remote_of(path, id) == remote
    found = row.read(bench, remote)
    assert steps(found) == list(range(1, ROUNDS + 1))
    assert found.status == "finished"


def test_a_run_that_diverges_says_so(id: str, row: Row, bench: Bench, tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", track=row.make(bench), lr=1e30, average=None)
    assert run.status == "diverged"
    found = row.read(bench, remote_of(tmp_path / "run", id))
    assert found.status.startswith("diverged")
    assert steps(found) == list(range(1, len(run.history) + 1))
    numbers = [n for _, values in found.rounds for n in values.values()]
    if id == "mlflow":
        assert all(math.isfinite(n) and abs(n) < 1e300 for n in numbers), "MLflow would show the largest number"


def test_rows_are_there_while_the_run_goes_on(id: str, row: Row, bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "run"
    record = path / "tracking" / id / "sent.json"

    def wait(line: dict[str, Any]) -> None:
        if line["round"] == 1:
            eventually(lambda: record.is_file() and json.loads(record.read_text())["rounds"] >= 1, "a row is sent")

    small_run(path, track=row.make(bench), on_round=wait, rounds=2, average=None)
    assert steps(row.read(bench, remote_of(path, id))) == [1, 2]
