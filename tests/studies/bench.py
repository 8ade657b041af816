"""Tiny studies, the processes that work on them, and what came of them, bit for bit."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nursery
from engines.bench import exact
from flatfed.core.round.federation import TIMES
from flatfed.runs.directory import RunDirectory
from flatfed.studies.reading import study_of
from flatfed.studies.run_study import RunningStudy

SMALL: Mapping[str, Any] = {
    "dataset": "digits",
    "rounds": 3,
    "clients": 5,
    "per_round": 2,
    "model": "logreg",
    "batch_size": 64,
    "lr": 0.1,
    "evaluate_every": 1,
    "checkpoint_every": 1,
    "methods": ["fedavg"],
}

COMMAND = "from flatfed.cli.main import main; main()"
SECONDS = 300.0
"""A bound for a broken program, never a pace."""

NETS = """
import os, signal, time
from pathlib import Path

from torch import nn

HERE = Path(__file__).parent


class Net(nn.Module):
    def __init__(self, classes, in_channels, image_size):
        super().__init__()
        self.head = nn.Linear(in_channels * image_size**2, classes)

    def forward(self, x):
        # Real batches alone: models are tried on two examples before they train.
        if self.training and len(x) > 2:
            self.act()
        return self.head(x.flatten(1))

    def act(self):
        pass


class Gated(Net):
    "Waits as long as there is a gate, from the second round on."

    def act(self):
        # Not through all folders: those of checkpoints come and go.
        histories = HERE.glob("out/cells/*/seed-*/history.jsonl")
        if not any(file.stat().st_size for file in histories) or not (HERE / "gate").exists():
            return
        (HERE / f"waits-{os.getpid()}").touch()
        while (HERE / "gate").exists():
            listener = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
            if getattr(listener, "requested", False):
                (HERE / f"told-{os.getpid()}").touch()
            time.sleep(0.01)


class Killer(Net):
    "Takes its process down, unless it is spared."

    def act(self):
        if not (HERE / "spared").exists():
            os.kill(os.getpid(), signal.SIGKILL)


class Raiser(Net):
    def act(self):
        if not (HERE / "spared").exists():
            raise RuntimeError("an error of the model's own")


class Leaver(Net):
    def act(self):
        print("printed by the model", flush=True)
        os._exit(0)
"""


def small(**changes: Any) -> dict[str, Any]:
    """Return the content of a study's file."""
    return {**SMALL, **changes}


def written(folder: Path, **changes: Any) -> Path:
    """Write a study's file, and models beside it."""
    file = folder / "study.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(small(**changes)))
    (folder / "nets.py").write_text(NETS)
    return file


def begin(file: Path, *options: str) -> nursery.Fresh:
    """Start `flatfed study run` in a process of its own, in the folder of the study's file."""
    return nursery.start("-c", COMMAND, "study", "run", file.name, "--out", "out", *options, cwd=file.parent)


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it does not come to pass")
        time.sleep(0.005)


def run_here(folder: Path, **changes: Any) -> RunningStudy:
    """Run a study by this process, one cell at a time, and return it."""
    running = RunningStudy(study_of(small(**changes)), folder)
    running.enter()
    running.work(Nobody())
    return running


class Nobody:
    """Follows a study, and says nothing."""

    def began(self, cell: Any) -> None:
        pass

    def ended(self, cell: Any) -> None:
        pass

    def shows(self, running: Any, ended: int) -> None:
        pass


def rows(folder: Path) -> int:
    """Return how many rounds were played in all, of a study with settings."""
    # Not through all folders: those of checkpoints come and go.
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("cells/*/*/seed-*/history.jsonl"))


def digests(folder: Path) -> dict[str, Any]:
    """Return what every run below a folder came to: its history, and the bits of its last checkpoint."""
    runs = sorted(file.parent for file in folder.rglob("config.json"))
    return {str(run.relative_to(folder)): digest(run) for run in runs}


def digest(run: Path) -> dict[str, Any]:
    directory = RunDirectory.open(run)
    loaded = directory.checkpoints.load_newest()
    # By client: in which order the states lie in a file depends on where a run was interrupted.
    states = {
        name: [(client, exact(state)) for client, state in sorted(saved.items())]
        for name, saved in loaded.states.items()
    }
    bits = repr((loaded.round, exact(loaded.tensors), states))
    history = [{name: v for name, v in row.items() if name not in TIMES} for row in directory.recorded.rows]
    return {
        "status": directory.status()["status"],
        "rounds": [row["round"] for row in history],
        "history": history,
        "bits": hashlib.sha256(bits.encode()).hexdigest(),
    }
