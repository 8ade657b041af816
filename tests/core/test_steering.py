"""What follows from rows alone: conditions, patience, the best one, and a rate that is lowered on a plateau."""

from __future__ import annotations

from typing import Any

import pytest

import flatfed as ff
from flatfed.core.configuration.history_conditions import Condition, Plateau, conditions
from flatfed.core.configuration.settings import Settings
from flatfed.core.steering.history_columns import HistoryColumns
from flatfed.core.steering.steering import Steering
from flatfed.core.task.metrics import ACCURACY

COLUMNS = HistoryColumns(["test", "validation"], {"accuracy": ACCURACY})


def steering(**given: Any) -> Steering:
    return Steering(Settings(rounds=100, lr=1.0, **{"monitor": "validation_loss"} | given), COLUMNS)


def rows(*losses: float | None) -> list[dict[str, Any]]:
    return [{"round": round, "validation_loss": loss} for round, loss in enumerate(losses)]


def ended(rules: Steering, given: list[dict[str, Any]]) -> int | None:
    """Return after which row the rules end the run."""
    for row in given:
        rules.take(row)
        if rules.stop:
            return int(row["round"])
    return None


# Conditions.


def test_conditions_are_read_as_they_are_written() -> None:
    assert conditions("test_accuracy > 0.9,update_norm<=1e-3") == (
        Condition("test_accuracy", ">", 0.9),
        Condition("update_norm", "<=", 0.001),
    )
    assert Settings(rounds=1, lr=1, stop_when=["a<1", "b>=2"]).stop_when == "a<1.0, b>=2.0"


@pytest.mark.parametrize(
    "text", ["", "test_loss", "test_loss=1", "test_loss<", "<1", "a<1,", "a<nan", "a<1e999", "a<<1"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ff.ConfigError, match=r"stop_when: .*test_accuracy>0.9"):
        Settings(rounds=1, lr=1, stop_when=text)


def test_a_column_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(ff.ConfigError, match=r"stop_when: unknown column.*did you mean 'test_accuracy'"):
        steering(stop_when="test_acuracy>0.9")
    with pytest.raises(ff.ConfigError, match=r"stop_when: test_accuracy is a share.*write test_accuracy>0.9"):
        steering(stop_when="test_accuracy>90")
    with pytest.raises(ff.ConfigError, match="unknown column"):
        steering(stop_when="seconds>60")  # the clock decides nothing
    with pytest.raises(ff.ConfigError, match=r"monitor: .*write update_norm:min"):
        steering(patience=1, monitor="update_norm")


@pytest.mark.parametrize(("sign", "at"), [("<", 2), ("<=", 1)])
def test_the_first_row_that_meets_a_condition_ends_the_run(sign: str, at: int) -> None:
    rules = steering(stop_when=f"lr>5, validation_loss{sign}0.5")
    assert ended(rules, rows(0.9, 0.5, 0.4)) == at
    assert f"after round {at + 1} of 100" in rules.stop


def test_a_watched_number_may_be_a_condition_and_one_that_is_not_finite_meets_none() -> None:
    rules = steering(stop_when="watch.lambda_max<3, validation_loss<9")
    assert ended(rules, [{"round": 0}, {"round": 1, "validation_loss": None, "watch": {"lambda_max": None}}]) is None
    assert ended(rules, [{"round": 2, "watch": {"lambda_max": 2.5}}]) == 2


# Patience and the best.


@pytest.mark.parametrize(
    ("losses", "given", "at"),
    [
        ((3, 2, 2, 2), {"patience": 2}, 3),
        ((3, 2, 2.5, 1, 1, 1), {"patience": 2}, 5),
        ((3, 2.9, 2.8, 2.7), {"patience": 2, "min_delta": 0.5}, 2),
        ((3, 2.9, 2.4, 2.3, 2.2), {"patience": 2, "min_delta": 0.5}, 4),
        ((None, None, 1, None, None), {"patience": 2}, 1),
        ((3, 2, 1, 0.5), {"patience": 1}, None),
        ((3, 2, 1), {"patience": 1, "monitor": "validation_loss:max"}, 1),
    ],
)
def test_patience_ends_a_run_that_does_not_improve(losses: Any, given: dict[str, Any], at: int | None) -> None:
    assert ended(steering(**given), rows(*losses)) == at


def test_rows_without_the_column_do_not_count() -> None:
    given = [
        {"round": 0, "validation_loss": 1.0},
        *({"round": n} for n in range(1, 9)),
        {"round": 9, "validation_loss": 2},
    ]
    assert ended(steering(patience=1), given) == 9


def test_the_best_is_the_first_of_equals_whatever_min_delta_is() -> None:
    rules = steering(keep_best=True, min_delta=10.0)
    assert [rules.take(row) for row in rows(3, 2, 2, None, 1.9)] == [True, True, False, False, True]
    best = rules.best
    assert best is not None and (best.round, best.value, best.column.name) == (4, 1.9, "validation_loss")


def test_rows_that_are_taken_again_change_nothing() -> None:
    given, once, twice = rows(3, 2, 2.5, 2.4), steering(patience=3), steering(patience=3)
    once.take_all(given)
    for row in given:
        twice.take_all(given[: row["round"] + 1])
    assert (
        (once.stop, ended(once, rows(0, 0, 0, 0, 2.2))) == (twice.stop, ended(twice, rows(0, 0, 0, 0, 2.2))) == ("", 4)
    )


def test_a_column_of_a_test_says_so() -> None:
    rules = steering(patience=1, monitor="test_loss", keep_best=True)
    assert all(column.of_test for _, column in rules.columns())
    assert ended(rules, [{"round": 0, "test_loss": 1.0}, {"round": 1, "test_loss": 1.0}]) == 1
    assert rules.stop.endswith("this selects on test data")
    assert not any(column.of_test for _, column in steering(patience=1, stop_when="train_loss<1").columns())


def test_without_a_validation_set_a_column_must_be_named() -> None:
    for asked in ({"patience": 3}, {"keep_best": True}, {"lr_plateau": "factor=0.5"}):
        with pytest.raises(ff.ConfigError, match=f"{next(iter(asked))} needs something to go by that is no test"):
            steering(monitor=None, **asked)


# The plateau.


def test_a_plateau_s_rule_is_read_as_it_is_written() -> None:
    rule = Plateau(0.1, patience=3, min_lr=0.01)
    for text in ("0.1, 3, 0.01", "plateau(0.1, patience=3, min_lr=0.01)", str(rule)):
        assert Plateau.parse(text) == rule
    assert Settings(rounds=1, lr=1, lr_plateau=rule).lr_plateau == str(rule)
    assert Plateau.parse("factor=0.1, monitor=train_loss").monitor == "train_loss"
    for wrong in ("", "factor=2", "factor=half", "patience=0", "patience=1.5", "slowly=1", 0.5):
        with pytest.raises(ff.ConfigError, match="lr_plateau"):
            Settings(rounds=1, lr=1, lr_plateau=wrong)


def test_the_rate_is_lowered_after_patience_and_not_below_its_bound() -> None:
    rules = steering(lr_plateau="factor=0.5, patience=2, min_lr=0.3")
    given = rows(3, 2, 2, 2, 2, 2, 1, 1, 1)
    rates = []
    for row in given:
        rates.append(rules.lr(1.0, row["round"]))
        rules.take(row)
    assert rates == [1, 1, 1, 1, 0.5, 0.5, 0.3, 0.3, 0.3]
    assert [rules.lr(1.0, row["round"]) for row in given] == rates, "of rounds that are past too"
    assert rules.lr(0.1, 20) == 0.1, "a schedule that is below the bound stays there"


def test_the_evaluation_of_a_seam_decides_only_what_is_best() -> None:
    given = {"patience": 2, "keep_best": True, "lr_plateau": "factor=0.5, patience=2", "monitor": "validation_loss"}
    settings = Settings(rounds=100, lr=1.0, stop_when="validation_loss<0.5", **given)
    rules = Steering(settings, COLUMNS, seams=[2])
    rules.take_all(rows(3, 4, 0.1, 4))
    assert rules.best is not None and (rules.best.round, rules.best.value) == (2, 0.1)
    assert "2 values of validation_loss" in rules.stop and "after round 4" in rules.stop
    assert [rules.lr(1.0, round) for round in (3, 4)] == [1.0, 0.5]
    by_others = Steering(settings.replace(monitor="train_loss"), COLUMNS, seams=[1])
    by_others.take_all([{"round": 0, "train_loss": 1.0}, {"round": 1, "train_loss": 2.0}])
    assert by_others.lr(1.0, 2) == 1.0 and not by_others.stop
    by_others.take_all([{"round": 2, "train_loss": 2.0}])
    assert by_others.lr(1.0, 3) == 0.5 and by_others.stop, "every row has it, whether evaluated or not"
