"""Tables of measurements: a row for each number or client, a column for each run."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest

from flatfed.core.errors import ConfigError
from flatfed.flatness.measurement import MeasurementResult
from flatfed.reports.flatness import MajorityClass, Measured, by_client, by_number
from flatfed.reports.tables.grid import Sheet


def measured(
    label: str, results: dict[str, MeasurementResult], classes: dict[int, MajorityClass] | None = None
) -> Measured:
    return Measured(label, Path(label), 3, 0.5, results, "train", [], classes=classes or {})


def discrepancy(value: float, radius: float) -> MeasurementResult:
    return MeasurementResult({"discrepancy": value, "sharpness_global": 2 * value, "radius": radius})


def texts(sheet: Sheet) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in sheet.rows}


# --- a row for each number ----------------------------------------------------------------------------------


def test_one_radius_is_no_row() -> None:
    sheet = by_number([measured("a", {"d": discrepancy(1, 0.05)}), measured("b", {"d": discrepancy(2, 0.05)})])
    assert texts(sheet) == {"discrepancy": ["1", "2"], "sharpness_global": ["2", "4"]}
    assert list(sheet.heads) == ["", "a", "b"]


def test_numbers_of_different_radii_do_not_stand_in_one_row() -> None:
    runs = [
        (name, discrepancy(number, radius)) for name, number, radius in (("a", 1, 0.1), ("b", 2, 0.02), ("c", 3, 0.1))
    ]
    actual = texts(by_number([measured(name, {"d": result}) for name, result in runs]))
    assert actual == {
        "discrepancy, radius 0.1": ["1", "–", "3"],
        "sharpness_global, radius 0.1": ["2", "–", "6"],
        "discrepancy, radius 0.02": ["–", "2", "–"],
        "sharpness_global, radius 0.02": ["–", "4", "–"],
    }


def test_what_has_no_radius_stays_in_one_row() -> None:
    def result(radius: float) -> MeasurementResult:
        return MeasurementResult(
            {"incompatibility": 1.0, "heterogeneity": 2.0, "batch_deviation": math.nan, "radius": radius}
        )

    actual = texts(by_number([measured(name, {"i": result(r)}) for name, r in (("a", 0.1), ("b", 0.2))]))
    assert actual["heterogeneity"] == ["2", "2"]
    assert actual["batch_deviation"] == ["–", "–"]
    assert actual["incompatibility, radius 0.2"] == ["–", "1"]


def test_the_radii_of_one_measurement_do_not_split_another() -> None:
    runs = [
        measured(name, {"d": discrepancy(1, radius), "i": MeasurementResult({"rise": 3.0, "radius": 0.05})})
        for name, radius in (("a", 0.1), ("b", 0.2))
    ]
    assert texts(by_number(runs))["rise"] == ["3", "3"]


def test_a_number_with_its_bound_and_as_it_is() -> None:
    result = MeasurementResult({"lambda_max": 12.345678, "lambda_max_residual": 0.01, "lambda_products": 20.0})
    sheet = by_number([measured("a", {"l": result})])
    assert texts(sheet) == {"lambda_max": ["12.346 ± 0.01"]}
    assert sheet.csv() == ",a\nlambda_max,12.345678\n"


# --- a row for each client ----------------------------------------------------------------------------------

CAT, DOG = MajorityClass(3, "cat", 1.0), MajorityClass(5, "dog", 0.625)


def local_global(local: dict[int, float], everywhere: dict[int, float]) -> dict[str, MeasurementResult]:
    return {"local_global": MeasurementResult({}, {"lambda_local": local, "lambda_global": everywhere})}


def two(**changes: Any) -> list[Measured]:
    return [
        measured("fedavg", local_global({1: 2.0, 4: 4.0}, {1: 20.0, 4: 30.0}), {1: CAT, 4: DOG}),
        measured("fedsam", local_global({1: 1.0, 7: 3.0}, {1: 10.0, 7: 12.0}), {1: changes.get("one", CAT), 7: CAT}),
    ]


def test_clients_with_their_classes_and_means() -> None:
    sheet = by_client(two())
    names = ["fedavg\nlambda_local", "fedavg\nlambda_global", "fedsam\nlambda_local", "fedsam\nlambda_global"]
    assert list(sheet.heads) == ["client", "holds", *names]
    assert texts(sheet) == {
        "1": ["cat", "2", "20", "1", "10"],
        "4": ["dog (62 %)", "4", "30", "–", "–"],
        "7": ["cat", "–", "–", "3", "12"],
        "mean": ["", "3", "25", "2", "11"],
    }


def test_one_number_of_two_partitions_is_two_clients() -> None:
    rows = [[cell.text for cell in row] for row in by_client(two(one=DOG)).rows]
    assert rows[:2] == [["1", "cat", "2", "20", "–", "–"], ["1", "dog (62 %)", "–", "–", "1", "10"]]


def test_nearly_all_is_not_all() -> None:
    assert (str(MajorityClass(0, "cat", 0.999)), str(MajorityClass(0, "cat", 1.0))) == ("cat (99 %)", "cat")


def test_as_markdown_and_as_csv() -> None:
    sheet = by_client(two())
    lines = sheet.markdown().splitlines()
    assert lines[0].startswith("| client | holds | fedavg lambda_local | fedavg lambda_global |")
    assert lines[1] == "| :-- | :-- | --: | --: | --: | --: |"
    assert lines[3] == "| 4 | dog (62 %) | 4 | 30 | – | – |"
    rows = list(csv.reader(io.StringIO(sheet.csv())))
    assert rows[2] == ["4", "dog (62 %)", "4.0", "30.0", "", ""]
    assert rows[-1] == ["mean", "", "3.0", "25.0", "2.0", "11.0"]


def test_without_classes_nothing_is_held() -> None:
    assert texts(by_client([measured("a", local_global({1: 2.0}, {1: 3.0}))]))["1"] == ["–", "2", "3"]


def test_nothing_of_single_clients() -> None:
    with pytest.raises(ConfigError, match="has a number for each client; measure local_global"):
        by_client([measured("a", {"d": discrepancy(1, 0.1)})])
