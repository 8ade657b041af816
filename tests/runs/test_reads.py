"""How often a command reads the files of a run: each once at most."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import SMALL, flatfed

FILES = ("config.json", "history.jsonl", "status.json", "environment.json", "comparison.json")


@pytest.fixture
def reads() -> Iterator[Counter[str]]:
    """The files of runs that were opened to be read, by name, and how often."""
    counts: Counter[str] = Counter()
    is_on = True

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_on or event != "open" or arguments[1] not in ("r", "rb"):
            return
        if isinstance(arguments[0], str | Path) and Path(arguments[0]).name in FILES:
            place = Path(arguments[0])
            counts[f"{place.parent.name}/{place.name}"] += 1

    sys.addaudithook(hear)  # there is no way to take it out again
    yield counts
    is_on = False


def test_training_reads_nothing_that_it_wrote_twice(tmp_path: Path, reads: Counter[str]) -> None:
    assert flatfed("run", "digits", "fedavg", *SMALL, "--out", tmp_path / "run").code == 0
    assert set(reads.values()) <= {1}
    assert "run/config.json" not in reads
    assert "run/history.jsonl" not in reads


@pytest.mark.parametrize("command", [["resume", "--rounds", "4"], ["show"]], ids=["resume", "show"])
def test_a_run_is_read_once(command: list[str], tmp_path: Path, reads: Counter[str]) -> None:
    assert flatfed("run", "digits", "fedavg", *SMALL, "--out", tmp_path / "run").code == 0
    reads.clear()
    name, *options = command
    assert flatfed(name, tmp_path / "run", *options).code == 0
    assert reads["run/config.json"] == 1
    assert reads["run/history.jsonl"] == 1
    assert set(reads.values()) == {1}
