"""Which rounds of a run are replayed: the first, those after a random checkpoint, and the last."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["first", "random", "last", "all"]


@dataclass(frozen=True)
class Stretch:
    """Rounds that are played again one after the other: from the state after `start` rounds until `end` are played."""

    kind: Kind
    start: int
    end: int

    @property
    def words(self) -> str:
        """The rounds, counted from 1 as people do."""
        if self.end - self.start == 1:
            return f"round {self.end}"
        return f"rounds {self.start + 1} to {self.end}"


def chosen_stretches(rounds: int, checkpoints: Sequence[int], length: int | None, seed: int) -> list[Stretch]:
    """Return what to replay of a run of some rounds; None for `length` is all of it.

    The first stretch needs no checkpoint. The last goes from the second-last checkpoint to the last. The random one
    begins at a checkpoint between, where the run kept some. One that lies within others is left out.
    """
    if rounds == 0:
        return []
    if length is None or length >= rounds:
        return [Stretch("all", 0, rounds)]
    there = sorted(set(checkpoints))
    first = Stretch("first", 0, length)
    stretches = [first]
    end = there[-1] if there else 0
    before = [round for round in there if round < end]
    start = before[-1] if before else 0
    middle = [round for round in before if length <= round < start]
    if middle:
        begin = random.Random(seed).choice(middle)
        stretches.append(Stretch("random", begin, min(begin + length, end)))
    if end > length:
        stretches.append(Stretch("last", start, end))
    return stretches


def ranges(rounds: Sequence[int]) -> str:
    """Return round numbers, from 0, as people read them, from 1: `1 to 10, 42`."""
    parts: list[list[int]] = []
    for round in sorted(rounds):
        if parts and parts[-1][1] == round:  # the last one from 1 is the one before this from 0
            parts[-1][1] = round + 1
        else:
            parts.append([round + 1, round + 1])
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in parts)
