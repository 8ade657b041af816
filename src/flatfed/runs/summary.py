"""The figures of a run: final, last-n mean and best accuracy, each labelled, with cost."""

from __future__ import annotations

from typing import Any

from flatfed.core.settings import averaged_rounds

Row = dict[str, Any]


def summarise(rows: list[Row], rounds: int, last: int | None) -> dict[str, Any]:
    """Return what a table shows of one run.

    `accuracy_final` is of the last evaluated round, `accuracy_last_mean` the mean over the evaluated rounds
    among the last ones (`last_count` of them, see `averaged_rounds`), `accuracy_best` the maximum over all. Where an
    average was evaluated, the same of the global model are `global_accuracy_final` and so on. `client_seconds` is the
    mean over the rounds.
    """
    tested = {row["round"]: row["test_accuracy"] for row in rows if row.get("test_accuracy") is not None}
    losses = [row["test_loss"] for row in rows if row.get("test_loss") is not None]
    times = [row["client_seconds"] for row in rows if row.get("client_seconds") is not None]
    first = rounds - averaged_rounds(rounds, last)
    return {
        "rounds": len(rows),
        **_accuracies(tested, first),
        **_of_global_model(rows, tested, first),
        "test_loss_final": losses[-1] if losses else None,
        "bytes_down": sum(row["bytes_down"] for row in rows),
        "bytes_up": sum(row["bytes_up"] for row in rows),
        "backprops": sum(row["backprops"] for row in rows),
        "seconds": sum(row["seconds"] for row in rows),
        "client_seconds": sum(times) / len(times) if times else None,
        "refused": sum(len(row.get("refused", [])) for row in rows),
    }


def _accuracies(tested: dict[int, float], first: int) -> dict[str, float | None]:
    """Return final, last mean (from round `first` on) and best of the evaluated rounds' accuracies."""
    tail = [accuracy for round, accuracy in tested.items() if round >= first]
    return {
        "accuracy_final": list(tested.values())[-1] if tested else None,
        "accuracy_last_mean": sum(tail) / len(tail) if tail else None,
        "last_count": len(tail),
        "accuracy_best": max(tested.values(), default=None),
    }


def _of_global_model(rows: list[Row], tested: dict[int, float], first: int) -> dict[str, float | None]:
    """Return the global model's accuracies where an average was evaluated; rows without its own had one model only."""
    own = {row["round"]: row["global_accuracy"] for row in rows if row.get("global_accuracy") is not None}
    found = _accuracies(tested | own, first) if own else {}
    return {f"global_{name}": value for name, value in found.items() if name != "last_count"}
