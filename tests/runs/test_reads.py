"""How often a command reads the files of a run: each once at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import SMALL, flatfed

FILES = ("config.json", "history.jsonl", "status.json", "environment.json", "comparison.json")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The files of runs that were read, by name, and how often."""
    counts: Counter[str] = Counter()
    reading: list[Path] = []  # one way of reading may be made of another
    for name in ("read_bytes", "read_text", "open"):
        plain = getattr(Path, name)

        def counted(path: Path, *args: object, plain: object = plain, **options: object) -> object:
            is_read = not args or args[0] in ("r", "rb")
            if path.name in FILES and is_read and not reading:
                counts[f"{path.parent.name}/{path.name}"] += 1
            reading.append(path)
            try:
                return plain(path, *args, **options)  # type: ignore[operator]
            finally:
                reading.pop()

        monkeypatch.setattr(Path, name, counted)
    yield counts


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
