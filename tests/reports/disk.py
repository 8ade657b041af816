"""Run directories with known figures, written by the same code that training uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flatfed.algorithms.spelling import parse_method, spelling_of
from flatfed.core.configuration.settings import Settings
from flatfed.core.round.sampling import Uniform
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import History

BYTES, BACKPROPS, SECONDS = 1_000_000, 40, 0.5
MODEL_BYTES = BYTES // 4


def write_run(
    path: Path,
    method: str = "fedavg",
    seed: int = 0,
    accuracies: tuple[float | None, ...] = (0.2, 0.6, 0.5),
    status: str = "finished",
    reason: str = "",
    parameters: dict[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """Write a run whose rounds had these accuracies (None: not evaluated)."""
    made = parse_method(method, parameters)
    chosen = Settings(seed=seed, **{"rounds": max(len(accuracies), 1), "lr": 0.1, "evaluate_last": 2} | settings)
    config = {
        "method": spelling_of(made.algorithm, made.average),
        "algorithm": made.algorithm.to_dict(),
        "average": made.average.to_dict() if made.average else None,
        "sampler": Uniform(2).to_dict(),
        "settings": {name: value for name, value in chosen.to_dict().items() if name != "id"},
        "workers": 0,
        "checkpoint_every": None,
        "model_bytes": MODEL_BYTES,
        "task": {"kind": "catalogue", "dataset": "digits", "clients": 5, "partition": {"id": "iid"}, "seed": seed},
    }
    directory = RunDirectory.create(path, config)
    directory.publish()
    history = History(directory.history_path)
    for round, accuracy in enumerate(accuracies):
        history.append(row(round, accuracy))
    history.close()
    directory.set_status(status, reason)
    return path


def row(round: int, accuracy: float | None) -> dict[str, Any]:
    cost = {"bytes_down": BYTES, "bytes_up": 2 * BYTES, "backprops": BACKPROPS, "seconds": SECONDS}
    reported = {} if accuracy is None else {"test_accuracy": accuracy, "test_loss": 1.0 - accuracy}
    return {"round": round, "clients": [0, 1], "lr": 0.1, "train_loss": 2.0 / (round + 1), **cost, **reported}
