"""Every tracker under one battery: how a test makes it, and how it reads back what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import flatfed as ff
from tracking import readers
from tracking.readers import Found
from tracking.server import MLflowServer


@dataclass(frozen=True)
class Bench:
    """Where a test's trackers send to."""

    folder: Path
    server: MLflowServer


@dataclass(frozen=True)
class Row:
    """A tracker: what makes it, and what reads a run back by its id there."""

    make: Callable[[Bench], ff.Tracker]
    read: Callable[[Bench, str], Found]
    name: Callable[[str], str] = lambda name: name
    """How it calls a number of the history."""
    has_model: bool = True


TRACKERS = {
    "mlflow": Row(
        lambda bench: ff.MLflow(uri=bench.server.uri, experiment="tests", patience=300),
        lambda bench, id: readers.from_mlflow(bench.server.store, id),
    ),
    "tensorboard": Row(
        lambda bench: ff.TensorBoard(),
        lambda bench, id: readers.from_tensorboard(Path(id)),
        lambda name: name.replace("test_", "test/").replace("train_", "train/").replace("bytes_", "bytes/"),
        has_model=False,
    ),
    "wandb": Row(
        lambda bench: ff.WandB(project="tests", folder=str(bench.folder), patience=300),
        lambda bench, id: readers.from_wandb(bench.folder, id),
    ),
}


def remote_of(path: Path, tracker: str) -> str:
    """Return what a tracker calls a run."""
    return str(json.loads((path / "tracking" / tracker / "sent.json").read_text())["remote"])


def steps(found: Found) -> list[int]:
    return [step for step, _ in found.rounds]
