"""Rounds on Ray beside rounds on worker processes: what the way through Ray costs."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from federated import Rounds, task_of
from harness import Case, Result, take_turns
from problems import CONV, DIGITS, Problem
from torch import nn

import flatfed as ff
from flatfed.engines.ray_cluster.cluster import Cluster

SIZES = {"0.1 M": (100, 1000), "1 M": (1000, 1000), "10 M": (2500, 4000)}
"""Numbers of parameters, and the shapes of linear layers that have them."""
ACTORS = (1, 2, 4)
PER_ROUND = 4


@contextmanager
def ray_running() -> Iterator[None]:
    """Keep one Ray for all cases: an engine that finds it joins it."""
    cluster = Cluster("local", cpus=4.0)
    try:
        yield
    finally:
        cluster.leave()


def on_ray(actors: int) -> ff.Ray:
    """All actors are there before the first round."""
    return ff.Ray(workers=actors, minimum=actors, resources="CPU=0.1", patience=600.0)


def ray(repeats: int) -> dict[str, Result]:
    """The papers' CNN, and the digits, whose rounds are so short that the way is most of them."""
    conv, digits = task_of(CONV), task_of(DIGITS)
    with ray_running():
        large = [
            CountedRounds("conv, 2 workers", CONV, workers=2, task=conv),
            CountedRounds("conv, 2 actors", CONV, workers=on_ray(2), task=conv),
        ]
        results = _counted("ray", large, repeats)
        small = [
            CountedRounds("digits, in process", DIGITS, task=digits),
            CountedRounds("digits, 2 workers", DIGITS, workers=2, task=digits),
            CountedRounds("digits, 2 actors", DIGITS, workers=on_ray(2), task=digits),
        ]
        return results | _counted("ray", small, 4 * repeats)


class CountedRounds(Rounds):
    """Rounds whose processor time is counted: that of the server, and that of all processes that it has started.

    Other work on the machine makes rounds longer, and hardly changes their processor time.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        # Of each round so far; the first one warms up.
        self.server_seconds: list[float] = []
        self.processor_seconds: list[float] = []

    def round(self) -> float:
        server, every = time.process_time(), _processor_seconds(os.getpid())
        seconds = super().round()
        self.server_seconds.append(time.process_time() - server)
        self.processor_seconds.append(_processor_seconds(os.getpid()) - every)
        return seconds

    def facts(self) -> dict[str, float]:
        """Return the medians, without the round that warms up."""
        counts = {"server_seconds": self.server_seconds, "processor_seconds": self.processor_seconds}
        return {name: statistics.median(seconds[1:]) for name, seconds in counts.items()}


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process and of all below it; 0 where the system does not tell."""
    entries: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            entries[int(path.parent.name)] = int(words[1]), int(words[11]) + int(words[12])
    family = {pid}
    while grown := {child for child, (parent, _) in entries.items() if parent in family} - family:
        family |= grown
    return sum(entries[member][1] for member in family if member in entries) / os.sysconf("SC_CLK_TCK")


def _counted(workload: str, cases: Sequence[CountedRounds], repeats: int) -> dict[str, Result]:
    """Let cases take turns, and note their processor time."""
    results = take_turns(workload, [partial(_as_it_is, case) for case in cases], repeats)
    for case in cases:
        results[case.name].facts |= case.facts()
    return results


def ray_sizes(repeats: int) -> dict[str, Result]:
    """One step per client of a linear layer: by the number of actors and of parameters."""
    results: dict[str, Result] = {}
    with ray_running():
        for size, shape in SIZES.items():
            problem = Problem(size, partial(nn.Linear, *shape, bias=False), (shape[0],), 8, 8, PER_ROUND, 8)
            task = task_of(problem)
            cases: list[CountedRounds] = []
            for count in ACTORS:
                names = f"{size}, workers: {count}", f"{size}, actors: {count}"
                for name, where in zip(names, (count, on_ray(count)), strict=True):
                    cases.append(CountedRounds(name, problem, workers=where, task=task, vectorised=False))
            results |= _counted(f"ray-sizes, {size}", cases, 2 * repeats)
    return results


def _as_it_is(case: Case) -> Case:
    return case
