"""A checkpoint after a round, by how many clients have a state: its cost should follow those of the last round."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from harness import Case, Result, take_turns

from flatfed.core.method.state import State
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.states.store import StateStore

PARAMETERS, PER_ROUND = 2_500, 500
"""A small model, and the clients that take part between two checkpoints."""

FEW, MANY = "1,000 clients", "100,000 clients"


def state_of(value: float) -> State:
    return State({"c": torch.full((PARAMETERS,), value)})


class SavedRounds:
    """A run in which all clients have taken part: in each round some change, then a checkpoint is saved."""

    def __init__(self, clients: int) -> None:
        self.name, self.facts = f"{clients:,} clients", dict[str, float]()
        self._clients, self._draw, self._round = clients, random.Random(0), 0
        self._directory = tempfile.TemporaryDirectory(dir=os.environ.get("FLATFED_BENCH_DIR"))
        self._root = Path(self._directory.name) / "checkpoints"
        self._checkpoints = Checkpoints(self._root, "bench")
        self._store = StateStore(lambda: state_of(0.0), 2**30)
        self._save(range(clients))

    def _save(self, changed: range | list[int]) -> float:
        self._round += 1
        for client in changed:
            self._store.write(client, state_of(self._round + client / self._clients))
        started = time.perf_counter()
        self._checkpoints.save(self._round, {"w": torch.zeros(PARAMETERS)}, {"clients": self._store})
        return time.perf_counter() - started

    def round(self) -> float:
        return self._save(sorted(self._draw.sample(range(self._clients), PER_ROUND)))  # as a cohort is

    def close(self) -> None:
        raw = self._clients * PARAMETERS * 4
        self.facts["directory"] = sum(file.stat().st_size for file in self._root.rglob("*") if file.is_file()) / raw
        self.facts["files"] = sum(file.is_file() for file in self._root.rglob("*"))
        self.facts["open_seconds"] = statistics.median(self._opening() for _ in range(5))
        self._directory.cleanup()

    def _opening(self) -> float:
        started = time.perf_counter()
        Checkpoints(self._root, "bench").load_newest()
        return time.perf_counter() - started


def client_states(repeats: int) -> dict[str, Result]:
    """Save after rounds of the same size in runs of different sizes."""
    cases: list[SavedRounds] = []

    def make(clients: int) -> Case:
        cases.append(SavedRounds(clients))
        return cases[-1]

    results = take_turns("states", [partial(make, clients) for clients in (1_000, 10_000, 100_000)], 3 * repeats)
    for case in cases:
        results[case.name].facts |= case.facts
    return results
