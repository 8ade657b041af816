"""The report of a study: its files, what they say with many seeds and with few, and that they are always the same."""

from __future__ import annotations

import csv
import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flatfed.core.task.metrics import ACCURACY, LOSS
from flatfed.runs.metrics import Metric
from flatfed.studies.parts import Reporting
from flatfed.studies.reporting import write_study_report
from flatfed.studies.reporting.study_statistics import statistics_of
from flatfed.studies.results import Entry, StudyTable
from flatfed.studies.study import Study

TEXTS = {"table.md", "table.csv", "table.json", "table.tex", "statistics.json", "comparison.md", "report.json"}
FIGURES = {"forest.png", "forest.pdf", "ranks.png", "ranks.pdf"}
ACCURACY_OF_TEST, LOSS_OF_TEST = Metric("test", "accuracy", ACCURACY), Metric("test", "loss", LOSS)
METHODS = {"fedavg": "fedavg", "fed_sam": "fedsam", "ρ = 0.1": "fedsam(rho=0.1)"}
BETTER = {"fedavg": 0.0, "fed_sam": 0.02, "ρ = 0.1": -0.001}


def gained(method: str, setting: int, seed: int) -> float:
    """An accuracy that differs much by seed, and by method as `BETTER` says."""
    return 0.6 + 0.05 * setting + 0.03 * (seed % 4) + BETTER[method] + 0.001 * ((seed * 7 + len(method)) % 5)


def table_of(
    seeds: int = 8,
    settings: tuple[str, ...] = ("one class", "mild 100 %"),
    reference: str = "",
    value: Callable[[str, int, int], float] = gained,
    metric: Metric = ACCURACY_OF_TEST,
) -> StudyTable:
    study = Study(
        METHODS,
        {"dataset": "digits"},
        {setting: {} for setting in settings},
        tuple(range(seeds)),
        report=Reporting(reference=reference),
        title="Digits & more",
    )
    entries = {}
    for setting, method in study.columns():
        values = {seed: value(method, settings.index(setting), seed) for seed in study.seeds}
        entries[setting, method] = Entry(setting, method, values)
    entries[settings[0], "fed_sam"].best = True
    return StudyTable(study, entries, dict.fromkeys(settings, metric))


def report(table: StudyTable, folder: Path) -> dict[str, Any]:
    files = write_study_report(table, folder)
    assert {file.name for file in files} == {path.name for path in folder.iterdir()}
    return {file.name: file.read_bytes() for file in files}


def test_the_files_with_many_seeds(tmp_path: Path) -> None:
    files = report(table_of(), tmp_path / "new" / "folder")
    assert files.keys() == TEXTS | FIGURES
    text = files["comparison.md"].decode()
    assert text.startswith("# Differences to fedavg\n")
    assert "| one class | fed\\_sam | 8 | **+2." in text
    assert "Unit: percentage points." in text
    assert "nothing can be significant" not in text
    assert "# Ranks over settings" in text and "Friedman" in text
    assert "fed\\_sam" in files["table.tex"].decode()
    assert r"\label{tab:digits-more}" in files["table.tex"].decode()
    assert "Test accuracy in %; mean over the last rounds; mean ± sample" in files["table.md"].decode()
    rows = list(csv.DictReader(files["table.csv"].decode().splitlines()))
    assert len(rows) == 6
    assert rows[0]["setting"] == "one class"
    assert float(rows[0]["mean"]) == pytest.approx(100 * table_of().entry("one class", "fedavg").mean)  # type: ignore[operator]


def test_the_statistics_for_machines(tmp_path: Path) -> None:
    document = json.loads(report(table_of(), tmp_path)["statistics.json"])
    assert document["reference"] == "fedavg"
    assert document["warnings"] == [
        "Intervals of fewer than 10 seeds are too narrow: the true difference lies outside in clearly more than 5 % of "
        "cases."
    ]
    first = document["comparisons"][0]
    assert (first["setting"], first["method"], first["pairs"]) == ("one class", "fed_sam", 8)
    # Every one of eight differences is positive; the smallest p of four comparisons.
    assert (first["p"], first["p_holm"], first["significant"]) == (2 / 2**8, 4 * 2 / 2**8, True)
    assert first["low"] < first["mean"] < first["high"]
    assert document["ranks"]["mean_ranks"]["fed_sam"] == 1


def test_the_same_table_makes_the_same_files(tmp_path: Path) -> None:
    assert report(table_of(), tmp_path / "a") == report(table_of(), tmp_path / "b")
    assert report(table_of(), tmp_path / "a") == report(table_of(), tmp_path / "a")


def test_few_seeds_are_said_to_say_nothing(tmp_path: Path) -> None:
    files = report(table_of(seeds=3), tmp_path)
    assert files.keys() == TEXTS | FIGURES
    text = files["comparison.md"].decode()
    assert "**With 3 seeds and 4 comparisons no p below 1 is possible, so nothing can be significant at 5 %" in text
    assert "8 seeds are the fewest that can.**" in text
    assert "| 3 | +" in text and "| 3 | **" not in text


def test_one_seed_has_no_forest_and_takes_an_old_one_away(tmp_path: Path) -> None:
    report(table_of(), tmp_path)
    files = report(table_of(seeds=1), tmp_path)
    assert files.keys() == TEXTS | {"ranks.png", "ranks.pdf"}
    assert "With 1 seed and 4 comparisons" in files["comparison.md"].decode()
    assert "seed 0." in files["table.md"].decode()


def test_another_reference(tmp_path: Path) -> None:
    files = report(table_of(reference="ρ = 0.1"), tmp_path)
    assert files["comparison.md"].decode().startswith("# Differences to ρ = 0.1\n")
    assert {row["method"] for row in json.loads(files["statistics.json"])["comparisons"]} == {"fedavg", "fed_sam"}


def test_what_diverged_waits_or_failed_is_said(tmp_path: Path) -> None:
    table = table_of()
    diverged, waiting = table.entry("one class", "fed_sam"), table.entry("mild 100 %", "ρ = 0.1")
    diverged.ended[2] = "diverged"
    del diverged.values[2]
    waiting.ended[7] = "waiting"
    del waiting.values[7]
    failed = table.entry("mild 100 %", "fed_sam")
    failed.ended = dict.fromkeys(failed.values, "failed: no memory")
    failed.values = {}
    files = report(table, tmp_path)
    markdown = files["table.md"].decode()
    assert "✗" in markdown and "7 of 8 seeds" in markdown and "| failed |" in markdown
    text = files["comparison.md"].decode()
    assert "With seed 2 the method diverged: this is left out, and favours the method." in text
    assert "There is no seed that both have." in text
    assert "Left out, because a method has no value there yet: mild 100 %." in text
    assert r"\ding{55}" in files["table.tex"].decode()


def test_a_loss_is_ranked_from_below_and_has_its_own_digits(tmp_path: Path) -> None:
    files = report(table_of(metric=LOSS_OF_TEST), tmp_path)
    assert json.loads(files["statistics.json"])["ranks"]["mean_ranks"]["fed_sam"] == 3
    assert "percentage points" not in files["comparison.md"].decode()
    assert "0.6" in files["table.tex"].decode()


def test_one_setting_without_a_name(tmp_path: Path) -> None:
    files = report(table_of(settings=("",)), tmp_path)
    assert "| all | fed\\_sam | 8 |" in files["comparison.md"].decode()
    assert json.loads(files["statistics.json"])["ranks"] is None


def test_a_study_in_which_nothing_has_ended(tmp_path: Path) -> None:
    table = table_of()
    for entry in table.entries.values():
        entry.ended = dict.fromkeys(entry.values, "waiting")
        entry.values = {}
    table.metrics.clear()
    files = report(table, tmp_path)
    assert files.keys() == TEXTS
    assert "Nothing can be compared" in files["comparison.md"].decode()
    assert "Nothing measured yet" in files["table.md"].decode()


def test_one_method_alone(tmp_path: Path) -> None:
    study = Study({"fedavg": "fedavg"}, {}, seeds=(0, 1))
    entries = {("", "fedavg"): Entry("", "fedavg", {0: 0.5, 1: 0.6})}
    files = report(StudyTable(study, entries, {"": ACCURACY_OF_TEST}), tmp_path)
    assert files.keys() == TEXTS
    assert "There is no other method to compare." in files["comparison.md"].decode()


def test_without_scipy_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    load = importlib.import_module

    def missing(name: str) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return load(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    statistics = statistics_of(table_of())
    assert statistics.ranking is None
    assert statistics.warnings[-1] == (
        "There are no ranks: ranks over settings need SciPy; pip install 'flatfed[data]'."
    )
    assert all(one.p is not None and math.isfinite(one.p) for one in statistics.compared)
