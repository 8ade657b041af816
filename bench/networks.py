"""The networks of the papers: one short round of each beside its bare loop, in process."""

from __future__ import annotations

import time
from functools import partial

from bare import Bare
from federated import Rounds
from harness import Result, Target, ratio, take_turns
from problems import NETWORKS

from flatfed.machine import keep_freed_memory


def networks(repeats: int) -> dict[str, Result]:
    """Return CPU seconds of a round of two clients with two to eight steps each, network by network."""
    keep_freed_memory()  # for both: in process they share it
    results: dict[str, Result] = {}
    for problem in NETWORKS:
        makers = [
            partial(Bare, problem, f"{problem.name}, bare loop", clock=time.process_time),
            partial(Rounds, f"{problem.name}, fedavg", problem, clock=time.process_time),
            partial(Rounds, f"{problem.name}, fedsam", problem, method="fedsam", clock=time.process_time),
        ]
        results |= take_turns(problem.name, makers, repeats)
    return results


TARGETS = [
    Target(f"{p.name}: fedavg / bare loop", ratio(f"{p.name}, fedavg", f"{p.name}, bare loop"), most=1.10)
    for p in NETWORKS
] + [Target(f"{p.name}: fedsam / fedavg", ratio(f"{p.name}, fedsam", f"{p.name}, fedavg"), most=2.05) for p in NETWORKS]
