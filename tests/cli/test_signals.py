"""Signals, closed terminals and lost output: what was trained or measured is kept, and a sentence says how it ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command import PROCESS, read_history, read_json, without_time
from flatfed.runs.directory import RunDirectory
from nursery import environment

HERE = Path(__file__).parent
# More rounds than all the stops together can take: a signal that comes is never too late.
TINY = ["--rounds", "20", "--clients", "5", "--per-round", "2", "--model", "net:Net"]
RUN = ["run", "digits", "scaffold", *TINY, "--workers", "2", "--out", "run"]
QUICK = ["run", "digits", "fedavg", "--rounds", "2", "--clients", "5", "--per-round", "2", "--model", "logreg"]
QUICK += ["--workers", "0", "--out", "run"]
FLATNESS = ["flatness", "run", "--measure", "lambda_max,lpf", "--samples", "50", "--workers", "0"]
LANDSCAPE = ["landscape", "run", "--points", "3", "--samples", "50", "--workers", "0"]
ROBUSTNESS = ["robustness", "run", "--corruptions", "gaussian_noise,fog", "--workers", "0"]
BRANCH = ["branch", "run", "--rounds", "40", "--set", "average.start=0.5", "--out", "b"]
EVALUATE = ["evaluate", "run", "--workers", "0"]

Outcome = dict[str, Any]


def played(jobs: list[dict[str, Any]]) -> list[Outcome]:
    """Play the jobs one after the other in forks of one process, and return how each ended."""
    driver = [sys.executable, "-P", str(HERE / "signalled.py"), json.dumps(jobs)]
    done = subprocess.run(driver, capture_output=True, text=True, env=environment(), timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: list[Outcome] = json.loads(done.stdout)
    return outcomes


def job(folder: Path, arguments: list[str], **more: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return {"folder": str(folder), "arguments": arguments, **more}


def order(number: int | None, moment: str, rows: int = 0, run: str = "run") -> dict[str, Any]:
    return {"signal": number, "moment": moment, "rows": rows, "run": run}


def ended_cleanly(outcome: Outcome) -> None:
    """Check that a command said in a sentence that it was interrupted."""
    assert outcome["code"] == 130, outcome
    lines = outcome["err"].strip().splitlines()
    assert lines[-1].startswith("interrupted"), outcome["err"]
    assert "Traceback" not in outcome["err"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("signals")


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, Outcome]:
    """Every command of these tests, by name: one process plays them, because most of its time it imports torch."""
    stopped, whole, other = folder / "stopped", folder / "whole", folder / "other"
    frozen, closed = folder / "frozen", {"frozen": str(whole / "run"), "obeys": True}
    resume = ["resume", "run"]
    both = ["compare", "digits", "fedavg", "fedsam", *TINY, "--workers", "0", "--out", "both"]
    jobs = {
        "SIGHUP": job(stopped, RUN, order=order(signal.SIGHUP, "train", 1)),
        "SIGUSR1": job(stopped, resume, order=order(signal.SIGUSR1, "train", 2)),
        "loading": job(stopped, resume, order=order(signal.SIGTERM, "make")),
        "SIGQUIT": job(stopped, resume, order=order(signal.SIGQUIT, "train", 3)),
        "SIGTERM": job(stopped, resume, order=order(signal.SIGTERM, "train", 4)),
        "SIGINT": job(stopped, resume, order=order(signal.SIGINT, "train", 5)),
        "resumed": job(stopped, resume),
        "terminal": job(folder / "terminal", RUN, order=order(None, "train", 1), terminal=True),
        "undisturbed": job(whole, RUN, nohup=True, order=order(signal.SIGHUP, "train", 1)),
        "flatness": job(whole, FLATNESS, order=order(signal.SIGTERM, "test")),
        "landscape": job(whole, LANDSCAPE, order=order(signal.SIGUSR1, "test")),
        "robustness": job(whole, ROBUSTNESS, order=order(signal.SIGQUIT, "test")),
        "evaluate": job(whole, EVALUATE, order=order(signal.SIGHUP, "test")),
        "branch": job(whole, BRANCH, order=order(signal.SIGUSR1, "train", 0, "b")),
        "compare": job(other, both, order=order(signal.SIGHUP, "train", 1, "both/fedsam/seed-0")),
        "at the end": job(folder / "ended", [*both, "--workers", "1", "--flatness"], closing=signal.SIGTERM),
        "between": job(other, both, order=order(signal.SIGUSR1, "make", 1, "both/fedavg/seed-0")),
        "frozen, show": job(frozen, ["show", "run"], **closed),
        "frozen, flatness": job(frozen, [*FLATNESS, "--trust"], **closed),
        "frozen, landscape": job(frozen, [*LANDSCAPE, "--trust"], **closed),
        "frozen, landscape elsewhere": job(frozen, [*LANDSCAPE, "--out", "pictures", "--trust"], **closed),
        "frozen, robustness": job(frozen, [*ROBUSTNESS, "--trust"], **closed),
        "frozen, resume": job(frozen, ["resume", "run", "--trust"], **closed),
        "frozen comparison, resume": job(
            folder / "frozen comparison", ["resume", "run", "--trust"], frozen=str(other / "both"), obeys=True
        ),
        "many": job(folder / "many", [*QUICK, "--workers", "100000"]),
        "pipe": job(folder / "pipe", QUICK, out="pipe", err="pipe"),
        "full": job(folder / "full", QUICK, out="/dev/full"),
        "full log": job(folder / "log", QUICK, err="/dev/full"),
    }
    return dict(zip(jobs, played(list(jobs.values())), strict=True))


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGQUIT", "SIGTERM", "SIGINT", "branch"])
def test_every_signal_that_asks_to_stop_saves_the_run(name: str, outcomes: dict[str, Outcome]) -> None:
    ended_cleanly(outcomes[name])
    assert "saved. Continue with: flatfed resume " in outcomes[name]["err"]


def same_run(first: Path, second: Path) -> None:
    """Check that two runs came to the same bits."""
    assert without_time(read_history(first)) == without_time(read_history(second))
    newest = Path("checkpoints/round-000020/server.safetensors")
    assert (first / newest).read_bytes() == (second / newest).read_bytes()


def test_a_run_that_was_stopped_by_all_of_them_comes_to_the_same_bits(
    folder: Path, outcomes: dict[str, Outcome]
) -> None:
    assert outcomes["resumed"]["code"] == 0, outcomes["resumed"]
    same_run(folder / "stopped/run", folder / "whole/run")


def test_a_terminal_that_is_closed_ends_the_run_as_a_signal_does(folder: Path, outcomes: dict[str, Outcome]) -> None:
    assert outcomes["terminal"]["code"] == 130
    status = read_json(folder / "terminal/run/status.json")
    assert status["status"] == "interrupted"
    assert (folder / "terminal/run/checkpoints").is_dir()


def test_a_hangup_that_is_ignored_stays_ignored(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["undisturbed"]["code"] == 0, outcomes["undisturbed"]


@pytest.mark.parametrize("name", ["loading", "flatness", "landscape", "robustness", "evaluate", "compare", "between"])
def test_a_command_that_is_stopped_outside_training_says_so_in_a_sentence(
    name: str, outcomes: dict[str, Outcome]
) -> None:
    ended_cleanly(outcomes[name])


def test_what_was_compared_is_kept(folder: Path, outcomes: dict[str, Outcome]) -> None:
    ended_cleanly(outcomes["compare"])
    assert "flatfed resume both" in outcomes["compare"]["err"]
    both = folder / "other/both"
    statuses = [RunDirectory.open(both / method / "seed-0").status()["status"] for method in ("fedavg", "fedsam")]
    assert statuses == ["finished", "interrupted"]


def test_a_comparison_that_is_stopped_when_a_run_has_just_ended_does_not_go_on(
    folder: Path, outcomes: dict[str, Outcome]
) -> None:
    ended_cleanly(outcomes["at the end"])
    both = folder / "ended/both"
    assert RunDirectory.open(both / "fedavg/seed-0").status()["status"] == "finished"
    assert not (both / "fedsam").exists()
    assert not (both / "fedavg/seed-0/flatness").exists()


def test_a_killed_run_that_nobody_may_write_is_not_shown_as_running(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["frozen, show"]["code"] == 0
    assert "interrupted" in outcomes["frozen, show"]["out"]
    assert "running" not in outcomes["frozen, show"]["out"]


@pytest.mark.parametrize(("name", "help"), [("flatness", "copy"), ("landscape", "--out"), ("robustness", "copy")])
def test_a_measurement_that_could_not_be_kept_is_refused_before_it_is_taken(
    name: str, help: str, outcomes: dict[str, Outcome]
) -> None:
    outcome = outcomes[f"frozen, {name}"]
    assert outcome["code"] == 2, outcome
    last = outcome["err"].strip().splitlines()[-1]
    assert last.startswith("Error: run") and "cannot be written" in last and help in last


@pytest.mark.parametrize("name", ["frozen, resume", "frozen comparison, resume"])
def test_what_nobody_may_write_is_not_gone_on_with(name: str, outcomes: dict[str, Outcome]) -> None:
    """One sentence, before anything is said of what would be trained."""
    outcome = outcomes[name]
    assert (outcome["code"], outcome["out"]) == (2, ""), outcome
    [line] = outcome["err"].splitlines()
    assert line.startswith("Error: run cannot be written") and "go on with a copy" in line


def test_the_landscape_of_a_run_that_nobody_may_write_is_drawn_elsewhere(
    folder: Path, outcomes: dict[str, Outcome]
) -> None:
    assert outcomes["frozen, landscape elsewhere"]["code"] == 0, outcomes["frozen, landscape elsewhere"]
    assert (folder / "frozen/pictures/surface.json").exists()


def test_a_number_of_workers_that_is_a_slip_is_refused(folder: Path, outcomes: dict[str, Outcome]) -> None:
    assert outcomes["many"]["code"] == 2
    assert outcomes["many"]["err"].startswith("Error: --workers must be at most 1,024")
    assert not (folder / "many/run").exists()


@pytest.mark.parametrize(("name", "place", "code"), [("pipe", "pipe", 1), ("full", "full", 1), ("full log", "log", 0)])
def test_a_run_whose_output_is_lost_ends_well(
    name: str, place: str, code: int, folder: Path, outcomes: dict[str, Outcome]
) -> None:
    """Progress may be lost silently; a result that cannot be written is a failure, but only of the command."""
    assert outcomes[name]["code"] == code, outcomes[name]
    assert read_json(folder / place / "run/status.json")["status"] == "finished"
    assert (folder / place / "run/report.md").exists()


def test_a_result_that_cannot_be_written_is_reported(outcomes: dict[str, Outcome]) -> None:
    last = outcomes["full"]["err"].strip().splitlines()[-1]
    assert last == "Error: standard output could not be written: No space left on device"


@pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), (">&-", 1)])
def test_a_stream_that_is_closed_from_the_start_harms_nothing(closed: str, code: int, tmp_path: Path) -> None:
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *PROCESS, *QUICK]
    done = subprocess.run(shell, capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False)
    assert done.returncode == code, done.stderr
    assert read_json(tmp_path / "run/status.json")["status"] == "finished"
    assert len(read_history(tmp_path / "run")) == 2
    if code:
        assert "standard output could not be written" in done.stderr
    else:
        assert "finished" in done.stdout
        assert "round 2/2" not in done.stdout
