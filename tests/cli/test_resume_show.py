"""`flatfed resume` and `flatfed show`: go on where it stopped, and look at any time."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import termios
from pathlib import Path

import pytest

import nursery
from cli.command import CODES, PROCESS, SMALL, fingerprint, flatfed, read_history, read_json, without_time
from flatfed.runs.directory import RunDirectory
from records import unmark


def stop_after_first_round(run: Path) -> None:
    """Leave a run as a process that was killed in its second round leaves it."""
    history = run / "history.jsonl"
    first, second = history.read_bytes().splitlines(keepends=True)[:2]
    history.write_bytes(first + second[:40])
    for checkpoint in sorted((run / "checkpoints").glob("round-*"))[1:]:
        shutil.rmtree(checkpoint)
    RunDirectory.open(run).set_status("running")


def test_an_interrupted_run_ends_as_if_it_had_not_been(run: Path) -> None:
    whole = read_history(run)
    stop_after_first_round(run)
    outcome = flatfed("resume", run)
    assert outcome.code == 0, outcome.err
    assert without_time(read_history(run)) == without_time(whole)
    assert "finished" in outcome.out


def test_a_run_goes_on_for_more_rounds(run: Path, tmp_path: Path) -> None:
    outcome = flatfed("resume", run, "--rounds", "5", "--json")
    assert outcome.code == 0, outcome.err
    assert flatfed("run", "digits", "fedsam", "--rounds", "5", *SMALL[2:], "--out", "whole").code == 0
    assert without_time(read_history(run)) == without_time(read_history(tmp_path / "whole"))
    assert outcome.json["runs"][0]["rounds"] == 5
    assert read_json(run / "results.json")["runs"][0]["rounds"] == 5


EVERY_FAMILY = (
    *("--watch", "lambda_max(most=2):1", "--watch-samples", "20", "--bernoulli", "0.5"),
    *("--set", "client_opt.rho=ramp(0.1,0.2,3)", "--set", "average.cycle=1", "--partition", "pathological"),
)
"""A measurement, a sampler, a schedule, a client optimiser, an average and a partition, each from its family."""


@pytest.mark.parametrize("command", [("resume",), ("evaluate",), ("flatness", "--measure", "loss"), ("show",)])
def test_a_fresh_process_knows_what_a_run_names(command: tuple[str, ...], tmp_path: Path) -> None:
    """In a process that has imported nothing for another reason."""
    # Per-round clients and --bernoulli exclude each other.
    options = [*SMALL[:2], "--clients", "4", "--model", "logreg", "--workers", "0", *EVERY_FAMILY]
    outcome = flatfed("run", "digits", "fedprox+asam+swa", *options, "--out", tmp_path / "all")
    assert outcome.code == 0, outcome.err
    process = nursery.start(*PROCESS[1:], command[0], str(tmp_path / "all"), *command[1:], cwd=tmp_path)
    ended = process.end()
    assert ended.returncode == 0, ended.stderr


def test_a_finished_run_is_left_alone(run: Path) -> None:
    before = (run / "history.jsonl").read_bytes()
    assert flatfed("resume", run).code == 0
    assert (run / "history.jsonl").read_bytes() == before


def test_the_report_of_a_resumed_run_still_says_what_it_is(run: Path) -> None:
    stop_after_first_round(run)
    title = (run / "report.md").read_text().splitlines()[0]
    assert flatfed("resume", run).code == 0
    assert (run / "report.md").read_text().splitlines()[0] == title


def test_an_interrupted_comparison_ends_as_if_it_had_not_been(comparison: Path) -> None:
    runs = sorted(comparison.glob("*/seed-*"))
    whole = [without_time(read_history(run)) for run in runs]
    kept = fingerprint(comparison / "fedavg")
    stop_after_first_round(comparison / "feddyn+sam" / "seed-1")
    for run in (comparison / "feddyn+sam" / "seed-2", comparison / "fedsam"):
        shutil.rmtree(run)
    outcome = flatfed("resume", comparison, "--workers", "0")
    assert outcome.code == 0, outcome.err
    assert [without_time(read_history(run)) for run in runs] == whole
    assert fingerprint(comparison / "fedavg") == kept
    assert all(record["status"] == "finished" for record in read_json(comparison / "results.json")["methods"])


@pytest.mark.usefixtures("signals_heard")
def test_control_c_on_a_terminal_says_how_to_go_on(tmp_path: Path) -> None:
    """Interrupt a real process once its bar shows that rounds were played, then resume."""
    small = ["--rounds", "2000", *SMALL[2:]]
    leader, follower = os.openpty()
    termios.tcsetwinsize(follower, (24, 100))
    command = [*PROCESS, "compare", "digits", "fedavg", "fedsam", *small, "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=follower, stderr=follower, start_new_session=True) as process:
        os.close(follower)
        text = ""
        while not re.search(r"\b[1-9]\d*/4000", text):
            text += CODES.sub("", os.read(leader, 65536).decode())
        process.send_signal(signal.SIGINT)
        try:
            while piece := os.read(leader, 65536):
                text += CODES.sub("", piece.decode())
        except OSError:  # the other end is closed
            os.close(leader)
        assert process.wait() == 130
    assert "Traceback" not in text
    assert read_json(tmp_path / "out/fedavg/seed-0/status.json")["status"] == "interrupted"
    assert read_history(tmp_path / "out/fedavg/seed-0")
    table = flatfed("show", "out")
    assert "interrupted (round " in table.out
    assert "flatfed resume out" in text


def test_show_of_several_runs_and_comparisons(run: Path, comparison: Path) -> None:
    outcome = flatfed("show", comparison / "fedavg/seed-0", comparison / "fedavg/seed-1", run, "--json")
    assert outcome.code == 0, outcome.err
    assert [(m["method"], m["seeds"]) for m in outcome.json["methods"]] == [("fedavg", [0, 1]), ("fedsam", [0])]
    every = flatfed("show", comparison, "--json").json
    assert every == read_json(comparison / "results.json") | {"runs": every["runs"]}
    assert len(every["runs"]) == 9


def test_a_run_named_twice_counts_once(run: Path, comparison: Path) -> None:
    outcome = flatfed("show", run, run, "--json")
    assert [method["seeds"] for method in outcome.json["methods"]] == [[0]]
    outcome = flatfed("show", comparison, comparison / "fedavg/seed-0", "--json")
    assert outcome.json["methods"][0]["seeds"] == [0, 1, 2]


def test_show_of_a_run_in_progress(run: Path) -> None:
    stop_after_first_round(run)
    directory = RunDirectory.open(run)
    with directory.lock():
        outcome = flatfed("show", run)
        assert outcome.code == 0, outcome.err
        assert "running (round 1)" in outcome.out
        assert flatfed("resume", run).code == 2
    assert "interrupted (round 1)" in flatfed("show", run).out


def test_show_of_a_run_that_has_no_round_yet(run: Path) -> None:
    unmark(run)
    (run / "history.jsonl").unlink()
    RunDirectory.open(run).set_status("running")
    outcome = flatfed("show", run, "--figure", "empty.png")
    assert outcome.code == 0, outcome.err
    assert "interrupted (round 0)" in outcome.out
    assert "–" in outcome.out


def test_show_of_a_comparison_that_has_only_begun(comparison: Path) -> None:
    for name in ("fedsam", "feddyn+sam"):
        shutil.rmtree(comparison / name)
    outcome = flatfed("show", comparison, "--json")
    assert [method["method"] for method in outcome.json["methods"]] == ["fedavg"]


@pytest.mark.parametrize("name", ["curves.png", "curves.svg", "CURVES.PNG", "curves.pdf"])
def test_show_draws_a_figure(name: str, comparison: Path) -> None:
    outcome = flatfed("show", comparison, "--figure", name)
    assert outcome.code == 0, outcome.err
    assert name in outcome.err
    content = Path(name).read_bytes()
    assert content.startswith((b"\x89PNG", b"%PDF")) or b"<svg" in content


def test_show_changes_nothing(comparison: Path) -> None:
    before = fingerprint(comparison)
    assert flatfed("show", comparison, "--json").code == 0
    assert fingerprint(comparison) == before
