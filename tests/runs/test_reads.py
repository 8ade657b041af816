"""How often a command opens the records of a run to read them: each once, where one reading will do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.command import SMALL, flatfed
from flatfed.experiments.comparing.opened import OpenedRuns
from flatfed.runs.directory import RunDirectory
from runs.bench import in_new_process

COUNTED = """
import collections, json, os, sys
from pathlib import Path

report, home, *command = sys.argv[1:]
process, counts = os.getpid(), collections.Counter()

def hear(event, arguments):
    if event != "open" or os.getpid() != process or not isinstance(arguments[0], str | os.PathLike):
        return
    path, mode, flags = Path(arguments[0]), arguments[1], arguments[2]
    reads = mode in ("r", "rb") if mode is not None else flags & os.O_ACCMODE == os.O_RDONLY
    if reads and path.suffix in (".json", ".jsonl") and path.is_relative_to(home):
        counts[str(path.relative_to(home))] += 1

sys.addaudithook(hear)
from flatfed.cli.main import main

try:
    main(command)
finally:
    Path(report).write_text(json.dumps(counts))
"""
"""A command in a process of its own, which writes down the records below a folder that it opens to read."""

RECORDS = ("config.json", "status.json", "history.jsonl", "comparison.json")
METHODS = ("fedavg", "feddyn")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and a comparison, both finished."""
    home = tmp_path_factory.mktemp("reads")
    assert flatfed("run", "digits", "feddyn", *SMALL, "--out", home / "run").code == 0
    compared = ("--seeds", "0,1", "--flatness", *SMALL, "--out", home / "both")
    assert flatfed("compare", "digits", *METHODS, *compared).code == 0
    return home


@pytest.fixture
def home(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "home"))


def reads(home: Path, *command: object) -> dict[str, int]:
    """Run a command in a process of its own; return how often it opened each record."""
    report = home.parent / "report.json"
    done = in_new_process("-c", COUNTED, str(report), str(home), *map(str, command))
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(report.read_text())
    return counts


def of_records(counts: dict[str, int]) -> dict[str, int]:
    return {path: count for path, count in counts.items() if Path(path).name in RECORDS}


def once(*paths: str) -> dict[str, int]:
    return dict.fromkeys(paths, 1)


def records(run: str) -> tuple[str, str, str]:
    return f"{run}/config.json", f"{run}/status.json", f"{run}/history.jsonl"


def records_of_both() -> list[str]:
    runs = [f"both/{method}/seed-{seed}" for method in METHODS for seed in (0, 1)]
    return [path for run in runs for path in records(run)]


def test_training_reads_no_record_that_it_wrote(tmp_path: Path) -> None:
    counts = reads(tmp_path, "run", "digits", "feddyn", *SMALL, "--out", tmp_path / "run")
    assert of_records(counts) == {}
    assert not any(path.endswith("checkpoint.json") for path in counts), "what it saved is known"


def test_comparing_reads_each_run_once(tmp_path: Path) -> None:
    compared = ("--seeds", "0,1", "--flatness", *SMALL, "--out", tmp_path / "both")
    counts = reads(tmp_path, "compare", "digits", *METHODS, *compared)
    assert of_records(counts) == once(*records_of_both())


@pytest.mark.parametrize(
    "command",
    [
        ("show", "run"),
        ("evaluate", "run", "--workers", "0"),
        ("flatness", "run", "--measure", "loss", "--workers", "0"),
        ("robustness", "run", "--corruptions", "brightness", "--workers", "0"),
    ],
    ids=lambda command: command[0],
)
def test_a_run(command: tuple[str, ...], home: Path) -> None:
    name, path, *options = command
    counts = reads(home, name, home / path, *options)
    assert of_records(counts) == once(*records("run"))


def test_a_run_that_goes_on(home: Path) -> None:
    """How it stood is asked once, as more rounds go past what ended it early; its end is what this process wrote."""
    counts = reads(home, "resume", home / "run", "--rounds", "5")
    assert of_records(counts) == once("run/config.json", "run/history.jsonl", "run/status.json")
    checkpoints = [count for path, count in counts.items() if path.endswith("checkpoint.json")]
    assert set(checkpoints) == {1}, "one that was loaded or saved is known"


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("flatness", "--measure", "loss", "--workers", "0"),
        ("robustness", "--corruptions", "brightness", "--workers", "0"),
    ],
    ids=lambda command: command[0],
)
def test_a_comparison(command: tuple[str, ...], home: Path) -> None:
    name, *options = command
    counts = reads(home, name, home / "both", *options)
    assert of_records(counts) == once("both/comparison.json", *records_of_both())


@pytest.mark.parametrize("is_measured", [True, False], ids=["measured", "to be measured"])
def test_a_comparison_that_is_finished(is_measured: bool, home: Path) -> None:
    """What is compared is read once more, before it may be written: another command may have renewed it."""
    if not is_measured:
        shutil.rmtree(home / "both/fedavg/seed-0/flatness")
    counts = reads(home, "resume", home / "both")
    assert of_records(counts) == once(*records_of_both()) | {"both/comparison.json": 2}


def test_a_comparison_that_goes_on(home: Path) -> None:
    """One run was interrupted, one has not begun."""
    RunDirectory.open(home / "both/fedavg/seed-0").set_status("interrupted")
    shutil.rmtree(home / "both/feddyn/seed-1")
    counts = reads(home, "resume", home / "both")
    assert of_records(counts) == once(*records_of_both()) | {"both/comparison.json": 2}


def test_a_run_that_another_process_continued_is_read_again(home: Path) -> None:
    opened, path = OpenedRuns(), home / "run"
    before = opened.at(path)
    assert len(before.rows) == 3
    assert opened.at(path) is before
    reads(home, "resume", path, "--rounds", "4")
    after = opened.at(path)
    assert after.config["settings"]["rounds"] == 4
    assert len(after.rows) == 4
    assert len(before.rows) == 3, "what was seen stays as it was"
