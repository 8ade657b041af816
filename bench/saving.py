"""A checkpoint after every round."""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path

from federated import Rounds
from harness import Maker, Result, take_turns
from problems import CONV

from flatfed.runs.checkpoints import Checkpoints, stores_of, tensors_of


class Saving:
    """A checkpoint after a round."""

    def __init__(self, method: str) -> None:
        self.name = f"save {method}"
        self._rounds = Rounds(self.name, CONV, method=method)
        self._rounds.round()
        self._directory = tempfile.TemporaryDirectory(dir=os.environ.get("FLATFED_BENCH_DIR"))
        self._checkpoints, self._number = Checkpoints(Path(self._directory.name), "bench"), 0

    def round(self) -> float:
        federation = self._rounds.federation
        for client in range(CONV.per_round):
            for store in stores_of(federation).values():
                store.write(client, store.read(client))
        self._number += 1
        started = time.perf_counter()
        self._checkpoints.save(self._number, tensors_of(federation), stores_of(federation))
        return time.perf_counter() - started

    def close(self) -> None:
        self._rounds.close()
        self._directory.cleanup()


def checkpoint(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        partial(Rounds, "conv round, 2 workers", CONV, workers=2),
        partial(Saving, "fedavg"),
        partial(Saving, "scaffold"),
    ]
    return take_turns("checkpoint", makers, repeats)
