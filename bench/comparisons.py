"""Whole comparisons: eight runs of the papers' CNN, side by side and one after another, beside the bare loop."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bare import Children, serve
from problems import CONV, LR, WEIGHT_DECAY

from flatfed.experiments.comparing.compare import compare
from flatfed.experiments.comparing.comparison import Comparison
from flatfed.experiments.comparing.comparison_from_options import comparison_of
from flatfed.experiments.spelling.options import RunOptions

RUNS, ROUNDS = 8, 2
SIDE, AFTER = "8 runs, 2 at a time", "8 runs one after another, 2 workers"
BARE = "bare loop, 2 processes, memory kept, the steps of all runs"


def conv_comparison() -> Comparison:
    """Return eight runs of fedavg on made-up images of CIFAR-10's shape, as `compare` makes them."""
    options = RunOptions.read(
        {
            "rounds": ROUNDS,
            "clients": CONV.clients,
            "per_round": CONV.per_round,
            "partition": "iid",
            "model": "cnn",
            "augment": "none",
            "lr": LR,
            "weight_decay": WEIGHT_DECAY,
            "batch_size": CONV.batch_size,
            "evaluate_every": ROUNDS,
            "evaluate_last": 1,
            "set": {"data.like": "cifar10", "data.train": CONV.clients * CONV.samples, "data.test": 100},
        }
    )
    return comparison_of("synthetic", ["fedavg"], range(RUNS), options)


class Comparisons:
    """A comparison from its first round to its last, written to a directory."""

    def __init__(self, name: str, jobs: int) -> None:
        self.name, self._jobs = name, jobs
        self._comparison = conv_comparison()
        self._comparison = replace(self._comparison, workers="auto" if jobs > 1 else 2)
        self._comparison.recipe.pool()
        self._folder = Path(tempfile.mkdtemp())
        self._number = 0

    def round(self) -> float:
        self._number += 1
        started = time.perf_counter()
        outcome = compare(self._comparison, self._folder / str(self._number), jobs=self._jobs)
        seconds = time.perf_counter() - started
        assert len(outcome.directories) == RUNS and not outcome.failed
        return seconds

    def close(self) -> None:
        shutil.rmtree(self._folder)


class BareRuns(Children):
    """The steps of all runs, divided evenly between two processes."""

    def __init__(self) -> None:
        steps = RUNS * ROUNDS * CONV.per_round * CONV.steps
        super().__init__(BARE, serve, [(CONV, steps // 2, True)] * 2)
