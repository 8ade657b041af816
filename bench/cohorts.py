"""Large cohorts: a round of 1,000 clients with a bound on the memory and without, each in a fresh process.

Started as `python cohorts.py METHOD MEMORY`, it plays one round and prints its seconds, those of the processor, and the
peak of its memory above what a small round takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from federated import Rounds
from harness import Result, Target, fact, fact_ratio, ratio, take_turns
from problems import Problem
from torch import nn

import flatfed as ff

METHODS = ("fedavg", "fedgloss+sam", "scaffold")
BOUNDED, UNLIMITED = "2GB", "unlimited"
PROBLEM = Problem("cohort", lambda: nn.Linear(1000, 1000), (1000,), 1000, 50, 1000, 10)
ABOUT = "1,000 clients per round, 1,001,000 parameters, 50 examples each, batch 10, linear, in process; fresh processes"
FEW = 4
"""Clients of the small round that comes first: what it takes is the base."""


def title(method: str, memory: str) -> str:
    return f"{method}, {memory}"


def task() -> ff.Task:
    """Return the task; the clients' examples overlap, so that they take little memory."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(2000, 1000, generator=generator), torch.randint(0, 10, (2000,), generator=generator)
    parts = [torch.arange(k, k + PROBLEM.samples) % 2000 for k in range(PROBLEM.clients)]
    return ff.Task(PROBLEM.fresh_model(), ff.Partition(inputs, targets, parts))


class FreshRound:
    """A round in a process of its own, so that nothing of an earlier one is in its memory."""

    def __init__(self, method: str, memory: str) -> None:
        self.name, self._arguments = title(method, memory), (method, memory)
        self.facts: dict[str, list[float]] = {"processor_seconds": [], "peak_gb": []}

    def round(self) -> float:
        done = subprocess.run([sys.executable, __file__, *self._arguments], stdout=subprocess.PIPE, check=True)
        measured = json.loads(done.stdout)
        for name, values in self.facts.items():
            values.append(measured[name])
        return float(measured["seconds"])

    def close(self) -> None:
        pass


def cohort(repeats: int) -> dict[str, Result]:
    """Let bounded and unbounded rounds take turns, method by method."""
    cases = [FreshRound(method, memory) for method in METHODS for memory in (UNLIMITED, BOUNDED)]
    results = take_turns("cohort", [partial(_same, case) for case in cases], min(repeats, 3))
    for case in cases:
        seconds = sorted(case.facts["processor_seconds"])
        results[case.name].facts |= {
            "processor_seconds": seconds[len(seconds) // 2],
            "peak_gb": max(case.facts["peak_gb"]),
        }
    return results


def _same(case: FreshRound) -> FreshRound:
    return case


def targets() -> list[Target]:
    """Return what should hold of each method."""
    found = []
    for method in METHODS:
        bounded, free = title(method, BOUNDED), title(method, UNLIMITED)
        found += [
            Target(f"{method}: bounded / unlimited", ratio(bounded, free), most=1.15),
            Target(f"{method}: the same, processor time", fact_ratio("processor_seconds", bounded, free), most=1.15),
            Target(f"{method}: peak above a small round, bounded", fact(bounded, "peak_gb"), most=2.0, unit="GB"),
            Target(f"{method}: peak above a small round, unlimited", fact(free, "peak_gb"), least=0.0, unit="GB"),
        ]
    return found


# In the process of a case.


def play(method: str, memory: str) -> dict[str, Any]:
    """Play a small round, then the large one, and return what that took."""
    examples = task()
    small = Rounds("", PROBLEM, method=method, task=examples, per_round=FEW, vectorised=False)
    small.round()
    large = Rounds("", PROBLEM, method=method, task=examples, vectorised=False, cohort_memory=memory)
    base = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here
    processor, seconds = time.process_time(), large.round()
    return {
        "seconds": seconds,
        "processor_seconds": time.process_time() - processor,
        "peak_gb": (status("VmHWM") - base) / 1e9,
    }


def status(name: str) -> int:
    """Return a number of bytes of this process as the system tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(play(*sys.argv[1:])))
