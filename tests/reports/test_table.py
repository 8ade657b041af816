"""The table: numbers as people read them, and the same figures as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flatfed.flatness.measurements import Measurement
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from flatfed.reports.tables.columns import columns, measured
from flatfed.reports.tables.grid import megabytes, percent
from flatfed.reports.tables.grid import number as plain
from flatfed.reports.tables.table import (
    aggregates,
    as_csv,
    caption,
    cells,
    headings,
    markdown,
    notes,
    records,
    terminal_tables,
)
from flatfed.runs.results import KeptResults
from records import rewrite
from reports.disk import write_run


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    """One method over two seeds, and one that diverged."""
    return collect(
        [
            write_run(tmp_path / "a0", accuracies=(0.2, 0.6, 0.5)),
            write_run(tmp_path / "a1", seed=1, accuracies=(0.3, 0.7, 0.9)),
            write_run(
                tmp_path / "b0", "feddyn+sam", accuracies=(0.1,), status="diverged", reason="not finite", rounds=3
            ),
        ]
    )


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (None, "–"),
        ((0.5, None), "50.00"),
        ((0.123456, 0.0), "12.35 ± 0.00"),
        ((1.0, 0.01), "100.00 ± 1.00"),
        ((0.0, None), "0.00"),
    ],
)
def test_percent(spread: tuple[float, float | None] | None, text: str) -> None:
    assert percent(spread) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1499, "1.5 kB"),
        (999_990, "1.0 MB"),
        (1_000_000, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (2.5e9, "2.5 GB"),
        (1.5e12, "1.5 TB"),
    ],
)
def test_megabytes(count: float, text: str) -> None:
    assert megabytes(count) == text


def test_a_line_of_the_table(results: list[Result]) -> None:
    fedavg, feddyn = results
    accuracies = ["70.00 ± 28.28", "67.50 ± 17.68", "75.00 ± 21.21"]
    assert cells(fedavg) == ["fedavg", *accuracies, "3.0 MB", "6.0 MB", "120", "1.5", "finished"]
    assert cells(feddyn) == ["feddyn+sam", "–", "–", "–", "1.0 MB", "2.0 MB", "40", "0.5", "diverged (round 1)"]


def test_the_heading_names_the_rounds_behind_the_mean(results: list[Result]) -> None:
    assert headings(results)[2] == "last-2 mean"


def test_the_heading_of_diverged_runs_alone(results: list[Result]) -> None:
    assert "last-0" not in headings(results[1:])[2]


def test_runs_with_other_means_are_not_passed_off_as_one(tmp_path: Path) -> None:
    two = write_run(tmp_path / "a", "fedavg", evaluate_last=2)
    three = write_run(tmp_path / "b", "fedsam", evaluate_last=3)
    heading = headings(collect([two, three]))[2]
    assert heading not in ("last-2 mean", "last-3 mean")


def test_the_caption_of_one_seed(tmp_path: Path) -> None:
    assert "seed 7;" in caption(collect([write_run(tmp_path / "a", seed=7)]))


def test_the_caption_of_several_seeds(results: list[Result]) -> None:
    assert "mean ± sample standard deviation over seeds 0, 1;" in caption(results)


def test_the_caption_of_methods_that_do_not_share_their_seeds(tmp_path: Path) -> None:
    text = caption(collect([write_run(tmp_path / "a", "fedavg", seed=0), write_run(tmp_path / "b", "fedsam", seed=1)]))
    assert "standard deviation" not in text


def test_markdown_reads_back(results: list[Result]) -> None:
    lines = markdown(results).splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert table[0] == headings(results)
    assert table[2:] == [cells(result) for result in results]
    assert {len(row) for row in table} == {len(table[0])}
    assert caption(results) in lines[-1]


def test_csv_reads_back(results: list[Result]) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert [(line["method"], line["seed"], line["status"]) for line in lines] == [
        ("fedavg", "0", "finished"),
        ("fedavg", "1", "finished"),
        ("feddyn+sam", "0", "diverged"),
    ]
    for line, record in zip(lines, records(results), strict=True):
        assert float(line["accuracy_final"]) == record["accuracy_final"]
        assert int(line["bytes_up"]) == record["bytes_up"]


def test_a_reason_with_commas_and_quotes_stays_one_cell(tmp_path: Path) -> None:
    reason = 'client 3: "w", not finite\nafter 2 tries'
    results = collect([write_run(tmp_path / "a", status="stopped", reason=reason)])
    [line] = csv.DictReader(io.StringIO(as_csv(results), newline=""))
    assert line["reason"] == reason


def test_the_csv_of_nothing_has_a_head() -> None:
    assert as_csv([]) == "method\n"


def test_aggregates(results: list[Result]) -> None:
    fedavg, feddyn = aggregates(results)
    assert fedavg["accuracy_final"] == pytest.approx(0.7)
    assert fedavg["accuracy_final_std"] == pytest.approx(0.4 / 2**0.5)
    assert (feddyn["accuracy_final"], feddyn["accuracy_final_std"], feddyn["seeds"]) == (None, None, [0])


def test_the_terminal_table_holds_every_cell(results: list[Result]) -> None:
    text = io.StringIO()
    for table in terminal_tables(results, 200):
        Console(file=text, width=200).print(table)
    assert all(cell in text.getvalue() for result in results for cell in cells(result))
    assert all(heading in text.getvalue() for heading in headings(results))


LONG = ("naivefedgloss+fsam+wima", "scaffold+asam+swa", "fedavg")


@pytest.mark.parametrize("width", [80, 90, 120, 160])
def test_no_number_is_cut_whatever_the_labels(width: int, tmp_path: Path) -> None:
    paths = [
        write_run(tmp_path / f"{m}{n}{s}", m, s, lr=0.1 + n, local_epochs=1 + n, weight_decay=0.001 * (n + 1))
        for m in LONG
        for n in (0, 1)
        for s in (0, 1)
    ]
    for number, path in enumerate(paths):
        text = (path / "config.json").read_text()
        config = json.loads(text.replace('"digits"', ('"digits"', '"landmarks-user-160k"')[number % 2]))
        rewrite(path / "config.json", config)
    actual = collect(paths)
    text = io.StringIO()
    for table in terminal_tables(actual, width):
        Console(file=text, width=width).print(table)
    lines = text.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines) and "…" not in text.getvalue()
    rows = [line for line in lines if "50.00 " in line]
    assert len(rows) == len(actual) == 12
    assert all("55.00" in row and "60.00" in row and "finished" in row for row in rows)
    assert sum("3.0 MB" in line and "6.0 MB" in line and " 120 " in line for line in lines) == 12


def test_the_notes_list_what_differs(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "a"), write_run(tmp_path / "b", lr=0.25, local_epochs=7, weight_decay=0.5, rounds=9)]
    actual = collect(paths)
    assert notes(actual) == [
        "fedavg #1: local_epochs=1, lr=0.1, rounds=3, weight_decay=0.0004",
        "fedavg #2: local_epochs=7, lr=0.25, rounds=9, weight_decay=0.5",
    ]
    assert all(note in markdown(actual) for note in notes(actual))
    assert aggregates(actual)[1]["differs"]["settings.lr"] == 0.25
    assert notes(collect(paths[:1])) == []
    assert notes(collect([paths[0], write_run(tmp_path / "c", lr=0.5)])) == []  # the label says it


# --- columns of flatness ------------------------------------------------------------------------------------


FLATNESS = ["λmax", "λmax/λ5", "LPF"]
ROUNDS = 3


def measure(
    path: Path, lambda_max: float | None, ratio: float | None, lpf: float | None, most: int | None = 2000, **key: Any
) -> Path:
    """Give a run the results of `--flatness`, and a checkpoint to have taken them of."""
    (path / "checkpoints" / f"round-{ROUNDS:06d}").mkdir(parents=True, exist_ok=True)
    numbers = {
        "lambda_ratio": {"lambda_max": lambda_max, "lambda_max_residual": 0.0, "lambda_5": 1.0, "lambda_ratio": ratio},
        "lpf": {"lpf": lpf, "lpf_error": 0.0},
    }
    common = {"run": "", "round": ROUNDS, "weights": "evaluated", "sample": {"of": "train", "most": most, "seed": 0}}
    for id, actual in numbers.items():
        taken = common | key | {"measurement": Measurement.registry.make(id).to_dict()}
        KeptResults(path).keep(taken, {"numbers": actual, "clients": {}, "series": {}, "remark": ""})
    return path


@pytest.fixture
def flat(tmp_path: Path) -> list[Result]:
    """One method over two seeds with results, one that has none, and one that diverged."""
    return collect(
        [
            measure(write_run(tmp_path / "a0"), 10.0, 2.0, 1.5),
            measure(write_run(tmp_path / "a1", seed=1), 14.0, 3.0, 1.25),
            write_run(tmp_path / "b0", "fedsam"),
            measure(
                write_run(tmp_path / "c0", "feddyn", accuracies=(0.1,), status="diverged", rounds=3), 9.0, 9.0, 9.0
            ),
        ]
    )


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (None, "–"),
        ((12.3456, None), "12.35"),
        ((0.000123456, 0.00001), "0.0001235 ± 1e-05"),
        ((123456.0, 10.0), "1.235e+05 ± 10"),
        ((-2.0, 0.0), "-2 ± 0"),
    ],
)
def test_plain_numbers(spread: tuple[float, float | None] | None, text: str) -> None:
    assert plain(spread) == text


def test_columns_of_flatness_stand_between_accuracy_and_cost(flat: list[Result]) -> None:
    assert measured(flat) == ["lambda_max", "lambda_ratio", "lpf"]
    assert headings(flat)[4:7] == FLATNESS
    assert [cells(result, columns(flat))[4:7] for result in flat] == [
        ["12 ± 2.8", "2.5 ± 0.71", "1.375 ± 0.18"],
        ["–", "–", "–"],
        ["–", "–", "–"],
    ]
    assert {len(cells(result, columns(flat))) for result in flat} == {len(headings(flat))}


def test_without_readings_there_are_none(results: list[Result]) -> None:
    assert measured(results) == []
    assert headings(results) == [
        "method",
        "final",
        "last-2 mean",
        "best",
        "down",
        "up",
        "backprops",
        "seconds",
        "status",
    ]
    assert "λ" not in caption(results)
    assert not {"lambda_max", "lpf", "flatness_over"} & {name for record in records(results) for name in record}
    assert not {"lambda_max", "lpf"} & {name for record in aggregates(results) for name in record}


def test_flatness_in_markdown_csv_and_aggregates(flat: list[Result]) -> None:
    lines = [line for line in markdown(flat).splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert table[0] == headings(flat) and table[2] == cells(flat[0], columns(flat))
    assert {len(row) for row in table} == {len(table[0])}
    rows = list(csv.DictReader(io.StringIO(as_csv(flat))))
    assert [row["lambda_max"] for row in rows[:3]] == ["10.0", "14.0", ""]
    fedavg, fedsam, feddyn = aggregates(flat)
    assert (fedavg["lambda_max"], fedavg["lpf"]) == (12, 1.375)
    assert fedavg["lambda_ratio_std"] == pytest.approx(0.5**0.5)
    assert [one[name] for one in (fedsam, feddyn) for name in measured(flat)] == [None] * 6


def test_the_caption_says_over_which_examples(tmp_path: Path) -> None:
    some = measure(write_run(tmp_path / "a"), 1.0, 1.0, 1.0)
    every = measure(write_run(tmp_path / "b", "fedsam"), 1.0, 1.0, 1.0, None)
    assert caption(collect([some])).endswith("; λ and LPF over at most 2,000 training examples")
    assert caption(collect([every])).endswith("; λ and LPF over all training examples")
    assert caption(collect([some, every])).endswith("; λ and LPF over different samples, which cannot be compared")


@pytest.mark.parametrize(
    "key",
    [{"round": 2}, {"weights": "global"}, {"sample": {"of": "test", "most": None, "seed": 0}}, {"space": "full"}],
    ids=["round", "weights", "examples", "space"],
)
def test_readings_of_another_model_or_of_other_examples_do_not_count(key: dict[str, Any], tmp_path: Path) -> None:
    assert measured(collect([measure(write_run(tmp_path / "a"), 1.0, 1.0, 1.0, **key)])) == []


def test_what_was_not_a_number_is_a_dash(tmp_path: Path) -> None:
    actual = collect([measure(write_run(tmp_path / "a"), 7.0, None, 1.0)])
    assert measured(actual) == ["lambda_max", "lpf"]
    both = collect([tmp_path / "a", measure(write_run(tmp_path / "b", "fedsam"), 7.0, 2.0, 1.0)])
    assert [cells(result, columns(both))[5] for result in both] == ["–", "2"]


@pytest.mark.parametrize("width", [80, 90, 100, 120, 160])
def test_no_number_is_cut_beside_flatness(width: int, flat: list[Result]) -> None:
    text = io.StringIO()
    for table in terminal_tables(flat, width):
        Console(file=text, width=width).print(table)
    lines = text.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines) and "…" not in text.getvalue()
    wanted = [*headings(flat), *cells(flat[0], columns(flat)), *cells(flat[2])[:-1], "diverged"]
    assert [cell for cell in wanted if cell not in text.getvalue()] == []
    rows = [line for line in lines if "± 0.71" in line or "± 2.8" in line]
    assert rows and all(line.split()[0] == "fedavg" for line in rows)
