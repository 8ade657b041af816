"""Started as `python -m runs.state_killer PLACE STEP`: kills a process that saves client states, at chosen moments.

Nothing is trained: each round changes some states, by a plan. Each process is forked after the imports. It is killed
before its n-th system call, or in the middle of its n-th write. Then another goes on from what is there, to the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from flatfed.core.method.state import State
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.states import index_log
from flatfed.runs.states.store import StateStore
from runs.bench import litter

CLIENTS, ROUNDS, KEPT, BUDGET = 8, 12, (3,), 3 * 64
CALLS = ("pwrite", "fsync", "ftruncate", "rename", "mkdir", "unlink", "rmdir")
RESUMED_AT = 4
"""The round before which the process goes on from its files as a new one would."""


def changed(round: int) -> list[int]:
    """Return the clients whose state a round changes: all in the middle, so that the file becomes shorter after it."""
    if round in (1, 6, 7, 8):
        return list(range(CLIENTS))
    return sorted({(5 * round) % CLIENTS, (7 * round) % CLIENTS})


def state(value: float) -> State:
    return State({"h": torch.full((6,), value)})


def expected(round: int) -> dict[int, float]:
    """Return the states before `round` + 1 is played."""
    return {client: 100.0 * r + client for r in range(1, round + 1) for client in changed(r)}


def begin(place: Path) -> tuple[Checkpoints, StateStore, int]:
    """Return where to go on: from the newest checkpoint, or from nothing."""
    checkpoints, store = Checkpoints(place / "checkpoints", "run", KEPT), StateStore(lambda: state(0.0), BUDGET)
    checkpoints.sweep()
    if not checkpoints.rounds():
        return checkpoints, store, 0
    loaded = checkpoints.load_newest()
    if "clients" in loaded.states:
        store.adopt(loaded.states["clients"])
    return checkpoints, store, loaded.round


def play(place: Path, until: int = ROUNDS) -> None:
    """Save a checkpoint after each round that is left."""
    checkpoints, store, last = begin(place)
    for round in range(last + 1, until + 1):
        for client in changed(round):
            store.write(client, state(100.0 * round + client))
        checkpoints.save(round, {"w": torch.tensor([float(round)])}, {"clients": store})


def play_all(place: Path) -> None:
    """Save all checkpoints, in two processes as it were."""
    play(place, RESUMED_AT)
    play(place)


class StateTrap:
    """Counts system calls; kills the process before the n-th, or in the middle of it where it is a write."""

    def __init__(self, fatal: int | None, halfway: bool) -> None:
        self.fatal, self.halfway = fatal, halfway
        self.seen: list[str] = []
        for name in CALLS:
            setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.fatal == len(self.seen):
                if self.halfway and name == "pwrite":
                    original(args[0], args[1][: len(args[1]) // 2], args[2])
                os.kill(os.getpid(), signal.SIGKILL)
            self.seen.append(name)
            # What a killed process has written is there, synced or not; only a machine that stops would lose it.
            return None if name == "fsync" else original(*args, **kwargs)

        return call


def forked(work: Any) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(place: Path) -> dict[int, dict[int, float]]:
    """Return the states of each checkpoint that is there, by round."""
    checkpoints = Checkpoints(place / "checkpoints", "run")
    found = {}
    for round in checkpoints.rounds():
        states = checkpoints.load(round).states
        entries = states["clients"].items() if states else ()
        found[round] = {client: float(tensors["h"][-1]) for client, tensors in entries}
    return found


def wrong(place: Path, n: int, halfway: bool) -> str:
    """Kill a process at its n-th call and go on; return what is not as it should be, if anything is."""
    name = f"{n}{' halfway' if halfway else ''}"

    def dying() -> None:
        StateTrap(n, halfway)
        play_all(place)

    if forked(dying) != -signal.SIGKILL:
        return f"{name}: was not killed"
    for round, states in contents(place).items():
        if states != expected(round):
            return f"{name}: round {round} after the kill is {states}"
    # Two more, for a kill after the last: what it left is forgotten with them.
    play(place, ROUNDS + 2)
    after = contents(place)
    if after != {round: expected(round) for round in (*KEPT, ROUNDS + 1, ROUNDS + 2)}:
        return f"{name}: in the end there is {after}"
    return f"{name}: {litter(place)}" if litter(place) else ""


def main(place: Path, step: int) -> None:
    index_log.SPARE_ENTRIES = 0  # so that the log is begun anew now and then
    counted = place / "counted"
    (read, write) = os.pipe()

    def counting() -> None:
        trap = StateTrap(None, halfway=False)
        play_all(counted)
        os.write(write, json.dumps(trap.seen).encode())

    assert forked(counting) == 0
    calls: list[str] = json.loads(os.read(read, 2**20))
    moments = [(n, False) for n in range(0, len(calls), step)]
    moments += [(n, True) for n in range(1, len(calls), step) if calls[n] == "pwrite"]
    # Once, in a process that forks no more: `wrong` goes on in this one.
    real_fsync, os.fsync = os.fsync, lambda descriptor: None
    found = [wrong(place / f"{n}-{halfway}", n, halfway) for n, halfway in moments]
    os.fsync = real_fsync
    print(json.dumps({"calls": calls, "moments": len(moments), "wrong": [each for each in found if each]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
