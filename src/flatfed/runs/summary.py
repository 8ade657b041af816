"""The figures of a run: final, last-n mean and best accuracy, each labelled, with cost."""

from __future__ import annotations

from typing import Any

from flatfed.core.settings import averaged_rounds

Row = dict[str, Any]


def summarise(rows: list[Row], rounds: int, last: int | None) -> dict[str, Any]:
    """Return what a table shows of one run.

    `accuracy_final` is of the last evaluated round, `accuracy_last_mean` the mean over the evaluated rounds
    among the last ones (`last_count` of them, see `averaged_rounds`), `accuracy_best` the maximum over all.
    """
    tested = [row for row in rows if row.get("test_accuracy") is not None]
    tail = [row["test_accuracy"] for row in tested if row["round"] >= rounds - averaged_rounds(rounds, last)]
    losses = [row["test_loss"] for row in rows if row.get("test_loss") is not None]
    return {
        "rounds": len(rows),
        "accuracy_final": tested[-1]["test_accuracy"] if tested else None,
        "accuracy_last_mean": sum(tail) / len(tail) if tail else None,
        "last_count": len(tail),
        "accuracy_best": max((row["test_accuracy"] for row in tested), default=None),
        "test_loss_final": losses[-1] if losses else None,
        "bytes_down": sum(row["bytes_down"] for row in rows),
        "bytes_up": sum(row["bytes_up"] for row in rows),
        "backprops": sum(row["backprops"] for row in rows),
        "seconds": sum(row["seconds"] for row in rows),
        "refused": sum(len(row.get("refused", [])) for row in rows),
    }
