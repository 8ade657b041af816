"""The faults of a soak, drawn from a seed: which, in which round, and how long after its row was seen."""

from __future__ import annotations

import random
from dataclasses import dataclass

KILL_GROUP = "SIGKILL of the whole process group"
KILL_MAIN = "SIGKILL of the main process"
KILL_RESUMING = "SIGKILL of the group, and again while it resumes"
KILL_WORKER = "SIGKILL of a worker"
FULL_DISK = "full disk"
LOST_OUTPUT = "lost output streams"
SIGNALS = ("SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1", "SIGQUIT")
KINDS = (KILL_GROUP, KILL_WORKER, "SIGTERM", LOST_OUTPUT, KILL_MAIN, FULL_DISK, KILL_RESUMING, *SIGNALS[1:])
"""In the order in which few faults take them: the first four are of four different families."""

CHECKPOINT_EVERY = 50
LONGEST_DELAY = 0.03
"""Seconds; a round takes about a third of it, so that a fault may come at any place in one."""
RESUMING = (0.2, 5.0)
"""Seconds after its start at which a resumption is killed: from the imports to the first rounds."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Args:
        kind: one of `KINDS`.
        rows: it comes when the history has this many rows.
        delay: seconds from then on.
        whole_group: whether a signal goes to all processes, as from a terminal, or to the main one, as from `kill`.
        again: seconds after which the resumption is killed too.
        choice: a number from 0 to 1 that chooses the worker.
    """

    kind: str
    rows: int
    delay: float
    whole_group: bool
    again: float
    choice: float


def draw_faults(rounds: int, count: int, seed: int) -> list[Fault]:
    """Return as many of each kind as possible, in a drawn order, spread over the rounds with drawn distances."""
    generator = random.Random(seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(count)]
    generator.shuffle(kinds)
    stretch = rounds / (count + 1)
    faults = []
    for number, kind in enumerate(kinds):
        rows = 1 + int((number + 0.1 + 0.8 * generator.random()) * stretch)
        if generator.random() < 0.5:
            rows = in_a_checkpoint(rows, rounds)
        faults.append(
            Fault(
                kind,
                rows,
                delay=LONGEST_DELAY * generator.random(),
                whole_group=generator.random() < 0.5,
                again=generator.uniform(*RESUMING),
                choice=generator.random(),
            )
        )
    return sorted(faults, key=lambda fault: fault.rows)


def in_a_checkpoint(rows: int, rounds: int) -> int:
    """Return the next number of rows after which a checkpoint is written, where there is one."""
    next_one = -(-rows // CHECKPOINT_EVERY) * CHECKPOINT_EVERY
    if next_one >= rounds:
        return rows
    return next_one
