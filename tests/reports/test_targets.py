"""The cost to reach a target: the first evaluated round that is as good, and totals up to it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flatfed.core.errors import ConfigError
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from flatfed.reports.tables import target_tables, targets
from flatfed.reports.tables.extras import Extras, Target
from flatfed.reports.tables.table import as_csv, as_json, markdown, records, terminal_tables
from flatfed.reports.tables.targets import Reaching
from flatfed.runs.directory import RunDirectory
from records import rewrite, rewrite_rows
from reports.disk import BACKPROPS, BYTES, SECONDS, write_run

SLOW, FAST = (0.1, 0.2, None, 0.4, 0.5), (0.1, 0.5, 0.6, 0.7, 0.6)
PER_ROUND = 3 * BYTES / (2 * BYTES / 4)
"""Model-sized vectors per client and round of these runs: 6."""


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    """A slow method and a fast one over two seeds, and one that never gets far."""
    return collect(
        [
            write_run(tmp_path / "a0", "fedavg", 0, SLOW),
            write_run(tmp_path / "a1", "fedavg", 1, (0.1, 0.1, 0.1, 0.3, 0.3)),
            write_run(tmp_path / "b0", "fedsam", 0, FAST),
            write_run(tmp_path / "b1", "fedsam", 1, (0.1, 0.1, 0.4, 0.4, 0.4)),
            write_run(tmp_path / "c0", "feddyn", 0, (0.1, 0.1), "diverged", rounds=5),
        ]
    )


def asked(*texts: str, baseline: str | None = None) -> Extras:
    return Extras(targets=tuple(Target.parse(text) for text in texts), baseline=baseline)


def reaching(results: list[Result], text: str, baseline: str | None = None) -> Reaching:
    [one] = Reaching.all(results, asked(text, baseline=baseline))
    return one


def test_the_first_evaluated_round_counts_from_one(results: list[Result]) -> None:
    one = reaching(results, "0.3")
    rounds = [[cost.round if (cost := one.cost(run)) else None for run in result.runs] for result in results]
    assert rounds == [[4, 4], [2, 3], [None]]


def test_costs_are_totals_up_to_that_round(results: list[Result]) -> None:
    cost = reaching(results, "0.3").cost(results[1].runs[1])
    assert cost is not None
    assert (cost.round, cost.bytes, cost.backprops, cost.seconds) == (3, 9 * BYTES, 3 * BACKPROPS, 3 * SECONDS)
    assert cost.transmissions == 3 * PER_ROUND


def test_refused_clients_were_asked_too() -> None:
    row: dict[str, Any] = {"bytes_down": 600, "bytes_up": 400, "clients": [0, 1, 2]}
    assert targets.transmissions(row | {"clients": [0, 1, 2, 3, 4]}, 100) == 2.0
    assert targets.transmissions(row | {"rejected": [{"client": 4}, {"client": 5}]}, 100) == 2.0
    assert targets.transmissions(row | {"clients": []}, 100) == 10.0


def test_means_are_over_the_seeds_that_reached_it(results: list[Result]) -> None:
    one = reaching(results, "0.5")
    assert [one.reached(result) for result in results] == [1, 1, 0]
    assert [one.spread(result, "round") for result in results] == [(5.0, None), (2.0, None), None]
    assert [one.speed_up(result) for result in results] == [1.0, 2.5, None]


def test_a_speed_up_is_over_the_seeds_in_which_both_reached_the_target(tmp_path: Path) -> None:
    """A method that fails in the slower seed is not faster for it."""
    actual = collect(
        [
            write_run(tmp_path / "a0", "fedavg", 0, (0.1, 0.1, 0.1, 0.1, 0.3)),
            write_run(tmp_path / "a1", "fedavg", 1, (0.1, 0.1, 0.3, 0.3, 0.3)),
            write_run(tmp_path / "b0", "fedsam", 0, (0.1, 0.1, 0.1, 0.1, 0.1)),
            write_run(tmp_path / "b1", "fedsam", 1, (0.1, 0.1, 0.3, 0.3, 0.3)),
            write_run(tmp_path / "c2", "feddyn", 2, (0.1, 0.3, 0.3, 0.3, 0.3)),
        ]
    )
    one = reaching(actual, "0.3", baseline="fedavg")
    assert [one.speed_up(result) for result in actual] == [1.0, 1.0, 2.0]


def test_speed_ups_are_over_the_first_method_that_reached_it_or_the_baseline(results: list[Result]) -> None:
    alone = reaching(results, "0.6")
    assert alone.reference is results[1] and alone.speed_up(results[0]) is None
    based = reaching(results, "0.3", baseline="fedsam")
    assert based.reference is results[1]
    assert based.speed_up(results[0]) == pytest.approx(2.5 / 4)


def test_a_methods_final_value_is_its_last_mean_each_seed_its_own(results: list[Result]) -> None:
    one = reaching(results[:2], "fedavg:final")
    assert one.by_seed == {0: pytest.approx(0.45), 1: pytest.approx(0.3)}
    assert one.value == pytest.approx(0.375)
    assert [[one.cost(run).round for run in result.runs] for result in results[:2]] == [[5, 4], [2, 3]]  # type: ignore[union-attr]
    assert "each seed its own" in one.title and "last-2 mean" in one.title
    assert one.reference is results[0]


@pytest.mark.parametrize(("which", "value"), [("last", 0.4), ("best", 0.4)])
def test_other_values_of_a_method(which: str, value: float, results: list[Result]) -> None:
    assert reaching(results, f"fedavg:{which}").value == pytest.approx(value)


def test_where_seeds_differ_the_target_is_the_mean(tmp_path: Path) -> None:
    actual = collect(
        [
            write_run(tmp_path / "a0", "fedavg", 0, (0.2, 0.4)),
            write_run(tmp_path / "b1", "fedsam", 1, (0.2, 0.3)),
        ]
    )
    one = reaching(actual, "fedavg:best")
    assert (one.by_seed, one.value) == ({}, 0.4)
    assert one.cost(actual[1].runs[0]) is None and "each seed" not in one.title


def test_a_target_of_a_method_without_a_value_is_reached_by_none(results: list[Result]) -> None:
    one = reaching(results, "feddyn:final")
    assert one.value is None
    assert [one.reached(result) for result in results] == [0, 0, 0]
    assert all("–" in column.text(results[0]) for column in target_tables.columns(one)[2:])


def test_a_lower_loss_is_better(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", accuracies=(0.2, 0.6, 0.5))
    rows = [{k: v for k, v in row.items() if k != "test_accuracy"} for row in RunDirectory.open(path).rows]
    rewrite_rows(path, rows)
    actual = collect([path])
    one = reaching(actual, "0.45")  # losses 0.8, 0.4, 0.5
    assert one.cost(actual[0].runs[0]).round == 2  # type: ignore[union-attr]
    assert one.title == "cost to reach test loss 0.45; speed-up over fedavg"


def test_without_the_models_size_there_are_no_transmissions(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a")
    config = json.loads((path / "config.json").read_text())
    del config["model_bytes"]
    rewrite(path / "config.json", config)
    actual = collect([path])
    cost = reaching(actual, "0.5").cost(actual[0].runs[0])
    assert cost is not None and cost.transmissions is None and cost.bytes == 6 * BYTES


def test_csv_and_json(results: list[Result]) -> None:
    extras = asked("0.3", "fedavg:best")
    lines = list(csv.DictReader(io.StringIO(as_csv(results, extras))))
    assert [line["to_0.3_round"] for line in lines] == ["4", "4", "2", "3", ""]
    assert [line["to_0.3_bytes"] for line in lines[:2]] == [str(12 * BYTES)] * 2
    assert [float(line["to_fedavg:best_value"]) for line in lines[:2]] == [0.5, 0.3]
    reported = as_json(results, extras)
    assert len(reported["targets"]) == 6
    first = reported["targets"][1]
    assert (first["target"], first["method"], first["reached"], first["runs"]) == ("0.3", "fedsam", 2, 2)
    assert (first["round"], first["transmissions"]) == (2.5, 2.5 * PER_ROUND)
    assert (first["speed_up"], first["speed_up_over"], first["metric"]) == (1.6, "fedavg", "test_accuracy")
    json.dumps(reported, allow_nan=False)
    assert "targets" not in as_json(results)
    assert not [name for record in records(results) for name in record if name.startswith("to_")]


@pytest.mark.parametrize("width", [80, 160])
def test_tables_below_the_table(width: int, results: list[Result]) -> None:
    extras, text = asked("0.3", "fedavg:final"), io.StringIO()
    for table in terminal_tables(results, width, extras):
        Console(file=text, width=width).print(table)
    lines = text.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines) and "…" not in text.getvalue()
    assert "cost to reach test accuracy 30.00 %" in text.getvalue()
    wanted = ("2 of 2", "2.5 ± 0.7", "1.60×", "15.0", "7.5 MB", "100", "1.2")
    assert [cell for cell in wanted if cell not in text.getvalue()] == []


def test_markdown_has_a_table_for_each_target(results: list[Result]) -> None:
    text = markdown(results, asked("0.3", "0.6"))
    assert text.startswith(markdown(results))
    assert "## Cost to reach test accuracy 60.00 %; speed-up over fedsam" in text
    assert "| fedsam | 2 of 2 | 2.5 ± 0.7 | 1.60× | 15.0 | 7.5 MB | 100 | 1.2 |" in text


@pytest.mark.parametrize(
    ("text", "value", "method", "which"),
    [
        ("0.75", 0.75, None, "final"),
        (" 75% ", 0.75, None, "final"),
        ("fedavg:best", None, "fedavg", "best"),
        ("fedavg (lr=0.5):last", None, "fedavg (lr=0.5)", "last"),
    ],
)
def test_how_targets_are_written(text: str, value: float | None, method: str | None, which: str) -> None:
    actual = Target.parse(text)
    assert (actual.value, actual.method, actual.which) == (value, method, which)


@pytest.mark.parametrize(
    ("text", "words"), [("x", "neither a number"), ("fedavg:fin", "'final'"), ("", "neither"), ("0.5:", "value of a")]
)
def test_what_is_no_target(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Target.parse(text)


@pytest.mark.parametrize(
    ("text", "words"), [("75", "write 0.75"), ("-1", "between 0 and 1"), ("fedavgg:final", "did you mean 'fedavg'")]
)
def test_targets_that_cannot_be(text: str, words: str, results: list[Result]) -> None:
    with pytest.raises(ConfigError, match=words):
        as_json(results, asked(text))


def test_a_spelling_that_stands_for_several_methods_is_refused(tmp_path: Path) -> None:
    actual = collect([write_run(tmp_path / "a", lr=0.2), write_run(tmp_path / "b", lr=0.5), write_run(tmp_path / "c")])
    with pytest.raises(ConfigError, match="several methods") as refused:
        as_json([*actual[1:]], asked("fedavg:final"))
    assert "lr=0.5" in str(refused.value)
