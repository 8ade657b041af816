"""`flatfed branch`: SWA on top of a run that was trained without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import SMALL, fingerprint, flatfed, read_history, read_json, refused, without_time

OPTIONS = (*SMALL, "--rounds", 8)
CYCLE = ("--set", "average.cycle=2", "--set", "average.start=0.5")


@pytest.fixture
def source(apart: Path) -> Path:
    outcome = flatfed("run", "digits", "fedavg", *OPTIONS, "--keep-checkpoints", "2,4", "--out", "source")
    assert outcome.code == 0, outcome.err
    return apart / "source"


def test_a_branch_is_the_run_with_swa(source: Path) -> None:
    before = fingerprint(source)
    outcome = flatfed("branch", source, "--average", "swa", *CYCLE, "--out", "branch", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["methods"][0]["method"] == "fedavg+swa"
    flatfed("run", "digits", "fedavg+swa", *OPTIONS, *CYCLE, "--keep-checkpoints", "2,4", "--out", "whole")
    assert without_time(read_history(Path("branch"))) == without_time(read_history(Path("whole")))
    ours, theirs = (read_json(Path(name) / "config.json") for name in ("branch", "whole"))
    assert {n for n in theirs if ours[n] != theirs[n]} <= {"run", "about", "seal"}
    assert ours["about"]["title"] == theirs["about"]["title"]
    assert ours["about"]["command"].startswith("flatfed")
    assert read_json(Path("branch/branch.json"))["round"] == 4
    summary, _, progress = outcome.err.partition("writes to  branch\n")
    assert "fedavg+swa: server_lr=1, client_opt=sgd" in " ".join(summary.split())
    assert progress.startswith("branch: round 4/8\n")
    assert fingerprint(source) == before
    assert flatfed("resume", "branch").code == 0


def test_longer_and_from_another_round(source: Path) -> None:
    outcome = flatfed("branch", source, *CYCLE, "--from", 2, "--rounds", 10, "--workers", 0)
    assert outcome.code == 0, outcome.err
    out = Path("runs/source-swa-001")
    assert read_json(out / "branch.json")["round"] == 2
    assert [row["round"] for row in read_history(out)] == list(range(10))
    assert read_json(out / "config.json")["settings"]["rounds"] == 10


def test_mistakes_are_reported_in_a_sentence(source: Path) -> None:
    refused(flatfed("branch", source, "--average", "swaa"), "unknown average 'swaa'", "'swa'")
    refused(flatfed("branch", source, "--average", "wima"), "wima begins in the first round", "train fedavg+wima")
    refused(flatfed("branch", source, "--set", "cycle=2"), "--set cycle: only the average can be set", "average.cycle")
    refused(flatfed("branch", source, "--set", "average.cycles=2"), "swa", "'cycle'")
    refused(flatfed("branch", source, "--from", 4, "--set", "average.start=0.25"), "swa begins after 2 rounds of 8")
    refused(flatfed("branch", source, "--set", "average.start=0.1"), "--keep-checkpoints 1", "2, 4, 7, 8")
    twice = ("--set", "average.cycle=1", "--set", "average.cycle=2")
    refused(flatfed("branch", source, *twice), "--set average.cycle is given twice")
    refused(flatfed("branch", source, "--out", "source"), "source already holds a run")
    refused(flatfed("branch", "nowhere"), "nowhere is not a run directory")
    assert not Path("runs").exists()
