"""The metrics of a run: final, last-n mean and best of each, labelled, with cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flatfed.core.configuration.settings import averaged_rounds
from flatfed.core.task.metrics import ACCURACY, LOSS
from flatfed.core.task.task import TEST
from flatfed.runs.metrics import Metric, metrics_of, primary_of

Row = dict[str, Any]

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
        "rounds": len(rows),
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
    times = [row["client_seconds"] for row in rows if row.get("client_seconds") is not None]
    if times:
        costs["client_seconds"] = _mean(times)
    costs["rejected"] = sum(len(row.get("rejected", [])) for row in rows)
    return costs


def _total(name: str, rows: Sequence[Row]) -> Any:
    return sum(row[name] for row in rows)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
