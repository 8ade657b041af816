"""What was measured of a run stays beside it: found again in just the same way, and whole or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flatfed.core.errors import CheckpointError
from flatfed.runs.results import FOLDER, KeptResults, Points

KEY = {"run": "abc", "round": 3, "weights": "evaluated", "sample": {"of": "train", "most": None, "seed": 0}}
RESULT = {"numbers": {"loss": 0.5}, "clients": {"loss": {"3": 0.1}}, "series": {"x": [1.0, 2.0]}, "remark": "good"}
LANDSCAPE = {"run": "abc", "directions": [1, 2]}


def file(run: Path) -> Path:
    return run / FOLDER / "results.json"


def with_measurement(**changes: Any) -> dict[str, Any]:
    return KEY | {"measurement": {"id": "loss"}} | changes


def test_nothing_is_there_at_first_and_nothing_is_written_by_looking(tmp_path: Path) -> None:
    assert KeptResults(tmp_path).find(with_measurement()) is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_found_by_whoever_looks_next(tmp_path: Path) -> None:
    kept = KeptResults(tmp_path)
    kept.keep(with_measurement(), RESULT)
    assert kept.find(with_measurement()) == KeptResults(tmp_path).find(with_measurement()) == RESULT


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "abd"},
        {"round": 4},
        {"weights": "global"},
        {"sample": {"of": "test", "most": None, "seed": 0}},
        {"sample": {"of": "train", "most": 20, "seed": 0}},
        {"sample": {"of": "train", "most": None, "seed": 1}},
        {"measurement": {"id": "lpf"}},
        {"measurement": {"id": "loss", "samples": 3}},
    ],
)
def test_what_was_taken_otherwise_is_another_result(changes: dict[str, Any], tmp_path: Path) -> None:
    kept = KeptResults(tmp_path)
    kept.keep(with_measurement(), RESULT)
    assert kept.find(with_measurement(**changes)) is None
    kept.keep(with_measurement(**changes), RESULT | {"remark": "other"})
    again = KeptResults(tmp_path)
    assert again.find(with_measurement()) == RESULT
    assert again.find(with_measurement(**changes)) == RESULT | {"remark": "other"}


def test_the_same_again_replaces_it(tmp_path: Path) -> None:
    kept = KeptResults(tmp_path)
    for remark in ("first", "second"):
        kept.keep(with_measurement(), RESULT | {"remark": remark})
    assert KeptResults(tmp_path).find(with_measurement()) == RESULT | {"remark": "second"}
    assert len(json.loads(file(tmp_path).read_text())["results"]) == 1
    assert [path.name for path in file(tmp_path).parent.iterdir()] == ["results.json"]


def test_readings_of_some_rounds(tmp_path: Path) -> None:
    kept = KeptResults(tmp_path)
    for round in (1, 2, 3):
        kept.keep(with_measurement(round=round), RESULT | {"remark": str(round)})
    assert [result["remark"] for _, result in KeptResults(tmp_path).of_round([3, 1])] == ["1", "3"]


def test_a_file_that_was_torn(tmp_path: Path) -> None:
    KeptResults(tmp_path).keep(with_measurement(), RESULT)
    whole = file(tmp_path).read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 3):
        file(tmp_path).write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"results\.json cannot be read"):
            KeptResults(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "3",
        '{"a": 1}',
        '{"results": 3}',
        '{"results": [3]}',
        '{"results": [{}]}',
        '{"results": [{"key": {}}]}',
    ],
)
def test_a_file_that_is_something_else(content: str, tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir()
    file(tmp_path).write_text(content)
    with pytest.raises(CheckpointError, match=r"results\.json"):
        KeptResults(tmp_path).find({"run": "other"})
        KeptResults(tmp_path).find({})


def test_a_number_that_is_not_finite_can_be_kept_in_json(tmp_path: Path) -> None:
    """The error of a single draw is not known; the file is JSON all the same, for whatever reads it."""
    result = RESULT | {"numbers": {"lpf_error": float("inf")}}
    KeptResults(tmp_path).keep(with_measurement(), result)
    json.loads(file(tmp_path).read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert KeptResults(tmp_path).find(with_measurement()) is not None


# --- points of a landscape --------------------------------------------------------------------------------------


def landscape(run: Path, key: dict[str, Any] | None = None) -> Points:
    return Points(run, "plane", LANDSCAPE if key is None else key)


def lines(run: Path) -> Path:
    return run / FOLDER / "plane.jsonl"


def test_points_are_found_again(tmp_path: Path) -> None:
    points = landscape(tmp_path)
    assert points.get((0.0, 1.0)) is None
    assert not lines(tmp_path).exists()
    points.add((0.0, 1.0), {"loss": 0.5, "accuracy": 0.25})
    points.add((0.1, -1.0 / 3), {"loss": 1 / 3})
    for some in (points, landscape(tmp_path)):
        assert some.get((0.0, 1.0)) == {"loss": 0.5, "accuracy": 0.25}
        assert some.get((0.1, -1.0 / 3)) == {"loss": 1 / 3}
        assert some.get((1.0, 0.0)) is None


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(places=st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=8, unique=True))
def test_any_points(places: list[tuple[float, float]], tmp_path: Path) -> None:
    lines(tmp_path).unlink(missing_ok=True)
    for number, place in enumerate(places):
        landscape(tmp_path).add(place, {"loss": float(number)})
    assert [landscape(tmp_path).get(place) for place in places] == [{"loss": float(n)} for n in range(len(places))]


@pytest.mark.parametrize("cut", [1, 2, 5, 20])
def test_after_a_torn_last_line_it_goes_on(cut: int, tmp_path: Path) -> None:
    points = landscape(tmp_path)
    for number in range(3):
        points.add((float(number), 0.0), {"loss": float(number)})
    lines(tmp_path).write_bytes(lines(tmp_path).read_bytes()[:-cut])
    again = landscape(tmp_path)
    assert again.get((0.0, 0.0)) == {"loss": 0.0} and again.get((1.0, 0.0)) == {"loss": 1.0}
    assert again.get((2.0, 0.0)) == (None if cut > 1 else {"loss": 2.0})
    again.add((2.0, 0.0), {"loss": 2.0})
    again.add((3.0, 0.0), {"loss": 3.0})
    last = landscape(tmp_path)
    assert [last.get((float(n), 0.0)) for n in range(4)] == [{"loss": float(n)} for n in range(4)]


@pytest.mark.parametrize("left", [0, 1, 10])
def test_after_a_torn_first_line_it_starts_anew(left: int, tmp_path: Path) -> None:
    landscape(tmp_path).add((0.0, 0.0), {"loss": 0.0})
    lines(tmp_path).write_bytes(lines(tmp_path).read_bytes()[:left])
    points = landscape(tmp_path)
    assert points.get((0.0, 0.0)) is None
    points.add((1.0, 0.0), {"loss": 1.0})
    assert landscape(tmp_path).get((1.0, 0.0)) == {"loss": 1.0}
    first = json.loads(lines(tmp_path).read_text().splitlines()[0])
    assert {name: value for name, value in first.items() if name != "seal"} == LANDSCAPE


def test_another_landscape_under_the_same_name_is_refused(tmp_path: Path) -> None:
    landscape(tmp_path).add((0.0, 0.0), {"loss": 0.0})
    with pytest.raises(CheckpointError, match=r"plane\.jsonl holds another landscape; remove it"):
        landscape(tmp_path, LANDSCAPE | {"directions": [1, 3]})


def test_keys_are_compared_as_json_has_them(tmp_path: Path) -> None:
    landscape(tmp_path, {"grid": (1, 2), 3: "x"}).add((0.0,), {"loss": 0.0})
    assert landscape(tmp_path, {"grid": [1, 2], "3": "x"}).get((0.0,)) == {"loss": 0.0}


@pytest.mark.parametrize("content", ["[1, 2]\n", '"text"\n', "3\n"])
def test_a_file_of_something_else(content: str, tmp_path: Path) -> None:
    lines(tmp_path).parent.mkdir()
    lines(tmp_path).write_text(content)
    with pytest.raises(CheckpointError, match="holds another landscape"):
        landscape(tmp_path)
