"""Rounds on Ray beside rounds on worker processes: what the way through Ray costs."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from federated import Rounds, task_of
from harness import Case, Result, take_turns
from problems import CONV, DIGITS, Problem
from torch import nn

import flatfed as ff
from flatfed.engines.ray_cluster.cluster import Cluster

Maker = Callable[[], Case]

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
    large: list[Maker] = [
        partial(Rounds, "conv, 2 workers", CONV, workers=2, task=conv),
        partial(Rounds, "conv, 2 actors", CONV, workers=on_ray(2), task=conv),
    ]
    small: list[Maker] = [
        partial(Rounds, "digits, in process", DIGITS, task=digits),
        partial(Rounds, "digits, 2 workers", DIGITS, workers=2, task=digits),
        partial(Rounds, "digits, 2 actors", DIGITS, workers=on_ray(2), task=digits),
    ]
    with ray_running():
        return take_turns("ray", large, repeats) | take_turns("ray", small, 4 * repeats)


class CountedRounds(Rounds):
    """Rounds whose processor time in this process, the server's, is counted."""

    def round(self) -> float:
        before = time.process_time()
        seconds = super().round()
        self.server_seconds.append(time.process_time() - before)
        return seconds

    @functools.cached_property
    def server_seconds(self) -> list[float]:
        """Of each round so far; the first one warms up."""
        return []


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
            found = take_turns(f"ray-sizes, {size}", [partial(_as_it_is, case) for case in cases], 2 * repeats)
            for case in cases:
                found[case.name].facts["server_seconds"] = statistics.median(case.server_seconds[1:])
            results |= found
    return results


def _as_it_is(case: Case) -> Case:
    return case
