"""The metrics of a run: which its history holds, how they are shown; final, last-n mean and best of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.configuration.settings import averaged_rounds
from flatfed.core.task.metrics import ACCURACY, LOSS, SEGMENTATION, Declared, Shown, declared
from flatfed.core.task.task import TEST, Task
from flatfed.runs.packed import rounds_of

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
        unit = f" in {self.shown.unit}" if self.shown.unit else ""
        return f"{self.test} {self.label}{unit}"

    @property
    def axis(self) -> str:
        """The same as a figure says it: `test accuracy (%)`."""
        unit = f" ({self.shown.unit})" if self.shown.unit else ""
        return f"{self.test} {self.label}{unit}"

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
        values = [(row["round"], self._of(row)) for row in rows]
        return [(round, value) for round, value in values if value is not None]

    def _of(self, row: Row) -> float | None:
        # A row without metrics of the global model is of a round in which the evaluated model was the global one.
        same = row.get(f"{TEST}_{self.name}") if self.test == GLOBAL else None
        value: float | None = row.get(self.column, same)
        return value


def describe_metrics(task: Task) -> dict[str, Any]:
    """Return what a run's configuration says of a task's metrics and test sets."""
    shown = {name: how and how.to_dict() for name, how in declared(task.metrics).items()}
    return {"metrics": shown, "test_sets": list(task.test_sets)}


def metrics_of(rows: Sequence[Row], config: Mapping[str, Any] | None = None) -> list[Metric]:
    """Return every number that the test sets have in a history, those of a set together, its primary metric first.

    Runs of older versions did not record their metrics: those are known from the names.
    """
    names = _numbers(rows)
    shown = _declared(config, names)
    tests = _recorded_tests(config) or _test_sets(names)
    metrics = [metric for test in tests for metric in _of_test(test, names, shown)]
    if GLOBAL in tests:  # a test set of that name, not the global model
        return metrics
    return metrics + [metric for metric in _of_global_model(metrics) if metric.column in names]


def _of_global_model(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the same numbers of the last global model: beside those of an average they are measured, not shown."""
    return [Metric(GLOBAL, metric.name, metric.shown, hidden=True) for metric in metrics if metric.test == TEST]


def primary_of(metrics: Sequence[Metric], config: Mapping[str, Any] | None = None) -> Metric:
    """Return the metric that a table goes by: the first that was measured, or the one that will be."""
    for metric in metrics:
        if not metric.hidden:
            return metric
    for name, shown in _declared(config, {}).items():
        if shown is not None:
            return Metric(TEST, name, shown)
    return Metric(TEST, "accuracy", ACCURACY)


def _numbers(rows: Sequence[Row]) -> dict[str, None]:
    """Return the names of all columns that hold numbers, in the order in which they first appear."""
    return dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, int | float))


def _recorded_tests(config: Mapping[str, Any] | None) -> list[str]:
    return [] if config is None else list(config.get("test_sets") or [])


def _test_sets(names: Iterable[str]) -> list[str]:
    """Return the test sets that columns speak of: `test`, and others that have a loss."""
    sets = [name.removesuffix("_loss") for name in names if name.endswith("_loss")]
    others = [name for name in sets if name not in (TEST, "train", GLOBAL) and not name.startswith(f"{TEST}_")]
    return [TEST, *(name for name in others if not _begins_with_another(name, others))]


def _begins_with_another(name: str, others: Sequence[str]) -> bool:
    """Say whether what looks like a set's name is a metric of another set: `unseen_hinge` of `unseen`."""
    return any(name.startswith(f"{other}_") for other in others)


def _of_test(test: str, names: Iterable[str], shown: Declared) -> list[Metric]:
    """Return a set's metrics: declared ones in their order, then others, the loss last."""
    measured = [name.removeprefix(f"{test}_") for name in names if name.startswith(f"{test}_")]
    first = [name for name in shown if name in measured]
    others = [name for name in measured if name != "loss"]
    ordered = dict.fromkeys([*first, *others, *measured])
    return [_metric(test, name, shown) for name in ordered]


def _metric(test: str, name: str, shown: Declared) -> Metric:
    usual = KNOWN.get(name, Shown())
    how = shown.get(name, usual)
    return Metric(test, name, how or usual, hidden=how is None)


def _declared(config: Mapping[str, Any] | None, names: Iterable[str]) -> Declared:
    recorded = None if config is None else config.get("metrics")
    if recorded is not None:
        return {name: Shown(**shown) if shown else None for name, shown in recorded.items()}
    return SEGMENTATION if "test_miou" in names else {}


TEST_ACCURACY, TEST_LOSS = Metric(TEST, "accuracy", ACCURACY), Metric(TEST, "loss", LOSS)
"""Every summary has these, None where a run does not measure them."""


def summarise(
    rows: list[Row], rounds: int, last: int | None, config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a table shows of one run.

    `accuracy_final` is of the last evaluated round, `accuracy_last_mean` the mean over the evaluated rounds
    among the last ones (`last_count` of them, see `averaged_rounds`), `accuracy_best` the maximum over all. Other
    metrics and test sets have the same under their names in the history: `test_miou_final`, `unseen_loss_last_mean`.
    Where an average was evaluated, `global_accuracy_final` and so on are of the global model. `config` is the
    run's, which says how its metrics are shown.
    """
    metrics, first = metrics_of(rows, config), rounds - averaged_rounds(rounds, last)
    primary = primary_of(metrics, config)
    accuracy, loss = _three(TEST_ACCURACY, rows, first), _three(TEST_LOSS, rows, first)
    summary: dict[str, Any] = {
        "rounds": sum(map(rounds_of, rows)),
        "accuracy_final": accuracy["accuracy_final"],
        "accuracy_last_mean": accuracy["accuracy_last_mean"],
        "last_count": sum(round >= first for round, _ in primary.values(rows)),
        "accuracy_best": accuracy["accuracy_best"],
        "test_loss_final": loss["test_loss_final"],
    }
    for metric in metrics:  # beside another metric, the final loss is enough
        if metric.column != TEST_LOSS.column or metric == primary:
            summary |= _three(metric, rows, first)
    return summary | _costs(rows)


def ended_after(rows: Sequence[Row], rounds: int, status: str) -> int:
    """Return after how many rounds a run ended, or will: all that are planned, or fewer where it finished early."""
    if status != "finished" or not rows:
        return rounds
    return min(rounds, int(rows[-1]["round"]) + 1)


def last_mean(metric: Metric, rows: Sequence[Row], rounds: int, last: int | None) -> float | None:
    """Return the mean over the evaluated rounds among the last ones, of any metric; None where there is none."""
    return _three(metric, rows, rounds - averaged_rounds(rounds, last))[f"{metric.stem}_last_mean"]


def _three(metric: Metric, rows: Sequence[Row], first: int) -> dict[str, float | None]:
    """Return the final value, the mean from round `first` on, and the best."""
    values = metric.values(rows)
    tail = [value for round, value in values if round >= first]
    return {
        f"{metric.stem}_final": values[-1][1] if values else None,
        f"{metric.stem}_last_mean": _mean(tail),
        f"{metric.stem}_best": metric.best(value for _, value in values),
    }


def _costs(rows: Sequence[Row]) -> dict[str, Any]:
    """Return totals; `client_seconds` is a mean over the rounds that have it."""
    costs: dict[str, Any] = {name: _total(name, rows) for name in ("bytes_down", "bytes_up", "backprops", "seconds")}
    seconds = mean_client_seconds(rows)
    if seconds is not None:
        costs["client_seconds"] = seconds
    costs["rejected"] = sum(len(row.get("rejected", [])) for row in rows)
    return costs


def asked_clients(row: Row) -> set[int]:
    """Return who took part in a round: clients whose update was rejected sent and computed as well."""
    return {*row["clients"], *(entry["client"] for entry in row.get("rejected", ()))}


def mean_client_seconds(rows: Sequence[Row]) -> float | None:
    """Return the mean time of a client's training over the rounds that have it; None where none has."""
    times = [(row["client_seconds"], rounds_of(row)) for row in rows if row.get("client_seconds") is not None]
    if not times:
        return None
    total: float = sum(seconds * count for seconds, count in times)
    return total / sum(count for _, count in times)


def _total(name: str, rows: Sequence[Row]) -> Any:
    return sum(row[name] for row in rows)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
