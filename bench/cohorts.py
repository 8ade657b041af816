"""Large cohorts: a round of 1,000 clients with a bound on the memory and without, each in a fresh process.

Started as `python cohorts.py METHOD MEMORY`, it plays one round and prints its seconds, those of the processor, and the
peak of its memory above what a small round takes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from federated import Rounds
from harness import Result, Target, fact, fact_ratio, ratio
from problems import Problem
from torch import nn

import flatfed as ff
from flatfed.machine import available_memory

METHODS = ("fedavg", "fedgloss+sam", "scaffold")
BOUNDED, UNLIMITED = "2GB", "unlimited"
PROBLEM = Problem("cohort", lambda: nn.Linear(1000, 1000), (1000,), 1000, 50, 1000, 10)
ABOUT = "1,000 clients per round, 1,001,000 parameters, 50 examples each, batch 10, linear, in process; fresh processes"
FEW = 4
"""Clients of the small round that comes first: what it takes is the base."""
TOUCHED_BYTES = 16 * 10**9
"""What the largest case takes, with room for scratch files."""


def title(method: str, memory: str) -> str:
    return f"{method}, {memory}"


def task() -> ff.Task:
    """Return the task; the clients' examples overlap, so that they take little memory."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(2000, 1000, generator=generator), torch.randint(0, 10, (2000,), generator=generator)
    parts = [torch.arange(k, k + PROBLEM.samples) % 2000 for k in range(PROBLEM.clients)]
    return ff.Task(PROBLEM.fresh_model(), ff.Partition(inputs, targets, parts))


def cohort(repeats: int) -> dict[str, Result]:
    """Let bounded and unbounded rounds take turns, after the memory that they will take was touched once."""
    _touch_memory()
    cases = [(method, memory) for method in METHODS for memory in (UNLIMITED, BOUNDED)]
    measured: dict[str, list[dict[str, float]]] = {title(*case): [] for case in cases}
    for number in range(min(repeats, 3)):
        for case in cases:
            measured[title(*case)].append(_fresh_round(*case))
            print(f"\rcohort: {number + 1}, {title(*case)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {name: _result(name, rounds) for name, rounds in measured.items()}


def _touch_memory() -> None:
    """Let a process write once into as much memory as a round may take, and give it back.

    A virtual machine is given a page by its host when it first writes there, which takes some thirty times as long as
    writing. Whichever case came first to such pages would pay for it.
    """
    there = available_memory() or TOUCHED_BYTES
    size = min(TOUCHED_BYTES, there * 3 // 4)
    subprocess.run([sys.executable, "-c", f"import numpy; numpy.ones({size}, numpy.uint8)"], check=True)


def _fresh_round(method: str, memory: str) -> dict[str, float]:
    """Play a round in a process of its own, so that nothing of an earlier one is in its memory."""
    done = subprocess.run([sys.executable, __file__, method, memory], stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _result(name: str, rounds: list[dict[str, float]]) -> Result:
    facts = {
        "processor_seconds": statistics.median(each["processor_seconds"] for each in rounds),
        "peak_gb": max(each["peak_gb"] for each in rounds),
    }
    return Result("cohort", name, [each["seconds"] for each in rounds], facts)


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
