"""Parameters are chosen by runs that are not reported; the table says how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.data.storage.held_out import divided
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.studies.reading import study_of
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small

GRID: dict[str, Any] = {"rounds": 2, "seeds": [0], "grid": {"fedavg": {"lr": [1e-7, 0.1]}}}


def reported(running: RunningStudy) -> list[Any]:
    return [dict(cell.point) for cell in running.cells() if not cell.chooses]


@pytest.mark.parametrize("by", ["seeds", "validation"])
def test_the_best_point_is_reported(by: str, tmp_path: Path) -> None:
    running = run_here(tmp_path, **GRID, select={"by": by})
    assert reported(running) == [{"lr": 0.1}]
    choice = running.table().to_dict()["chosen"][0]
    assert choice["metric"] == ("test_accuracy" if by == "seeds" else "validation_accuracy")
    assert choice["values"]["lr=0.1"] > choice["values"]["lr=1e-07"]
    choosing = {cell.seed for cell in running.cells() if cell.chooses}
    assert choosing == {1000}
    outcome = flatfed("study", "show", tmp_path)
    assert running.study.select.sentence in outcome.out
    assert "chosen for fedavg: lr=0.1" in outcome.out


def test_a_metric_of_which_less_is_better(tmp_path: Path) -> None:
    running = run_here(tmp_path, **GRID, select={"metric": "loss"})
    assert reported(running) == [{"lr": 0.1}]
    values = running.table().to_dict()["chosen"][0]["values"]
    assert 0 < values["lr=0.1"] < values["lr=1e-07"]


def test_of_equal_points_the_first_is_chosen_and_one_that_diverged_never(tmp_path: Path) -> None:
    # Without any step that counts, all have the same accuracy.
    grid = {"fedavg": {"lr": [1e30, 1e-30, 1e-31]}}
    running = run_here(tmp_path, **GRID | {"grid": grid})
    assert reported(running) == [{"lr": 1e-30}]
    values = running.table().to_dict()["chosen"][0]["values"]
    assert values["lr=1e+30"] is None
    assert values["lr=1e-30"] == values["lr=1e-31"]


def test_where_all_points_diverge_the_first_is_reported_and_says_so(tmp_path: Path) -> None:
    running = run_here(tmp_path, **GRID | {"grid": {"fedavg": {"lr": [1e30, 2e30]}}})
    assert reported(running) == [{"lr": 1e30}]
    assert running.table().entry("", "fedavg").has_diverged


def test_a_grid_for_all_and_one_for_a_method(tmp_path: Path) -> None:
    grid = {"all": {"lr": [1e-7, 0.1]}, "fedsam": {"rho": [0.01]}}
    running = run_here(tmp_path, rounds=1, methods=["fedavg", "fedsam"], grid=grid)
    assert reported(running) == [{"lr": 0.1}, {"lr": 0.1, "rho": 0.01}]


# The split.


def recipe(**changes: Any) -> TaskRecipe:
    return TaskRecipe(**{"dataset": "digits", "clients": 5, "model": "logreg", "validation": 0.2, **changes})


def test_what_is_held_out_is_in_no_clients_part() -> None:
    whole = recipe(validation=None)
    parts, held = recipe()._divided()
    assert held is not None
    assert sorted(np.concatenate([*parts, held]).tolist()) == sorted(np.concatenate(whole.parts()).tolist())
    assert len(set(np.concatenate([*parts, held]).tolist())) == sum(map(len, whole.parts()))
    assert len(held) == sum(round(0.2 * len(part)) for part in whole.parts())
    task = recipe().build()
    assert len(task.test_sets["validation"]) == len(held)
    assert sum(task.samples(client) for client in range(5)) == sum(map(len, parts))


def test_all_seeds_with_one_partition_hold_out_the_same() -> None:
    first, second = (recipe(seed=seed, partition_seed=3)._divided() for seed in (0, 1))
    assert np.array_equal(first[1], second[1])


def test_a_client_keeps_an_example_and_a_share_of_nothing_is_refused() -> None:
    parts, held = divided([np.array([4]), np.array([], np.int64), np.array([1, 2, 3, 5, 6])], 0.9)
    assert [len(part) for part in parts] == [1, 0, 1]
    assert len(held) == 4
    with pytest.raises(ConfigError, match="validation"):
        divided([np.array([1]), np.array([2])], 0.5)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        recipe(validation=1.5).build()


def test_a_run_measures_on_what_it_holds_out(tmp_path: Path) -> None:
    options = ("--rounds", 1, "--clients", 5, "--model", "logreg", "--workers", 0)
    outcome = flatfed("run", "digits", "fedavg", "--validation", 0.2, *options, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert "validation_accuracy" in (tmp_path / "run" / "history.jsonl").read_text()
    refused = flatfed("run", "digits", "fedavg", "--validation", 2, *options, "--out", tmp_path / "other")
    assert refused.code == 2
    assert "--validation must be between 0 and 1" in refused.err


def test_a_grid_of_one_value_is_what_a_method_has_and_nothing_is_chosen(tmp_path: Path) -> None:
    methods = {"fedavg": "fedavg", "longer": "fedavg"}
    running = run_here(tmp_path, rounds=2, seeds=[0], methods=methods, grid={"longer": {"rounds": [3]}})
    assert reported(running) == [{}, {"rounds": 3}]
    assert not [cell for cell in running.cells() if cell.chooses]
    outcome = flatfed("study", "show", tmp_path)
    assert "chosen" not in outcome.out


def test_runs_that_choose_with_fewer_rounds_take_less() -> None:
    alone = study_of(small(rounds=4)).check(jobs=1)
    select = {"rounds": 2, "metric": "accuracy"}
    searched = study_of(small(rounds=4, grid={"fedavg": {"lr": [0.1, 0.2]}}, select=select)).check(jobs=1)
    assert (searched.cells, searched.choosing) == (3, 2)
    assert searched.exchanged == 2 * alone.exchanged
    assert study_of(small(select={"rounds": None})).select.rounds is None
