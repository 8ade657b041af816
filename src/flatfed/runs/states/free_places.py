"""Which places of a state file are free.

A place is taken while a store or a checkpoint refers to it. A client whose state changes gets another place; its old
one is free again when the last checkpoint that refers to it is forgotten. So nothing that a checkpoint refers to is
written over, nothing is copied to make room, and the work per checkpoint follows the clients that changed.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Collection, Iterable, Mapping

LONG_AGO = -1
"""When a state was written that was there before this process began."""


class Places:
    """The places of one file: taken, held by checkpoints alone, or free.

    Args:
        count: how many places the file has.
        current: those that the store refers to now.
        checkpoints: those that each checkpoint refers to that is there already, by its round.
    """

    def __init__(
        self,
        count: int = 0,
        current: Collection[int] = (),
        checkpoints: Mapping[int, frozenset[int]] | None = None,
    ) -> None:
        self._earlier = dict(checkpoints or {})
        self._rounds = set(self._earlier)
        wanted = frozenset[int]().union(current, *self._earlier.values())
        # A file that was cut short has fewer places than its checkpoints refer to: those are taken, not new ones.
        self.count = max(count, max(wanted, default=-1) + 1)
        # By place, in an array: a dictionary of many places would be all over the memory.
        self._born = array("q", [LONG_AGO]) * self.count
        self._held: dict[int, list[int]] = {}
        self._free = set(range(self.count)) - wanted
        self._lowest = sorted(self._free)
        self.supersede(wanted - set(current))

    def take(self) -> int:
        """Return a free place, the lowest that there is; the file grows where there is none."""
        while self._lowest:
            place = heapq.heappop(self._lowest)
            if place in self._free:
                self._free.discard(place)
                return place
        self.count += 1
        if len(self._born) < self.count:
            self._born.append(LONG_AGO)
        return self.count - 1

    def give_back(self, place: int) -> None:
        """Let a place be free that no checkpoint refers to."""
        self._born[place] = LONG_AGO
        self._free.add(place)
        heapq.heappush(self._lowest, place)

    def save(self, round: int, new: Iterable[int], superseded: Iterable[int]) -> None:
        """Note a checkpoint: the places that it is the first to refer to, and those that it no longer refers to."""
        self.forget(round)  # one of the same round was in its place
        self.supersede(superseded)
        self._rounds.add(round)
        for place in new:
            self._born[place] = round

    def supersede(self, places: Iterable[int]) -> None:
        """Let these be held by the checkpoints that refer to them, and by nothing else."""
        self._hand_to(sorted(self._rounds, reverse=True), places)

    def _hand_to(self, rounds: list[int], places: Iterable[int]) -> None:
        """Note each place under the first of the checkpoints that refers to it; it is free where none does."""
        for place in places:
            holder = next((round for round in rounds if self._refers(round, place)), None)
            if holder is None:
                self.give_back(place)
            else:
                self._held.setdefault(holder, []).append(place)

    def _refers(self, round: int, place: int) -> bool:
        """Say whether a checkpoint refers to a place that the store referred to until now."""
        if round in self._earlier:
            return place in self._earlier[round]
        # Every checkpoint since the state was written there does.
        return self._born[place] <= round

    def forget(self, round: int) -> None:
        """Note that a checkpoint is gone."""
        self._rounds.discard(round)
        self._earlier.pop(round, None)
        # It was the newest that referred to them.
        older = sorted((each for each in self._rounds if each < round), reverse=True)
        self._hand_to(older, self._held.pop(round, ()))

    def shrink(self) -> int:
        """Leave out the free places at the end; return how many there are then."""
        while self.count - 1 in self._free:
            self.count -= 1
            self._free.discard(self.count)
        return self.count

    @property
    def rounds(self) -> set[int]:
        """The checkpoints that are known here."""
        return set(self._rounds)
