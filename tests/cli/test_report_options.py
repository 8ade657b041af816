"""`--at`, `--target` and `--baseline` of `compare` and `show`: more columns and tables on demand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cli.command import SMALL, fingerprint, flatfed, on_terminal, read_history, read_json, refused

ASKED = ("--at", "1,3", "--target", "0.05,fedavg:final", "--baseline", "fedavg")


def test_show_adds_columns_and_tables(comparison: Path) -> None:
    before = fingerprint(comparison)
    outcome = flatfed("show", comparison, *ASKED)
    assert outcome.code == 0, outcome.err
    for words in (
        "at 1",
        "at 3",
        "points over",
        "cost to reach test accuracy 5.00 %",
        "(fedavg:final: its last-3 mean",
    ):
        assert words in outcome.out
    assert fingerprint(comparison) == before
    reported = flatfed("show", comparison, *ASKED, "--json").json
    rows = read_history(comparison / "fedsam" / "seed-1")
    [run] = [run for run in reported["runs"] if (run["method"], run["seed"]) == ("fedsam", 1)]
    assert (run["at_1"], run["at_3"]) == (rows[0]["test_accuracy"], rows[2]["test_accuracy"])
    assert len(reported["targets"]) == 6
    plain = flatfed("show", comparison, "--json").json
    assert all(record.items() <= asked.items() for record, asked in zip(plain["runs"], reported["runs"], strict=True))


@pytest.mark.parametrize("columns", [80, 160])
def test_on_a_terminal_nothing_is_cut(columns: int, comparison: Path) -> None:
    outcome = on_terminal("show", comparison, *ASKED, columns=columns)
    assert outcome.code == 0
    assert all(len(line.rstrip()) <= columns for line in outcome.out.splitlines()) and "…" not in outcome.out


def test_transmissions_of_a_method_are_its_vectors_per_round(comparison: Path) -> None:
    reported = flatfed("show", comparison, "--target", "0.0", "--json").json
    per_round = {entry["method"]: entry["transmissions"] / entry["round"] for entry in reported["targets"]}
    model = 4 * 65 * 10  # logreg on digits in float32; numbers of 8 bytes come on top
    assert per_round["fedavg"] == pytest.approx(2 + 7 * 8 / model)
    assert per_round["feddyn+sam"] == pytest.approx(2, abs=0.05)


def test_compare_writes_them_and_resume_remembers(tmp_path: Path) -> None:
    arguments = ("compare", "digits", "fedavg", "scaffold", *SMALL, "--out", "c")
    outcome = flatfed(*arguments, *ASKED)
    assert outcome.code == 0, outcome.err
    assert "cost to reach" in outcome.out
    report = (tmp_path / "c/report.md").read_text()
    assert "## Cost to reach test accuracy 5.00 %" in report and "| at 1 | at 3 |" in report
    lines = list(csv.DictReader((tmp_path / "c/results.csv").read_text().splitlines()))
    assert all(line["at_1"] and line["to_0.05_round"] == "1" and line["improvement"] for line in lines)
    reported = read_json(tmp_path / "c/results.json")["targets"]
    vectors = {entry["method"]: round(entry["transmissions"]) for entry in reported if entry["target"] == "0.05"}
    assert vectors == {"fedavg": 2, "scaffold": 4}
    (tmp_path / "c/report.md").unlink()
    assert "cost to reach" in flatfed("resume", "c").out
    assert (tmp_path / "c/report.md").read_text() == report
    again = flatfed(*arguments, "--at", "2")  # another table of the same runs
    assert again.code == 0 and "at 2" in again.out and "cost to reach" not in again.out


def test_they_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("at: [1, 3]\ntarget: [0.05, 'fedavg:best']\nbaseline: fedavg\n")
    outcome = flatfed("compare", "digits", "fedavg", *SMALL, "--config", "f.yaml", "--out", "c")
    assert outcome.code == 0, outcome.err
    assert "at 3" in outcome.out and outcome.out.count("cost to reach") == 2


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--at", "4"), ("--at 4", "3 rounds")),
        (
            ("--at", "1", "--evaluate-every", "3", "--evaluate-last", "1"),
            ("--at 1", "not evaluated", "--at 3", "divides 1"),
        ),
        (("--at", "0"), ("'0'", "5000,10000")),
        (("--at", "x"), ("'x'", "5000,10000")),
        (("--target", "75"), ("target 75", "write 0.75")),
        (("--target", "fedsam:final"), ("target fedsam:final", "'fedsam'")),
        (("--target", "fedavg:finl"), ("'finl'", "'final'")),
        (("--target", "much"), ("target much", "0.75")),
        (("--baseline", "fedavgg"), ("baseline", "'fedavg'")),
    ],
)
def test_compare_refuses_before_it_trains(options: tuple[str, ...], parts: tuple[str, ...], tmp_path: Path) -> None:
    refused(flatfed("compare", "digits", "fedavg", *SMALL, *options, "--out", "c"), *parts)
    assert not (tmp_path / "c").exists()


def test_show_tells_of_rounds_without_evaluation_and_refuses_unknown_methods(comparison: Path) -> None:
    outcome = flatfed("show", comparison, "--at", "9")
    assert outcome.code == 0 and "at 9: there is no evaluation after that round" in outcome.out
    refused(flatfed("show", comparison, "--target", "fedsm:final"), "'fedsm'", "'fedsam'")
    refused(flatfed("show", comparison, "--baseline", "fedsm"), "'fedsm'", "'fedsam'")
