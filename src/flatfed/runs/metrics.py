"""The metrics of a run: which numbers its history holds of each test set, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.evaluation.metrics import ACCURACY, LOSS, SEGMENTATION, Declared, Shown, declared
from flatfed.core.task.task import TEST, Task

Row = dict[str, Any]

KNOWN = {"accuracy": ACCURACY, "loss": LOSS}
"""How numbers are shown that nobody declared."""

GLOBAL = "global"
"""Not a test set: the last global model on `test`, where a run evaluates a weight average."""


@dataclass(frozen=True)
class Metric:
    """One number of the history: what was measured, on which test set, and how it is shown.

    Attributes:
        test: the test set.
        name: the number's name, as the task's metrics call it.
        shown: label, unit and direction.
        hidden: whether tables leave it out.
    """

    test: str
    name: str
    shown: Shown
    hidden: bool = False

    @property
    def column(self) -> str:
        """Its name in the history."""
        return f"{self.test}_{self.name}"

    @property
    def stem(self) -> str:
        """Its name in summaries, before `_final`, `_last_mean` and `_best`."""
        return self.name if self.column == "test_accuracy" else self.column

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.shown.label or self.name.replace("_", " ")

    @property
    def title(self) -> str:
        """The same with test set and unit: `test accuracy in %`."""
        return f"{self.test} {self.label}" + (f" in {self.shown.unit}" if self.shown.unit else "")

    @property
    def axis(self) -> str:
        """The same as a figure says it: `test accuracy (%)`."""
        return f"{self.test} {self.label}" + (f" ({self.shown.unit})" if self.shown.unit else "")

    @property
    def scale(self) -> float:
        """What a value is multiplied by for people: shares are printed in per cent."""
        return 100.0 if self.shown.unit == "%" else 1.0

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best of some values, or None where no direction is known."""
        if self.shown.higher_is_better is None:
            return None
        return max(values, default=None) if self.shown.higher_is_better else min(values, default=None)

    def reaches(self, value: float, target: float) -> bool:
        """Say whether a value is as good as the target."""
        return value >= target if self.shown.higher_is_better else value <= target

    def values(self, rows: Sequence[Row]) -> list[tuple[int, float]]:
        """Return rounds (from 0) and values where it was measured."""
        found = [(row["round"], self._of(row)) for row in rows]
        return [(round, value) for round, value in found if value is not None]

    def _of(self, row: Row) -> float | None:
        # A row without figures of the global model is of a round in which the evaluated model was the global one.
        same = row.get(f"{TEST}_{self.name}") if self.test == GLOBAL else None
        value: float | None = row.get(self.column, same)
        return value


def describe_metrics(task: Task) -> dict[str, Any]:
    """Return what a run's configuration says of a task's metrics and test sets."""
    shown = {name: how and how.to_dict() for name, how in declared(task.metrics).items()}
    return {"metrics": shown, "test_sets": list(task.test_sets)}


def metrics_of(rows: Sequence[Row], config: Mapping[str, Any] | None = None) -> list[Metric]:
    """Return every number that the test sets have in a history, those of a set together, its primary metric first.

    Runs of older versions did not record their metrics: those are told from the names.
    """
    names = _numbers(rows)
    tests = list((config or {}).get("test_sets") or _test_sets(names))
    found = [metric for test in tests for metric in _of_test(test, names, _declared(config, names))]
    averaged = [Metric(GLOBAL, m.name, m.shown, hidden=True) for m in found if m.test == TEST]
    return [*found, *(metric for metric in averaged if GLOBAL not in tests and metric.column in names)]


def primary_of(metrics: Sequence[Metric], config: Mapping[str, Any] | None = None) -> Metric:
    """Return the metric that a table goes by: the first that was measured, or the one that will be."""
    measured = [metric for metric in metrics if not metric.hidden]
    if measured:
        return measured[0]
    promised = [(name, shown) for name, shown in _declared(config, {}).items() if shown is not None]
    return Metric(TEST, *(promised[0] if promised else ("accuracy", ACCURACY)))


def _numbers(rows: Sequence[Row]) -> dict[str, None]:
    """Return the names of all columns that hold numbers, in the order in which they first appear."""
    return dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, int | float))


def _test_sets(names: Iterable[str]) -> list[str]:
    """Return the test sets that columns speak of: `test`, and others that have a loss."""
    losses = [name.removesuffix("_loss") for name in names if name.endswith("_loss")]
    sets = [name for name in losses if name not in (TEST, "train", GLOBAL) and not name.startswith(f"{TEST}_")]
    apart = [name for name in sets if not any(name.startswith(f"{other}_") for other in sets)]
    return [TEST, *apart]


def _of_test(test: str, names: Iterable[str], shown: Declared) -> list[Metric]:
    """Return a set's metrics: declared ones in their order, then others, the loss last."""
    given = [name.removeprefix(f"{test}_") for name in names if name.startswith(f"{test}_")]
    ordered = dict.fromkeys([name for name in shown if name in given] + [name for name in given if name != "loss"])
    ends = [*ordered, *(["loss"] if "loss" in given and "loss" not in ordered else [])]
    return [_metric(test, name, shown) for name in ends]


def _metric(test: str, name: str, shown: Declared) -> Metric:
    usual = KNOWN.get(name, Shown())
    how = shown.get(name, usual)
    return Metric(test, name, how or usual, hidden=how is None)


def _declared(config: Mapping[str, Any] | None, names: Iterable[str]) -> Declared:
    recorded = (config or {}).get("metrics")
    if recorded is None:
        return SEGMENTATION if "test_miou" in names else {}
    return {name: Shown(**shown) if shown else None for name, shown in recorded.items()}
