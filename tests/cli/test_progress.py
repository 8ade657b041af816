"""Progress: a live bar on a terminal, plain lines elsewhere; and tables that fit the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.progress import Progress as Bar

from cli.command import CODES, COMPARED, SMALL, flatfed, on_terminal, read_json
from flatfed.cli.output.progress import clock


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (0.4, "0:00"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599.7, "1:00:00"),
        (90061, "25:01:01"),
    ],
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_plain_lines_away_from_a_terminal() -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--out", "out")
    last = next(line for line in outcome.err.splitlines() if "round 3/3" in line)
    assert re.fullmatch(r"out: round 3/3, accuracy \d+\.\d %, \d:\d\d left", last)
    assert not CODES.search(outcome.err) and "\r" not in outcome.err


def test_plain_lines_of_a_comparison() -> None:
    outcome = flatfed("compare", "digits", "fedavg", "fedsam", "--seeds", "0,1", *SMALL, "--out", "out")
    ends = [line for line in outcome.err.splitlines() if "round 3/3" in line]
    assert [line.partition(":")[0] for line in ends] == [
        "fedavg/seed-0 [1/4]",
        "fedavg/seed-1 [2/4]",
        "fedsam/seed-0 [3/4]",
        "fedsam/seed-1 [4/4]",
    ]


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_a_live_bar_on_a_terminal(columns: int, tmp_path: Path) -> None:
    outcome = on_terminal("compare", "digits", "fedavg", "scaffold+asam+swa", *SMALL, "--out", "out", columns=columns)
    assert outcome.code == 0, outcome.err
    drawn = [line for line in re.split(r"[\r\n]+", outcome.err) if "rounds" in line]
    assert drawn
    assert all(len(line) <= columns for line in drawn)
    last = drawn[-1]
    assert "scaffold+asam+swa/seed-0" in last
    assert "6/6 rounds" in last
    assert re.search(r"\d+\.\d %", last)
    assert re.search(r"\d:\d\d left", last)
    assert "round 3/3" not in outcome.err
    [end] = [m for m in read_json(tmp_path / "out/results.json")["methods"] if m["method"] == "scaffold+asam+swa"]
    assert f"{100 * end['accuracy_final']:.1f} %" in last


def test_the_bar_says_what_the_percentage_is() -> None:
    outcome = on_terminal("run", "digits", "fedavg", *SMALL, "--out", "out", columns=100)
    drawn = [line for line in re.split(r"[\r\n]+", outcome.err) if "rounds" in line]
    assert re.search(r"acc\w* \d+\.\d %", drawn[-1])


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_no_figure_of_the_table_is_cut_off(columns: int, comparison: Path) -> None:
    outcome = on_terminal("show", comparison, "--wide", columns=columns)
    assert outcome.code == 0
    assert all(len(line.rstrip()) <= columns for line in outcome.out.splitlines())
    assert "…" not in outcome.out
    for record in read_json(comparison / "results.json")["methods"]:
        assert record["method"] in outcome.out
        assert f"{100 * record['accuracy_final']:.2f}" in outcome.out
        assert f"{record['backprops']:,.0f}" in outcome.out
    assert outcome.out.count("finished") == len(COMPARED)


def test_json_on_a_terminal_is_still_json(comparison: Path) -> None:
    assert on_terminal("show", comparison, "--json").json["methods"]


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
def test_a_terminal_has_one_table_with_the_columns_that_fit(columns: int, comparison: Path) -> None:
    outcome = on_terminal("show", comparison, columns=columns)
    assert all(len(line.rstrip()) <= columns for line in outcome.out.splitlines())
    assert len(re.findall(r"^ +method ", outcome.out, re.MULTILINE)) == 1
    assert "last-3 mean" in outcome.out
    assert ("--wide" in outcome.out) == (columns < 200)
    assert ("s/client" in re.split(r"─+", outcome.out)[0]) == (columns == 200)


def test_what_is_no_terminal_gets_every_column(comparison: Path) -> None:
    outcome = flatfed("show", comparison)
    assert "s/client" in outcome.out and "--wide" not in outcome.out


@pytest.mark.parametrize("columns", [80, 120])
def test_algorithms_are_listed_without_broken_words(columns: int) -> None:
    outcome = on_terminal("list", "algorithms", columns=columns)
    assert all(len(line) <= columns for line in outcome.out.splitlines())
    [first] = [line for line in outcome.out.splitlines() if line.startswith("fedavg ")]
    words = " ".join(outcome.out.split())
    assert "Accelerated client gradient: the lookahead model goes down, at no extra traffic." in words
    assert ("Federated averaging." in first) == (columns == 120)


@pytest.fixture
def every_step_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step be heard of, and draw the bar with it: otherwise both wait for their time to come."""
    update = Bar.update
    monkeypatch.setattr("flatfed.core.round.step_count.HEAR_SECONDS", 0.0)
    monkeypatch.setattr(Bar, "update", lambda bar, task, **fields: update(bar, task, **fields | {"refresh": True}))


@pytest.mark.usefixtures("every_step_is_drawn")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_time_left_is_told_before_the_first_round_ends(workers: str) -> None:
    small = ("--rounds", "2", "--clients", "2", "--per-round", "2", "--workers", workers, "--model", "logreg")
    outcome = on_terminal("run", "digits", "fedavg", *small, "--no-vectorised", "--out", "out", columns=100)
    assert outcome.code == 0, outcome.err
    drawn = [line for line in re.split(r"[\r\n]+", outcome.err) if "rounds" in line]
    assert any(re.search(r" 0/2 rounds .*\d:\d\d left", line) for line in drawn), drawn


def test_a_terminal_sees_what_is_waited_for_and_where_the_report_lies() -> None:
    outcome = on_terminal("compare", "digits", "fedavg", *SMALL, "--out", "out", columns=100)
    assert "loading digits" in outcome.err and "starting workers" in outcome.err
    assert outcome.err.rstrip().endswith("report: out/report.md")


def test_a_pipe_is_told_little() -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--out", "out")
    assert "loading" not in outcome.err and "starting" not in outcome.err
    assert len(outcome.err.splitlines()) < 20


def test_the_flatness_of_a_comparison_says_which_model() -> None:
    options = ("--flatness", "--watch-samples", "50", "--out", "out")
    outcome = on_terminal("compare", "digits", "fedavg", "fedsam", *SMALL, *options, columns=120)
    assert outcome.code == 0, outcome.err
    assert re.search(r"flatness of fedavg/seed-0.* 0/2 runs", outcome.err)
    assert re.search(r"flatness of fedsam/seed-0.* 1/2 runs", outcome.err)
