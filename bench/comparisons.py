"""Whole comparisons: eight runs of the papers' CNN, side by side and one after another, beside the bare loop."""

from __future__ import annotations

import resource
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import yaml
from bare import Children, serve
from harness import Result, take_turns
from problems import CONV, LR, WEIGHT_DECAY

from flatfed.experiments.comparing.compare import compare
from flatfed.experiments.comparing.comparison import Comparison
from flatfed.experiments.comparing.comparison_from_options import comparison_of
from flatfed.experiments.spelling.options import RunOptions

RUNS, ROUNDS = 8, 4
DEMO = Path(__file__).parents[1] / "examples" / "demo.yaml"
DEMO_METHODS = ["fedavg", "fedsam", "fedasam+swa", "scaffold", "feddyn+sam", "fedgloss+sam", "fedgmt"]
DEMO_ROUNDS = 100
DEMO_SIDE, DEMO_AFTER = "14 runs, 2 at a time", "14 runs one after another, 2 workers"
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


def demo_comparison() -> Comparison:
    """Return the runs of `make demo`, half of their rounds."""
    options = yaml.safe_load(DEMO.read_text()) | {"rounds": DEMO_ROUNDS}
    return comparison_of("digits", DEMO_METHODS, range(2), RunOptions.read(options))


class Comparisons:
    """A comparison from its first round to its last, written to a directory."""

    def __init__(self, name: str, comparison: Comparison, jobs: int) -> None:
        self.name, self._jobs = name, jobs
        self._comparison = replace(comparison, workers="auto" if jobs > 1 else 2)
        self._comparison.recipe.pool()
        self._folder = Path(tempfile.mkdtemp())
        self._number, self.cpu = 0, list[float]()

    def round(self) -> float:
        self._number += 1
        used, started = _cpu_of_all(), time.perf_counter()
        outcome = compare(self._comparison, self._folder / str(self._number), jobs=self._jobs)
        seconds = time.perf_counter() - started
        self.cpu.append(_cpu_of_all() - used)
        assert outcome.directories and not outcome.failed
        return seconds

    def close(self) -> None:
        shutil.rmtree(self._folder)


def _cpu_of_all() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class BareRuns(Children):
    """The steps of all runs, divided evenly between two processes."""

    def __init__(self) -> None:
        steps = RUNS * ROUNDS * CONV.per_round * CONV.steps
        super().__init__(BARE, serve, [(CONV, steps // 2, True)] * 2)
        self.cpu = list[float]()

    def round(self) -> float:
        seconds = super().round()
        self.cpu.append(sum(self.said))
        return seconds


def comparison(repeats: int) -> dict[str, Result]:
    """Return the seconds of the comparisons and of the bare loop, and the CPU seconds of all their processes."""
    runs = conv_comparison()
    return _turns("comparison", [BareRuns(), Comparisons(SIDE, runs, 2), Comparisons(AFTER, runs, 1)], repeats)


def demo(repeats: int) -> dict[str, Result]:
    """Return the seconds of the demo's training, side by side and one after another."""
    runs = demo_comparison()
    return _turns("demo", [Comparisons(DEMO_AFTER, runs, 1), Comparisons(DEMO_SIDE, runs, 2)], repeats)


def _turns(workload: str, cases: list[BareRuns | Comparisons], repeats: int) -> dict[str, Result]:
    results = take_turns(workload, [lambda case=case: case for case in cases], min(repeats, 3))
    for case in cases:
        # The first warmed up.
        results[case.name].facts["cpu_seconds"] = statistics.median(case.cpu[1:])
    return results
