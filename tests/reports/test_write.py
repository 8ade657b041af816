"""The files of a report, beside the runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flatfed.reports.results.results import collect
from flatfed.reports.tables.table import aggregates, as_csv, markdown, records
from flatfed.reports.write import write_report
from reports.disk import write_run

NAMES = {"results.csv", "results.json", "report.md", "curves.png", "curves.pdf", "curves.svg"}


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [write_run(tmp_path / f"{m}-{s}", m, s) for m in ("fedavg", "fedsam") for s in (0, 1)]


def test_every_file_is_written_and_reported(paths: list[Path], tmp_path: Path) -> None:
    files = write_report(collect(paths), tmp_path, "two methods", "flatfed compare ...")
    assert {file.name for file in files} == NAMES
    assert all(file.parent == tmp_path and file.stat().st_size for file in files)


def test_the_files_hold_the_table(paths: list[Path], tmp_path: Path) -> None:
    results = collect(paths)
    write_report(results, tmp_path, "two methods", "flatfed compare digits fedavg fedsam")
    assert (tmp_path / "results.csv").read_text() == as_csv(results)
    assert json.loads((tmp_path / "results.json").read_text()) == {
        "methods": aggregates(results),
        "runs": records(results),
    }
    report = (tmp_path / "report.md").read_text()
    assert report.startswith("# two methods\n\n    flatfed compare digits fedavg fedsam\n")
    assert markdown(results) in report
    assert "](curves.png)" in report


def test_a_single_round_is_in_the_table_and_not_drawn(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), seed=seed, accuracies=(0.2,)) for seed in (0, 1)]
    files = write_report(collect(runs), tmp_path, "one round", "flatfed run")
    assert {file.name for file in files} == {name for name in NAMES if not name.startswith("curves")}
    assert "curves" not in (tmp_path / "report.md").read_text()


def test_writing_again_replaces(paths: list[Path], tmp_path: Path) -> None:
    write_report(collect(paths), tmp_path, "four runs", "flatfed")
    write_report(collect(paths[:1]), tmp_path, "one run", "flatfed")
    assert len(json.loads((tmp_path / "results.json").read_text())["runs"]) == 1
    assert "four runs" not in (tmp_path / "report.md").read_text()


def test_a_figure_that_cannot_be_drawn_does_not_cost_the_table(paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "curves.png").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_report(collect(paths), tmp_path, "two methods", "flatfed")
    assert (tmp_path / "results.csv").exists()
