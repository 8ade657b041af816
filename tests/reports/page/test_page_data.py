"""The data of a page: what is gathered, what is left out, and how long histories are thinned."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.reports.page.citing import references
from flatfed.reports.page.client_view import (
    ClassTable,
    accuracy_tables,
    classes_data,
    participation_data,
    rejected_table,
)
from flatfed.reports.page.gather import ViewSource, gather
from flatfed.reports.page.kept_landscapes import landscapes_data
from flatfed.reports.page.measured_flatness import flatness_table, measurements_of
from flatfed.reports.page.page_tables import results_table, sort_value, table_data, target_tables
from flatfed.reports.page.series import curves_data
from flatfed.reports.page.thin import FEWEST, MOST, kept_places, points_each, thinned
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from reports.disk import BACKPROPS, BYTES, SECONDS, write_run
from reports.test_table import measure

ROOT = Path(__file__).parents[3]


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    accuracies = {"fedavg": (0.2, 0.6, 0.5), "fedsam": (0.3, None, 0.9)}
    paths = [write_run(tmp_path / f"{m}-{s}", m, s, own) for m, own in accuracies.items() for s in (0, 1)]
    return collect(paths)


def view(results: list[Result], **more: Any) -> dict[str, Any]:
    data: dict[str, Any] = gather("title", [ViewSource("view", results, **more)])["views"][0]
    return data


def with_rows(result: Result, **changes: Any) -> Result:
    """Return a result whose rows hold more."""
    runs = [replace(run, rows=[row | changes for row in run.rows]) for run in result.runs]
    return replace(result, runs=runs)


def texts(table: dict[str, Any]) -> list[list[str]]:
    return [[cell["text"] for cell in row] for row in table["rows"]]


# Thinning.


@pytest.mark.parametrize("count", [1, 2, 299, 300, 301, 20_000])
def test_the_first_and_the_last_of_what_is_thinned_stay(count: int) -> None:
    places = kept_places(count, 300)
    assert places[0] == 0
    assert places[-1] == count - 1
    assert len(places) == min(count, 300)
    assert places == sorted(set(places))


def test_what_is_short_stays_as_it_is() -> None:
    assert thinned("abc", 3) == ["a", "b", "c"]


def test_many_curves_have_fewer_points_each() -> None:
    assert points_each(1) == MOST
    assert points_each(10**9) == FEWEST
    assert points_each(0) == MOST


def test_a_page_says_that_curves_are_thinned(results: list[Result]) -> None:
    whole, thin = curves_data(results, 3), curves_data(results, 2)
    assert whole is not None
    assert thin is not None
    assert whole["thinned"] == ""
    assert thin["thinned"].startswith("Of up to 3 rounds each curve shows at most 2")
    assert thin["methods"][0]["x"]["round"] == [1, 3]


# Tables.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.50 ± 0.31", 12.5),
        ("1,234", 1234.0),
        ("54.8 kB", 54_800.0),
        ("1.0 GB", 1e9),
        ("999 B", 999.0),
        ("−0.25", -0.25),
        ("+0.25", 0.25),
        ("1.5e-07", 1.5e-7),
        ("1.06×", 1.06),
        ("2 of 3", 2.0),
        ("–", None),
        ("✗ diverged", None),
    ],
)
def test_texts_are_sorted_by_what_they_say(text: str, value: float | None) -> None:
    assert sort_value(text) == (None if value is None else pytest.approx(value))


def test_the_best_is_marked_by_its_direction_and_what_is_alike_is_marked_alike() -> None:
    rows = [["a", "1", "1"], ["b", "2", "1"], ["c", "2", "–"], ["d", "–", "1"]]
    table = table_data(["", "up", "alike"], rows, best={1: True, 2: True})
    assert [row[1]["best"] for row in table["rows"]] == [False, True, True, False]
    assert not any(row[2]["best"] for row in table["rows"])
    lower = table_data(["", "down", ""], rows, best={1: False})
    assert [row[1]["best"] for row in lower["rows"]] == [True, False, False, False]


def test_the_table_is_that_of_every_other_report(results: list[Result]) -> None:
    table = results_table(results)
    heads = [head["text"] for head in table["heads"]]
    assert heads[:4] == ["method", "final", "last mean", "best"]
    assert texts(table)[1][:2] == ["fedsam", "90.00 ± 0.00"]
    assert [row[1]["best"] for row in table["rows"]] == [False, True]
    assert table["rows"][0][heads.index("down")]["sort"] == 3 * BYTES


def test_the_first_method_is_the_target_where_none_is_asked_for(results: list[Result]) -> None:
    (table,) = target_tables(results)
    assert "fedavg:final" in table["caption"]
    assert target_tables(results[:1]) == []


# Curves.


def test_curves_over_rounds_and_costs_with_their_range(tmp_path: Path) -> None:
    seeds = {0: (0.2, 0.6), 1: (0.4, 0.5)}
    curves = curves_data(collect([write_run(tmp_path / str(s), "fedavg", s, own) for s, own in seeds.items()]), 300)
    assert curves is not None
    assert [metric["name"] for metric in curves["metrics"]][:2] == ["test_accuracy", "train_loss"]
    (method,) = curves["methods"]
    assert method["x"]["round"] == [1, 2]
    assert method["x"]["bytes"] == [3 * BYTES, 6 * BYTES]
    assert method["x"]["backprops"] == [BACKPROPS, 2 * BACKPROPS]
    assert method["x"]["seconds"] == [SECONDS, 2 * SECONDS]
    accuracy = method["series"]["test_accuracy"]
    assert accuracy == {"at": [0, 1], "mean": [30.0, 55.0], "low": [20.0, 50.0], "high": [40.0, 60.0]}


def test_a_round_that_was_not_evaluated_has_no_point(results: list[Result]) -> None:
    curves = curves_data(results, 300)
    assert curves is not None
    fedsam = curves["methods"][1]
    assert [fedsam["x"]["round"][place] for place in fedsam["series"]["test_accuracy"]["at"]] == [1, 3]


def test_a_number_that_is_not_finite_is_not_drawn(results: list[Result]) -> None:
    curves = curves_data([with_rows(results[0], train_loss=float("nan"))], 300)
    assert curves is not None
    assert "train_loss" not in curves["methods"][0]["series"]
    json.dumps(curves, allow_nan=False)


# Parts without data.


def test_what_has_no_data_is_left_out(results: list[Result]) -> None:
    data = view(results)
    assert data["flatness"] is None
    assert data["published"] is None
    assert data["environment"] is None
    assert data["clients"]["classes"] is None
    assert data["clients"]["rejected"] is None
    assert data["clients"]["tables"] == []


def test_flatness_of_two_spaces_stands_in_columns_of_their_own(tmp_path: Path) -> None:
    run = measure(write_run(tmp_path / "a"), 10.0, 2.0, 1.5)
    measure(run, 400.0, 3.0, 9.0, space="full")
    flatness = flatness_table(measurements_of(collect([run])))
    assert flatness is not None
    heads = [head["text"] for head in flatness["heads"]]
    shown = dict(zip(heads, texts(flatness)[0], strict=True))
    assert (shown["lambda_max [1]"], shown["lambda_max [3]"]) == ("10", "400")
    assert [note.endswith("space=full") for note in flatness["notes"]] == [False, False, True, True]


def test_a_run_without_a_round_has_a_page(tmp_path: Path) -> None:
    data = view(collect([write_run(tmp_path / "a", accuracies=(), status="interrupted")]))
    assert data["curves"] is None
    assert data["clients"] is None
    assert texts(data["table"])[0][0] == "fedavg"


# Clients.


def test_participation_is_counted_once_for_methods_with_the_same_cohorts(results: list[Result]) -> None:
    (group,) = participation_data(results)
    assert group["x"] == [0, 1, 2, 3, 4]
    assert group["y"] == [3, 3, 0, 0, 0]


def test_rejected_updates_stand_by_reason(results: list[Result]) -> None:
    rejected = [{"client": 3, "reason": "w is not finite"}, {"client": 4, "reason": "w is not finite"}]
    table = rejected_table([with_rows(results[0], rejected=rejected)])
    assert table is not None
    assert texts(table)[0] == ["fedavg", "0", "w is not finite", "6", "2", "1 to 3"]


def test_the_worst_tenth_of_the_clients() -> None:
    values = [float(value) for value in range(1, 21)]
    (table,) = accuracy_tables({"client_accuracy": {"fedavg": values}})
    assert texts(table)[0] == ["fedavg", "20", "10.50", "5.77", "1.50", "1.00", "10.50", "20.00"]


def test_a_heat_map_of_many_clients_shows_the_first_and_says_so() -> None:
    data = classes_data(ClassTable([[1, 2]] * 1000, ["cat", "dog"], 7))
    assert data is not None
    assert len(data["counts"]) == 400
    assert data["note"] == "Partition of seed 7: the first 400 of 1,000 clients"
    assert classes_data(ClassTable([], [], 0)) is None


# Landscapes.

GRID = {"label": "fedavg", "xs": [-1, 0, 1], "ys": [-1, 1], "losses": [[1, None, 3], [4, 5, 6]], "x_name": "x"}


def put(result: Result, content: Any, name: str = "surface.json") -> None:
    folder = result.runs[0].path / "flatness"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def test_surfaces_of_several_methods_share_their_axes(results: list[Result]) -> None:
    put(results[0], {"grids": [GRID], "lines": []})
    put(results[1], {"grids": [GRID | {"label": "fedsam", "losses": [[1, 2, 3], [4, 5, 7]]}], "lines": []})
    (group,) = landscapes_data(results)
    assert [item["label"] for item in group["items"]] == ["fedavg", "fedsam"]
    assert group["items"][0]["losses"] == [[1.0, None, 3.0], [4.0, 5.0, 6.0]]


def test_lines_are_drawn_by_data_set(results: list[Result]) -> None:
    line = {"label": "a to b", "xs": [0, 1], "losses": {"train": [1, 2], "test": [2, 3]}, "x_name": "share"}
    put(results[0], {"grids": [], "lines": [line]}, "line.json")
    assert [group["title"] for group in landscapes_data(results)] == ["line, train", "line, test"]


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "[]",
        {"grids": 3},
        {"grids": [1, None, "x"]},
        {"grids": [GRID | {"losses": [[1, 2, 3]]}]},
        {"grids": [GRID | {"losses": [[1, 2], [3, 4]]}]},
        {"grids": [GRID | {"xs": ["<b>", 0, 1]}]},
        {"grids": [GRID | {"xs": [None, 0, 1]}]},
        {"grids": [GRID | {"losses": [[1, 2, True], [4, 5, 6]]}]},
        {"lines": [{"xs": [1], "losses": {"train": [1, 2]}}]},
    ],
)
def test_a_file_that_holds_no_landscape_is_left_out(content: Any, results: list[Result]) -> None:
    put(results[0], content)
    assert landscapes_data(results) == []


# Citing.


def test_every_method_has_the_reference_of_its_page(results: list[Result]) -> None:
    text = (ROOT / "src/flatfed/reports/page/files/references.csv").read_text(encoding="utf-8")
    cited = {row["id"]: row["reference"] for row in csv.DictReader(text.splitlines())}
    ours = {id for id, cls in (Algorithm.registry | Average.registry).items() if cls.__module__.startswith("flatfed.")}
    assert cited.keys() >= ours
    optimisers = {id for id, cls in ClientOptimiser.registry.items() if cls.__module__.startswith("flatfed.")}
    assert optimisers - cited.keys() == {"sgd", "sam-prev"}
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs/algorithms").glob("*.md")}
    for id, reference in cited.items():
        page = pages.get(id, pages["client-optimisers"])
        assert reference in re.sub(r"\s+", " ", page), id


def test_a_paper_is_cited_once_for_all_that_it_is_cited_for(tmp_path: Path) -> None:
    cited = references(collect([write_run(tmp_path / m, m) for m in ("fedadam", "fedyogi", "fedavg+sam")]))
    assert [paper["of"] for paper in cited] == ["flatfed", "fedadam, fedyogi", "fedavg", "sam"]
