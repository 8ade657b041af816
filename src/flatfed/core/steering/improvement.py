"""The best value of a column so far, and how long ago it was."""

from __future__ import annotations

from flatfed.core.steering.history_columns import Row, SteeringColumn


class Improvement:
    """Follows a column from row to row.

    Attributes:
        best: the best value so far; None before there is one.
        round: the round of it, from 0.
        since: how many values came after it, or after `begin_anew`, and were not better by more than `delta`.
    """

    def __init__(self, column: SteeringColumn, delta: float = 0.0) -> None:
        self.column, self._delta = column, delta
        self.best: float | None = None
        self.round, self.since = -1, 0

    def take(self, row: Row) -> bool:
        """Take a row, and say whether it has a better value; one that is not finite is no improvement."""
        if not self.column.is_in(row):
            return False
        value = self.column.value(row)
        if value is None or not self._is_better(value):
            self.since += 1
            return False
        self.best, self.round, self.since = value, row["round"], 0
        return True

    def since_with(self, row: Row) -> int:
        """Return what `since` will be when a row is taken."""
        if not self.column.is_in(row):
            return self.since
        value = self.column.value(row)
        return 0 if value is not None and self._is_better(value) else self.since + 1

    def begin_anew(self) -> None:
        """Count from here on; the best value stays what is to be bettered."""
        self.since = 0

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return True
        if self.column.higher_is_better:
            return value > self.best + self._delta
        return value < self.best - self._delta
