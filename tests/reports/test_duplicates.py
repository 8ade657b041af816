"""Two runs with one seed are no replicates: equal ones count once, different ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from flatfed.reports.tables.table import caption
from flatfed.runs.directory import RunDirectory
from records import rewrite_rows
from reports.disk import write_run


def reported(*paths: Path) -> tuple[Result, list[str]]:
    words: list[str] = []
    [result] = collect(paths, words.append)
    return result, words


def test_a_repetition_counts_once_and_is_reported(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    rewrite_rows(second, [row | {"seconds": 9.5} for row in RunDirectory.open(second).rows])
    result, [word] = reported(first, second, write_run(tmp_path / "c", seed=1))
    assert [run.path.name for run in result.runs] == ["a", "c"]
    assert str(first) in word and str(second) in word and "seed 0" in word
    assert "over seeds 0, 1;" in caption([result])


def test_different_results_of_one_seed_are_refused(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", accuracies=(0.2, 0.6, 0.51))
    with pytest.raises(ConfigError, match="both seed 0 of fedavg") as caught:
        collect([first, second])
    assert str(first) in str(caught.value) and str(second) in str(caught.value)
    assert "round 3" in str(caught.value)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
def test_the_one_that_has_come_further_stays(status: str, order: tuple[int, int], tmp_path: Path) -> None:
    paths = [
        write_run(tmp_path / "whole"),
        write_run(tmp_path / "part", accuracies=(0.2, 0.6), status=status, rounds=3),
    ]
    result, [word] = reported(*(paths[number] for number in order))
    assert [run.path.name for run in result.runs] == ["whole"]
    assert "as far as it has come (2 rounds)" in word
    assert word.startswith(str(paths[1]))


def test_one_that_goes_another_way_already_is_refused(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole")
    part = write_run(tmp_path / "part", accuracies=(0.3,), status="running", rounds=3)
    with pytest.raises(ConfigError, match="differ from round 1 on"):
        collect([whole, part])


def test_measurements_that_only_one_took_make_no_difference(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    more = {"watch": {"lambda_max": 3.0}, "clients_watch": {"gap": {"0": 1.0}}}
    rewrite_rows(second, [row | more for row in RunDirectory.open(second).rows])
    result, words = reported(first, second)
    assert len(result.runs) == len(words) == 1


def test_one_seed_in_two_settings_is_no_repetition(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "a"), write_run(tmp_path / "b", lr=0.2), write_run(tmp_path / "c", "fedsam")]
    words: list[str] = []
    assert len(collect(paths, words.append)) == 3
    assert words == []
