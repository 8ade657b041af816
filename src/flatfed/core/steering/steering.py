"""What follows from a run's rows: the end of the run, its best model, a lower learning rate.

All of it is a function of the rows so far, in their order. So it is the same on any number of workers, and a run that
is resumed takes its rows again to be where it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flatfed.core.configuration.history_conditions import Condition, Plateau, conditions
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import OTHER, PARAMETER, ConfigError
from flatfed.core.steering.history_columns import HistoryColumns, Row, SteeringColumn
from flatfed.core.steering.improvement import Improvement
from flatfed.core.task.task import VALIDATION

ON_TEST = "this selects on test data"


@dataclass(frozen=True)
class BestSoFar:
    """The best evaluation: after which round (from 0), what was monitored, and its value there."""

    round: int
    column: SteeringColumn
    value: float


class Steering:
    """The rules of one run and where they stand after the rows that were taken.

    Args:
        settings: of the run.
        columns: that its history will have.
        seams: rounds (from 0) that were evaluated only because the run ended with them, before it was given more. A
            run that had them from the start does not evaluate them: they decide nothing but which model is best.

    Attributes:
        stop: why the run is to end; empty where it goes on.
    """

    def __init__(self, settings: Settings, columns: HistoryColumns, seams: Collection[int] = ()) -> None:
        self._seams = frozenset(seams)
        self._rounds = settings.rounds
        self._conditions = _conditions(settings, columns)
        self._patience = settings.patience
        self._waited = _waited(settings, columns)
        self._best = _best(settings, columns)
        self._plateau, self._rate = _plateau(settings, columns)
        self._delta = settings.min_delta
        self._cuts: list[int] = []
        self._last = -1
        self.stop = ""

    @property
    def is_active(self) -> bool:
        """Whether anything depends on the rows: each must then be whole before the next round begins."""
        return bool(self._conditions) or any((self._waited, self._best, self._plateau))

    @property
    def keeps_best(self) -> bool:
        """Whether the best model is kept."""
        return self._best is not None

    @property
    def best(self) -> BestSoFar | None:
        """The best evaluation so far, where the best model is kept."""
        if self._best is None or self._best.best is None:
            return None
        return BestSoFar(self._best.round, self._best.column, self._best.best)

    def columns(self) -> list[tuple[str, SteeringColumn]]:
        """Return the columns that decide something, each with the setting that asks for it."""
        followed = {"patience": self._waited, "keep_best": self._best, "lr_plateau": self._rate}
        named = [("stop_when", column) for _, column in self._conditions]
        return named + [(name, each.column) for name, each in followed.items() if each is not None]

    def ends(self, row: Row) -> bool:
        """Say whether a row that is not evaluated yet ends the run already: the run's last model is evaluated."""
        if any(_meets(row, condition, column) for condition, column in self._conditions):
            return True
        if self._waited is None or self._patience is None:
            return False
        return self._waited.since_with(row) >= self._patience

    def take(self, row: Row) -> bool:
        """Take the next row, and say whether its model is the best so far; one that was taken before is passed over."""
        if row["round"] <= self._last:
            return False
        self._last = row["round"]
        is_best = self._best is not None and self._best.take(row)
        self._lower_rate(row)
        self._decide(row)
        return is_best

    def take_all(self, rows: Iterable[Row]) -> None:
        """Take the rows that a run goes on from."""
        if self.is_active:
            for row in rows:
                self.take(row)

    def lr(self, lr: float, round: int) -> float:
        """Return the learning rate of a round: as scheduled, or lowered after rounds before it."""
        if self._plateau is None:
            return lr
        cuts = sum(cut < round for cut in self._cuts)
        if not cuts:
            return lr
        # Where the schedule is below the bound by itself, it is left there.
        return min(lr, max(lr * self._plateau.factor**cuts, self._plateau.min_lr))

    def _is_passed_over(self, row: Row, column: SteeringColumn) -> bool:
        """Say whether a value is there only because the run had ended with its row."""
        return column.by_evaluation and row["round"] in self._seams

    def _lower_rate(self, row: Row) -> None:
        if self._plateau is None or self._rate is None or self._is_passed_over(row, self._rate.column):
            return
        self._rate.take(row)
        if self._rate.since >= self._plateau.patience:
            self._cuts.append(row["round"])
            self._rate.begin_anew()

    def _decide(self, row: Row) -> None:
        """Say why the run ends after this row, if it does; the first reason stays."""
        if self._waited is not None and not self._is_passed_over(row, self._waited.column):
            self._waited.take(row)
        reason = self._met(row) or self._exhausted()
        if reason and not self.stop:
            self.stop = f"ended early, after round {row['round'] + 1} of {self._rounds}: {reason}"

    def _met(self, row: Row) -> str:
        for condition, column in self._conditions:
            if _meets(row, condition, column) and not self._is_passed_over(row, column):
                return _with_remark(f"{condition} was met, with {column.value(row):.6g}", column)
        return ""

    def _exhausted(self) -> str:
        waited = self._waited
        if waited is None or self._patience is None or waited.since < self._patience:
            return ""
        better = f"better by more than {self._delta:g}" if self._delta else "better"
        text = f"{waited.since} values of {waited.column.name}, one after the other, were not {better}"
        if waited.best is None:
            return _with_remark(text, waited.column)
        return _with_remark(f"{text} than {waited.best:.6g} after round {waited.round + 1}", waited.column)


def _meets(row: Row, condition: Condition, column: SteeringColumn) -> bool:
    value = column.value(row)
    return value is not None and condition.holds(value)


def _with_remark(text: str, column: SteeringColumn) -> str:
    return f"{text}; {ON_TEST}" if column.of_test else text


def _conditions(settings: Settings, columns: HistoryColumns) -> list[tuple[Condition, SteeringColumn]]:
    if settings.stop_when is None:
        return []
    try:
        return [(condition, columns.of_condition(condition)) for condition in conditions(settings.stop_when)]
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter="stop_when") from None


def _waited(settings: Settings, columns: HistoryColumns) -> Improvement | None:
    if settings.patience is None:
        return None
    return Improvement(_monitored(settings, columns, "patience"), settings.min_delta)


def _best(settings: Settings, columns: HistoryColumns) -> Improvement | None:
    if not settings.keep_best:
        return None
    return Improvement(_monitored(settings, columns, "keep_best"))


def _plateau(settings: Settings, columns: HistoryColumns) -> tuple[Plateau | None, Improvement | None]:
    if settings.lr_plateau is None:
        return None, None
    rule = Plateau.parse(settings.lr_plateau)
    if not rule.monitor:
        return rule, Improvement(_monitored(settings, columns, "lr_plateau"), rule.min_delta)
    try:
        return rule, Improvement(columns.monitored(rule.monitor), rule.min_delta)
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter="lr_plateau") from None


def _monitored(settings: Settings, columns: HistoryColumns, asking: str) -> SteeringColumn:
    """Return the column that is monitored; where nothing is said and nothing is held out, say what to do."""
    if settings.monitor is None:
        raise ConfigError(
            f"{PARAMETER} needs something to go by that is no test: hold out a share of the examples, {OTHER} 0.1, or "
            "name a column of the history as monitor",
            parameter=asking,
            other=VALIDATION,
        )
    try:
        return columns.monitored(settings.monitor)
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter="monitor") from None
