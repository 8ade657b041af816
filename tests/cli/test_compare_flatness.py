"""`flatfed compare --flatness`: λmax, λmax/λ5 and LPF beside the accuracies, in every form of the table."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flatfed as ff
from cli.command import SMALL, fingerprint, flatfed, on_terminal, read_json
from flatfed.core.round.federation import TIMES
from flatfed.experiments.measuring import flatness as measuring
from flatfed.experiments.measuring import laboratory as opening
from flatfed.reports.tables.columns import COST_HEADINGS

METHODS = ("fedavg", "fedsam", "fedavgm")
DIVERGES = ("--set", "fedavgm:server_lr=1e38")
COMMAND = ("compare", "digits", *METHODS, *DIVERGES, "--seeds", "0,1", *SMALL, "--watch-samples", "100")
COLUMNS = {"lambda_max": "λmax", "lambda_ratio": "λmax/λ5", "lpf": "LPF"}
PLAIN = ["method", "final", "last-3 mean", "best", *COST_HEADINGS, "s/client", "status"]
RECORD = ["method", "seed", "rounds", "accuracy_final", "accuracy_last_mean", "last_count", "accuracy_best"]
RECORD += ["test_loss_final", "bytes_down", "bytes_up", "backprops", *TIMES, "rejected", "status", "reason", "path"]


@pytest.fixture(scope="module")
def _flat(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("flat") / "out"
    outcome = flatfed(*COMMAND, "--flatness", "--out", out)
    assert outcome.code == 0, outcome.err
    return out, outcome.out


@pytest.fixture
def flat(_flat: tuple[Path, str], tmp_path: Path) -> Path:
    """A comparison with flatness of two methods and of one that diverges; a copy for each test."""
    return Path(shutil.copytree(_flat[0], tmp_path / "flat"))


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("measured again")


def results(comparison: Path, method: str, seed: int) -> dict[str, float]:
    """Return what a laboratory finds in a run over the same examples."""
    with ff.laboratory(comparison / method / f"seed-{seed}", samples=100, workers=0) as lab:
        actual = lab.measure("lambda_ratio", "lpf")
    return {name: value for result in actual.values() for name, value in result.numbers.items() if name in COLUMNS}


def markdown(comparison: Path) -> dict[str, dict[str, str]]:
    """Return the table of the report: cells by method and heading."""
    lines = [line for line in (comparison / "report.md").read_text("utf-8").splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def test_every_form_of_the_table_has_the_columns(flat: Path, _flat: tuple[Path, str]) -> None:
    table = markdown(flat)
    assert list(table["fedavg"]) == [*PLAIN[:4], *COLUMNS.values(), *PLAIN[4:]]
    records = {
        (line["method"], int(line["seed"])): line
        for line in csv.DictReader(io.StringIO((flat / "results.csv").read_text()))
    }
    methods = {record["method"]: record for record in read_json(flat / "results.json")["methods"]}
    runs = read_json(flat / "results.json")["runs"]
    for method in METHODS[:2]:
        actual = [results(flat, method, seed) for seed in (0, 1)]
        for name, heading in COLUMNS.items():
            values = [one[name] for one in actual]
            mean, deviation = np.mean(values), np.std(values, ddof=1)
            assert table[method][heading] == f"{mean:.4g} ± {deviation:.2g}"
            assert table[method][heading] in _flat[1]
            assert heading in _flat[1]
            assert methods[method][name] == pytest.approx(mean)
            assert methods[method][f"{name}_std"] == pytest.approx(deviation)
            assert [float(records[method, seed][name]) for seed in (0, 1)] == values
            assert [run[name] for run in runs if run["method"] == method] == values
    assert "λ and LPF over at most 100 training examples" in (flat / "report.md").read_text("utf-8")
    assert "at most 100 training examples" in " ".join(_flat[1].split())


def test_a_method_that_diverged_has_dashes(flat: Path) -> None:
    table = markdown(flat)["fedavgm"]
    assert [table[heading] for heading in COLUMNS.values()] == ["–"] * 3
    assert table["status"].startswith("2 of 2 diverged")
    [record] = [record for record in read_json(flat / "results.json")["methods"] if record["method"] == "fedavgm"]
    assert [record[name] for name in COLUMNS] == [None] * 3
    rows = list(csv.DictReader(io.StringIO((flat / "results.csv").read_text())))
    assert [[row[name] for name in COLUMNS] for row in rows[4:]] == [["", "", ""]] * 2
    assert not (flat / "fedavgm" / "seed-0" / "flatness").exists()


def test_a_comparison_without_it_has_the_columns_of_old(comparison: Path) -> None:
    table = markdown(comparison)
    assert list(table["fedavg"]) == PLAIN
    [head] = [line for line in flatfed("show", comparison).out.splitlines() if "method" in line][:1]
    assert head.split() == " ".join(PLAIN).split()
    head_of_csv = (comparison / "results.csv").read_text().partition("\n")[0]
    assert head_of_csv.split(",") == RECORD
    actual = read_json(comparison / "results.json")
    assert all(list(record) == RECORD for record in actual["runs"])
    assert not any(name.startswith(("lambda", "lpf")) for record in actual["methods"] for name in record)
    assert "LPF" not in (comparison / "report.md").read_text("utf-8")


def test_show_has_the_columns(flat: Path) -> None:
    outcome = flatfed("show", flat)
    cells = markdown(flat)
    for method in METHODS[:2]:
        assert all(cells[method][heading] in outcome.out for heading in COLUMNS.values())
    assert all(heading in outcome.out for heading in COLUMNS.values())
    actual, written = flatfed("show", flat, "--json").json, read_json(flat / "results.json")
    assert actual["methods"] == written["methods"]
    [one] = flatfed("show", flat / "fedsam" / "seed-1", "--json").json["methods"]
    assert one["lambda_max"] == results(flat, "fedsam", 1)["lambda_max"]


@pytest.mark.parametrize("columns", [80, 100, 120, 160])
def test_no_cell_is_cut_off_on_a_terminal(columns: int, flat: Path) -> None:
    text = on_terminal("show", flat, "--wide", columns=columns).out
    lines = text.splitlines()
    assert all(len(line.rstrip()) <= columns for line in lines)
    assert "…" not in text
    for method, cells in markdown(flat).items():
        if cells["final"] != "–":
            assert any(line.split()[0] == method for line in lines if cells["final"] in line), "names are whole"
        for heading in ("final", "best", *COLUMNS.values(), "down", "up"):
            assert cells[heading] in text, heading


def test_a_second_call_measures_nothing(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: digest for name, digest in fingerprint(flat).items() if "seed-" in name}
    monkeypatch.setattr(opening, "Subject", never)
    outcome = flatfed(*COMMAND, "--flatness", "--out", flat)
    assert outcome.code == 0, outcome.err
    assert "λmax" in outcome.out
    after = fingerprint(flat)
    assert {name: after[name] for name in before} == before
    assert flatfed("resume", flat).code == 0


def test_resuming_measures_what_was_not(flat: Path) -> None:
    expected = read_json(flat / "results.json")["methods"][:2]
    for method in METHODS[:2]:
        shutil.rmtree(flat / method / "seed-1")
        shutil.rmtree(flat / method / "seed-0" / "flatness")
    outcome = flatfed("resume", flat, "--workers", 0)
    assert outcome.code == 0, outcome.err
    actual = read_json(flat / "results.json")["methods"][:2]
    for one, other in zip(actual, expected, strict=True):
        assert {name: one[name] for name in COLUMNS} == {name: other[name] for name in COLUMNS}


def test_a_run_that_cannot_be_measured_is_reported_of_and_the_others_are(flat: Path) -> None:
    shutil.rmtree(flat / "fedavg" / "seed-0" / "checkpoints")
    shutil.rmtree(flat / "fedsam" / "seed-1" / "flatness")
    outcome = flatfed("resume", flat)
    assert outcome.code == 0
    assert f"{flat}/fedavg/seed-0: its flatness could not be measured: " in outcome.err
    assert (flat / "fedsam" / "seed-1" / "flatness" / "results.json").is_file()
    assert "±" in markdown(flat)["fedsam"]["λmax"]


def test_an_interruption_while_it_measures(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for method in METHODS[:2]:
        for seed in (0, 1):
            shutil.rmtree(flat / method / f"seed-{seed}" / "flatness")
    plain, opened = measuring.laboratory, list[Any]()

    def stop(path: Path, **given: Any) -> Any:
        opened.append(path)
        if len(opened) == 3:
            raise KeyboardInterrupt
        return plain(path, **given)

    monkeypatch.setattr(measuring, "laboratory", stop)
    outcome = flatfed("resume", flat)
    assert outcome.code == 130
    assert "interrupted while measuring" in outcome.err
    monkeypatch.setattr(measuring, "laboratory", plain)
    table = markdown(flat)
    assert flatfed(*COMMAND, "--flatness", "--out", flat).code == 0
    assert {m: [row[h] for h in COLUMNS.values()] for m, row in markdown(flat).items()} == {
        m: [row[h] for h in COLUMNS.values()] for m, row in table.items()
    }


def test_flatness_may_be_asked_for_later(comparison: Path) -> None:
    methods = ("fedavg", "feddyn+sam", "fedsam")
    command = ("compare", "digits", *methods, "--seeds", "0,1,2", *SMALL, "--out", comparison)
    assert flatfed(*command).code == 0
    assert list(markdown(comparison)["fedavg"]) == PLAIN
    assert flatfed(*command, "--flatness").code == 0
    assert "λmax" in markdown(comparison)["fedavg"]


def test_all_examples_and_the_number_that_is_reported() -> None:
    command = ("compare", "digits", "fedavg", *SMALL, "--flatness", "--watch-samples", "all", "--out", "out")
    outcome = flatfed(*command)
    assert outcome.code == 0, outcome.err
    assert "λ and LPF over all training examples" in " ".join(outcome.out.split())
    with ff.laboratory("out/fedavg/seed-0") as lab:
        assert lab.measure("lpf")["lpf"].numbers["lpf"] == read_json(Path("out/results.json"))["methods"][0]["lpf"]


# --- what else was measured of the runs ---------------------------------------------------------------------


def columns_of(comparison: Path) -> list[list[float | None]]:
    methods = flatfed("show", comparison, "--json").json["methods"]
    return [[method[name] for name in COLUMNS] for method in methods]


def test_the_caption_is_not_that_of_something_else(flat: Path) -> None:
    """What is read later over other examples does not change over which examples λ and LPF were taken."""
    runs = [flat / method / f"seed-{seed}" for method in METHODS[:2] for seed in (0, 1)]
    before = columns_of(flat)
    assert flatfed("flatness", *runs, "--measure", "parameter_norm").code == 0
    assert columns_of(flat) == before
    said = " ".join(flatfed("show", flat).out.split())
    assert "at most 100 training examples" in said
    assert "over all training examples" not in said


@pytest.mark.parametrize("measure", ["lpf(sigma=0.5)", "lambda_max(mode=power)", "lpf(samples=2)"])
def test_a_column_does_not_mix_ways_of_measuring(measure: str, flat: Path) -> None:
    """LPF under another noise, of one run alone, must not stand beside the others' as if it were the same."""
    before = columns_of(flat)
    run = flat / "fedavg" / "seed-0"
    assert flatfed("flatness", run, "--measure", measure, "--samples", 100).code == 0
    assert columns_of(flat) == before


@pytest.mark.parametrize("options", [(), ("--samples", "100", "--seed", "5")], ids=["all", "another draw"])
def test_a_column_does_not_mix_examples_without_a_word(options: tuple[str, ...], flat: Path) -> None:
    before = columns_of(flat)
    assert flatfed("flatness", flat / "fedavg" / "seed-0", "--measure", "lambda_ratio,lpf", *options).code == 0
    said = " ".join(flatfed("show", flat).out.split())
    assert columns_of(flat) == before or "which cannot be compared" in said


def test_other_rounds_models_and_test_sets_are_no_part_of_the_table(comparison: Path) -> None:
    run = comparison / "fedavg" / "seed-0"
    before = flatfed("show", run).out
    for options in (("--data", "test"), ("--weights", "global"), ("--data", "client 1")):
        assert flatfed("flatness", run, "--measure", "lpf(samples=2)", *options).code == 0
    assert flatfed("show", run).out == before
    assert flatfed("flatness", run, "--measure", "lpf").code == 0
    assert "LPF" in flatfed("show", run).out
    assert flatfed("resume", run, "--rounds", 4).code == 0
    assert "LPF" not in flatfed("show", run).out


def test_damaged_readings_are_named(flat: Path) -> None:
    file = flat / "fedavg" / "seed-0" / "flatness" / "results.json"
    file.write_text(json.dumps({"format": 1, "results": [{"key": 3, "result": {}}]}))
    outcome = flatfed("show", flat)
    assert outcome.code == 2
    assert str(file) in outcome.err and "Traceback" not in outcome.err


def test_every_cell_reads_back_from_csv(flat: Path) -> None:
    text = (flat / "results.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["flatness_over"] for row in rows[:4]} == {"at most 100 training examples"}
    assert all(len(row) == len(rows[0]) and None not in row for row in rows)
