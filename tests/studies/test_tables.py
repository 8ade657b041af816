"""The table of a study: means, spreads, the best, and what stands for those that have none."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed, read_history
from flatfed.core.task.metrics import ACCURACY, LOSS
from flatfed.runs.metrics import Metric
from flatfed.studies.reading import study_of
from flatfed.studies.results import Entry, StudyTable, _rank
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small

STUDY: dict[str, Any] = {
    "title": "a study",
    "methods": {"fedavg": None, "slow": "fedavg(server_lr=0.01)", "wild": "fedavg(server_lr=1e30)"},
    "settings": {"a": {}, "b": {"alpha": 100}},
    "seeds": [0, 1, 2],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "out"
    run_here(folder, **STUDY)
    return folder


def values(folder: Path, setting: str, variant: str) -> list[list[float]]:
    """Return the accuracies of each seed, read from the histories."""
    runs = [folder / "cells" / setting / variant / f"seed-{seed}" for seed in STUDY["seeds"]]
    return [[row["test_accuracy"] for row in read_history(run)] for run in runs]


@pytest.mark.parametrize("which", ["last", "final", "best", "round 1", "round 2"])
def test_mean_and_standard_deviation_of_a_sample(which: str, folder: Path) -> None:
    study = study_of(small(**STUDY, report={"accuracy": which}))
    table = RunningStudy(study, folder).table()
    pick = {
        "final": lambda rows: rows[-1],
        "best": max,
        "round 1": lambda rows: rows[0],
        "round 2": lambda rows: rows[1],
        # Of three rounds, the last tenth is one.
        "last": statistics.fmean,
    }[which]
    for setting in STUDY["settings"]:
        entry = table.entry(setting, "fedavg")
        expected = [pick(rows) for rows in values(folder, setting, "fedavg")]
        if which == "last":
            expected = [
                json.loads((folder / "cells" / setting / "fedavg" / f"seed-{seed}" / "status.json").read_text())[
                    "accuracy_last_mean"
                ]
                for seed in STUDY["seeds"]
            ]
        assert entry.mean == pytest.approx(statistics.fmean(expected), abs=1e-12)
        assert entry.spread == pytest.approx(statistics.stdev(expected), abs=1e-12)


def test_a_round_that_was_not_played_has_no_value(folder: Path) -> None:
    table = RunningStudy(study_of(small(**STUDY, report={"accuracy": "round 99"})), folder).table()
    entry = table.entry("a", "fedavg")
    assert entry.mean is None
    assert set(entry.ended.values()) == {"not evaluated"}


def test_the_table_and_json_say_the_same(folder: Path) -> None:
    shown, as_json = flatfed("study", "show", folder), flatfed("study", "show", folder, "--json")
    assert shown.code == as_json.code == 0
    by_column = {(row["setting"], row["method"]): row for row in as_json.json["rows"]}
    assert as_json.json["title"] == "a study"
    lines = shown.out.splitlines()
    assert lines[0] == "a study"
    for number, variant in enumerate(STUDY["methods"]):
        line = lines[2 + number]
        assert line.startswith(variant)
        for setting in STUDY["settings"]:
            row = by_column[setting, variant]
            if row["mean"] is not None:
                assert f"{100 * row['mean']:.2f} ± {100 * row['std']:.2f}" in line
    assert lines[4].split()[1:] == ["✗", "✗"]
    assert "over 3 seeds" in shown.out
    for setting in STUDY["settings"]:
        assert [by_column[setting, name]["best"] for name in STUDY["methods"]] == [True, False, False]
        assert [by_column[setting, name]["second"] for name in STUDY["methods"]] == [False, True, False]
        assert by_column[setting, "wild"]["without"] == dict.fromkeys("012", "diverged")


@pytest.mark.parametrize(("shown", "best", "second"), [(ACCURACY, ["c"], ["a", "b"]), (LOSS, ["a", "b"], ["c"])])
def test_best_and_second_by_the_direction_of_the_metric(shown: Any, best: list[str], second: list[str]) -> None:
    study = study_of(small(methods={"a": "fedavg", "b": "fedavg", "c": "fedavg", "d": "fedavg"}))
    entries = {("", name): Entry("", name, {0: value}) for name, value in {"a": 0.25, "b": 0.25, "c": 0.5}.items()}
    entries["", "d"] = Entry("", "d", {0: 9.0}, {1: "diverged"})
    metrics = {"": Metric("test", "x", shown)}
    _rank(study, entries, metrics)
    table = StudyTable(study, entries, metrics)
    assert [row["method"] for row in table.to_dict()["rows"] if row["best"]] == best
    assert [row["method"] for row in table.to_dict()["rows"] if row["second"]] == second


def test_one_seed_has_no_standard_deviation() -> None:
    assert Entry("", "a", {0: 1.0}).spread is None
    assert Entry("", "a", {0: 1.0, 1: 3.0}).spread == pytest.approx(2**0.5)
    assert Entry("", "a", {0: 1.0}, {1: "waiting"}).mean is None


def test_a_study_that_has_only_begun_can_be_shown(tmp_path: Path) -> None:
    running = RunningStudy(study_of(small(seeds=[0, 1])), tmp_path / "out")
    running.enter()
    before = sorted(tmp_path.rglob("*"))
    outcome = flatfed("study", "show", tmp_path / "out")
    assert outcome.code == 0
    assert "0 of 2 seeds" in outcome.out
    assert sorted(tmp_path.rglob("*")) == before
