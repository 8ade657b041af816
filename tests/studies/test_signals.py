"""A study is told to stop, or dies: children save, cells are given back, and it goes on to the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from methods.designs import WHOLE
from studies.bench import begin, digests, until, written
from studies.test_shared import is_gone

STUDY = {"model": "nets:Gated", "seeds": [0, 1]}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    end = begin(written(folder, **STUDY), "--jobs", "1").end()
    assert end.returncode == 0, end.stderr
    return digests(folder / "out")


SENT = [(signal.SIGTERM, False), (signal.SIGINT, True), (signal.SIGUSR1, False)]
MORE = [(signal.SIGTERM, True), (signal.SIGINT, False), (signal.SIGUSR1, True), (signal.SIGQUIT, True)]


@pytest.mark.parametrize(("number", "group"), SENT + MORE if WHOLE else SENT)
def test_a_signal_saves_gives_back_and_says_how_to_go_on(
    number: signal.Signals, group: bool, tmp_path: Path, expected: dict[str, object]
) -> None:
    file = written(tmp_path, **STUDY)
    gate = tmp_path / "gate"
    gate.touch()
    process = begin(file, "--jobs", "2")
    until(lambda: list(tmp_path.glob("waits-*")))
    (os.killpg if group else os.kill)(process.pid, number)
    until(lambda: list(tmp_path.glob("told-*")))
    gate.unlink()
    end = process.end()
    assert end.returncode == 130, end.stderr
    assert "Go on with: flatfed study run study.yaml --out out --jobs 2" in end.stderr
    assert "Traceback" not in end.stderr
    assert end.stdout == ""
    assert is_gone(process)
    newest = [sorted(folder.glob("0*"))[-1] for folder in (tmp_path / "out" / "leases").iterdir()]
    assert newest
    assert all('"released": true' in lease.read_text() for lease in newest)
    assert not (tmp_path / "out" / "failures").exists()
    again = begin(file, "--jobs", "2").end()
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "out") == expected


def test_children_of_a_killed_process_end_and_their_cells_go_on_elsewhere(
    tmp_path: Path, expected: dict[str, object]
) -> None:
    file = written(tmp_path, **STUDY)
    gate = tmp_path / "gate"
    gate.touch()
    process = begin(file, "--jobs", "1")
    until(lambda: list(tmp_path.glob("waits-*")))
    os.kill(process.pid, signal.SIGKILL)
    assert process.end().returncode == -signal.SIGKILL
    # The child still has its run: the next one waits for it, and does not call it a failure.
    other = begin(file, "--jobs", "1")
    until(lambda: len(list((tmp_path / "out" / "leases").glob("*/000002"))) == 1)
    gate.unlink()
    end = other.end()
    assert end.returncode == 0, end.stderr
    assert "failed" not in end.stderr
    until(lambda: is_gone(process))
    assert digests(tmp_path / "out") == expected


def test_an_owner_that_was_taken_over_stops_its_child(tmp_path: Path, expected: dict[str, object]) -> None:
    file = written(tmp_path, **STUDY)
    gate = tmp_path / "gate"
    gate.touch()
    process = begin(file, "--jobs", "1", "--lease", "0.05")
    until(lambda: list(tmp_path.glob("waits-*")))
    lease = next((tmp_path / "out" / "leases").glob("*/000001"))
    content = lease.read_text().replace('"machine": "', '"machine": "another ').replace('"owner": "', '"owner": "x')
    (lease.parent / "000002").write_text(content)
    until(lambda: list(tmp_path.glob("told-*")))
    gate.unlink()
    end = process.end()
    # Whoever took it over shows no sign of life: it is taken back, and goes on.
    assert end.returncode == 0, end.stderr
    assert (lease.parent / "000003").exists()
    assert digests(tmp_path / "out") == expected
