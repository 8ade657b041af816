"""A run's line: how it stands, how far it is, and what is said of runs that cannot be read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flatfed.dashboard.entries import ENDED_FROM_OUTSIDE, Entry, entry_of
from flatfed.dashboard.sealed_reading import MOST_BYTES
from flatfed.dashboard.tree import FolderPlace
from flatfed.runs.records.files import held
from reports.disk import SECONDS, write_run


def entry(run: Path) -> Entry:
    return entry_of(FolderPlace(run, run.name), run.parent)[0]


def test_a_finished_run(tmp_path: Path) -> None:
    found = entry(write_run(tmp_path / "run", "fedavg", seed=3))
    expected = {"method": "fedavg", "data": "digits", "seed": "3", "status": "finished", "rounds": 3, "of": 3}
    assert {name: found[name] for name in expected} == expected
    assert (found["value"], found["seconds_left"], found["reason"]) == (50.0, None, "")
    assert found["resume"] == f"flatfed resume {tmp_path / 'run'}"
    assert "5 clients, iid" in found["setting"]


def test_a_run_that_runs_has_a_time_left_and_one_without_a_process_is_interrupted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(0.1, 0.2), status="running", rounds=10)
    with held(run):
        found = entry(run)
    assert (found["status"], found["rounds"], found["of"]) == ("running", 2, 10)
    assert found["seconds_left"] == pytest.approx(8 * SECONDS)
    found = entry(run)
    assert (found["status"], found["reason"]) == ("interrupted", ENDED_FROM_OUTSIDE)


def test_the_last_evaluated_round_counts(tmp_path: Path) -> None:
    assert entry(write_run(tmp_path / "run", accuracies=(0.4, *[None] * 30)))["value"] == 40.0
    assert entry(write_run(tmp_path / "none", accuracies=()))["value"] is None


def test_a_number_without_bounds_is_no_value(tmp_path: Path) -> None:
    found = entry(write_run(tmp_path / "run", accuracies=(0.4, 1e308)))
    assert found["value"] == 40.0
    json.dumps(found, allow_nan=False)


def huge(run: Path) -> None:
    (run / "config.json").write_bytes(b" " * (MOST_BYTES + 1))


def wrong_json(run: Path) -> None:
    (run / "config.json").write_text("{")


def nested(run: Path) -> None:
    (run / "config.json").write_text('{"a":' * 20000)


def no_object(run: Path) -> None:
    (run / "config.json").write_text("[]")


def changed(run: Path) -> None:
    file = run / "config.json"
    file.write_text(file.read_text().replace('"lr": 0.1', '"lr": 0.2'))


def link(run: Path) -> None:
    (run / "config.json").rename(run.parent / "elsewhere.json")
    (run / "config.json").symlink_to(run.parent / "elsewhere.json")


def pipe(run: Path) -> None:
    (run / "config.json").unlink()
    os.mkfifo(run / "config.json")


def linked_history(run: Path) -> None:
    (run / "history.jsonl").unlink()
    (run / "history.jsonl").symlink_to("/etc/passwd")


def wrong_status(run: Path) -> None:
    (run / "status.json").write_text('{"status": 7}')


def wrong_types(run: Path) -> None:
    (run / "config.json").write_text(json.dumps({"format": 1, "settings": [], "task": None}))


BREAKS = [huge, wrong_json, nested, no_object, changed, link, pipe, linked_history, wrong_status, wrong_types]


@pytest.mark.parametrize("harm", BREAKS)
def test_what_cannot_be_read_says_why_and_nothing_else(harm: Callable[[Path], Any], tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    harm(run)
    found = entry(run)
    assert found["status"] == "unreadable"
    assert 10 < len(found["reason"]) <= 301
    assert (found["method"], found["value"], found["of"]) == ("", None, None)


def test_a_torn_history_is_no_reason_to_hide_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with (run / "history.jsonl").open("ab") as file:
        file.write(b'{"round": 3, "cl')
    assert entry(run)["rounds"] == 3
    (run / "history.jsonl").write_bytes(b"\xff\x00" * 50_000 + b"\n")
    assert (entry(run)["rounds"], entry(run)["status"]) == (0, "finished")
