"""The columns of a history that may steer a run: which there are, which values are better, which are of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flatfed.core.configuration.history_conditions import Condition, monitored_name
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.evaluation.evaluator import GLOBAL, named
from flatfed.core.task.metrics import LOSS, Declared, declared
from flatfed.core.task.task import TEST, VALIDATION, Task

Row = Mapping[str, Any]

WATCH = "watch."
"""Before the name of a number that a method or a measurement puts into `watch`."""
NUMBERS = ("lr", "update_norm", "model_norm", "bytes_down", "bytes_up", "backprops")
"""Numbers of every row of which neither more nor less is better."""


@dataclass(frozen=True)
class SteeringColumn:
    """A column of the history.

    Args:
        name: as the history has it, or `watch.NAME`.
        higher_is_better: None where that is not known.
        of_test: whether it is of examples that nothing should be selected on.
        is_share: whether its values lie between 0 and 1.
        by_evaluation: whether only evaluated rounds have it.
    """

    name: str
    higher_is_better: bool | None = None
    of_test: bool = False
    is_share: bool = False
    by_evaluation: bool = False

    def is_in(self, row: Row) -> bool:
        """Say whether a row has it."""
        return self._short in self._place(row)

    def value(self, row: Row) -> float | None:
        """Return its value in a row; None where the row lacks it, or it is not finite."""
        value: float | None = self._place(row).get(self._short)
        return value

    @property
    def _short(self) -> str:
        return self.name.removeprefix(WATCH)

    def _place(self, row: Row) -> Row:
        place: Row = row.get("watch", {}) if self.name.startswith(WATCH) else row
        return place


class HistoryColumns:
    """The columns that a run's history will have.

    Args:
        tests: the names of its test sets.
        metrics: the numbers that a test gives besides the loss, and how they are shown.
        is_complete: whether these are all; metrics of the user's own need not say in advance what they give.
        averages: whether the global model is evaluated beside an average.
    """

    def __init__(
        self, tests: Sequence[str], metrics: Declared, is_complete: bool = True, averages: bool = True
    ) -> None:
        self._tests, self._is_complete = tests, is_complete
        plain = [SteeringColumn("train_loss", higher_is_better=False), *map(SteeringColumn, NUMBERS)]
        whose = ("", GLOBAL) if averages else ("",)
        numbers = {"loss": LOSS, **metrics}
        for model in whose:
            for test in tests:
                for metric, how in numbers.items():
                    better, unit = (None, "") if how is None else (how.higher_is_better, how.unit)
                    column = named(test, metric, model)
                    plain.append(SteeringColumn(column, better, test != VALIDATION, unit == "%", by_evaluation=True))
        self._known = {column.name: column for column in plain}

    @classmethod
    def of(cls, task: Task, averages: bool) -> HistoryColumns:
        """Return those of a task; where only its clients have test examples, these are the test."""
        tests = list(task.test_sets)
        if not task.holds_examples and not tests:
            tests = [TEST]
        return cls(tests, declared(task.metrics), hasattr(task.metrics, "shown"), averages)

    def find(self, name: str) -> SteeringColumn:
        """Return a column by its name, or an error that names the nearest ones."""
        if name in self._known:
            return self._known[name]
        if name.startswith(WATCH):
            return SteeringColumn(name)
        if not self._is_complete and name.startswith(tuple(f"{test}_" for test in self._tests)):
            return SteeringColumn(name, of_test=not name.startswith(f"{VALIDATION}_"), by_evaluation=True)
        known = [column for column in self._known if not column.startswith(f"{GLOBAL}_")]
        unknown = nearest(name, known, "column of the history")
        raise ConfigError(f"{unknown} (a number that is watched is written {WATCH}NAME)")

    def of_condition(self, condition: Condition) -> SteeringColumn:
        """Return the column of a condition; a share that is compared with a number of per cent is an error."""
        column = self.find(condition.column)
        if column.is_share and condition.number > 1:
            share = f"{condition.column}{condition.sign}{condition.number / 100:g}"
            raise ConfigError(f"{condition.column} is a share between 0 and 1; write {share}")
        return column

    def monitored(self, text: str) -> SteeringColumn:
        """Return the column that is monitored; which values are better must be known."""
        name = monitored_name(text)
        column = self.find(name.column)
        better = column.higher_is_better if name.higher_is_better is None else name.higher_is_better
        if better is None:
            raise ConfigError(
                f"it is not known whether more or less of {name.column} is better; write {name.column}:min or "
                f"{name.column}:max"
            )
        return replace(column, higher_is_better=better)
