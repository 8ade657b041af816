"""The size of the population and of its states: a process for each case, so that its memory can be told."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from federated import Rounds
from harness import Result, take_turns
from problems import Problem
from torch import nn

import flatfed as ff

# clients: the size of the population.

POPULATIONS = (100, 1_000, 10_000, 100_000, 1_000_000)


def clients(repeats: int) -> dict[str, Result]:
    """Each population in a process of its own, so that its memory can be told; they take turns a few rounds each."""
    return _in_processes(
        "clients", [f"{n:,} clients" for n in POPULATIONS], [["clients", str(n)] for n in POPULATIONS], repeats
    )


def clients_child(population: int) -> Any:
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(5000, 64, generator=generator), torch.randint(0, 10, (5000,), generator=generator)
    task = ff.Task(nn.Linear(64, 10), SharedExamples(inputs, targets, population))
    problem = Problem("clients", lambda: nn.Linear(64, 10), (64,), population, 50, 50, 10)
    return Rounds("", problem, method="scaffold", task=task)


class SharedExamples(ff.Partition):
    """A population in which client k holds the examples k, k+1, ... of a small pool."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor, population: int) -> None:
        super().__init__(inputs, targets, [torch.arange(k, k + 50) for k in range(0, 5000, 50)])
        self._population = population

    def __len__(self) -> int:
        return self._population

    def __getitem__(self, client: Any) -> Any:
        return super().__getitem__(client % 100)


# state: a stateful method whose states outgrow the memory that they may take.


def state(repeats: int) -> dict[str, Result]:
    names = ["in memory", "1 GB in memory, the rest on disk"]
    return _in_processes("state", names, [["state", "memory"], ["state", "budget"]], repeats)


def state_child(where: str) -> Any:
    from flatfed.experiments.planning import plan as plans

    if where == "memory":
        plans.STATE_BUDGET = 2**40
    problem = Problem("state", lambda: nn.Linear(1000, 1000), (1000,), 1000, 20, 50, 20)
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(2000, 1000, generator=generator), torch.randint(0, 10, (2000,), generator=generator)
    task = ff.Task(
        problem.fresh_model(), ff.Partition(inputs, targets, [torch.arange(k, k + 20) % 2000 for k in range(1000)])
    )
    memory = "unlimited" if where == "memory" else "2GB"
    rounds = Rounds("", problem, method="scaffold", task=task, cohort_memory=memory)
    for client in range(1000):  # everyone has taken part once
        rounds.federation.clients.write(client, rounds.federation.clients.read(client))
    return rounds


def _in_processes(workload: str, names: list[str], arguments: list[list[str]], repeats: int) -> dict[str, Result]:
    children = [Child(name, given) for name, given in zip(names, arguments, strict=True)]
    found = take_turns(workload, [lambda child=child: child for child in children], 3 * repeats)
    for child in children:
        found[child.name].facts["resident_mb"] = child.resident
    return found


class Child:
    """A case in a process of its own, one round when asked."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name, self.resident = name, 0.0
        command = [sys.executable, str(Path(__file__).with_name("child.py")), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        seconds, resident = self.process.stdout.readline().split()
        self.resident = float(resident)
        return float(seconds)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def resident_mb() -> float:
    """Return the memory that this process holds now, without what other processes can share with it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
