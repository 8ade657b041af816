"""Clients that hold a few classes each: who holds which, and how the holders of a class share its samples."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flatfed.data.partition.base import apportion

Ints = npt.NDArray[np.int64]
Reached = dict[int, tuple[int, int] | None]
"""Classes that a search has reached: by which holder, and from which of its classes; None where it began."""


def deal_classes(sizes: Ints, clients: int, per_client: int, generator: np.random.Generator) -> list[list[int]]:
    """Return the classes of each client: always those held by the fewest so far, ties at random.

    The numbers of holders of two classes thus differ by at most one, except that no class gets more holders
    than it has samples (a client is dealt fewer than `per_client` classes where that leaves fewer).
    """
    holders = np.zeros(len(sizes), dtype=np.int64)
    dealt = []
    for _ in range(clients):
        # The last key counts most: fewest holders first, then chance.
        order = np.lexsort((generator.random(len(sizes)), holders))
        chosen = order[holders[order] < sizes[order]][:per_client]
        holders[chosen] += 1
        dealt.append(chosen.tolist())
    return dealt


def deal_by_size(sizes: Ints, clients: int, generator: np.random.Generator) -> list[list[int]]:
    """Return one class for each client: a class has clients in proportion to its size, a very small one none."""
    holders = apportion(sizes / sizes.sum(), clients)
    return [[int(c)] for c in generator.permutation(np.repeat(np.arange(len(sizes)), holders))]


def share(dealt: Sequence[Sequence[int]], sizes: Ints, target: int | Ints) -> Ints:
    """Return how many samples of each class each client gets, up to its `target` in all.

    In turns each client below its target takes one more sample, of the class of which it has the fewest. A client
    whose classes have all run out gets one from a holder who can take another of its own classes instead, if
    need be through a chain of holders. These are augmenting paths of a bipartite flow, tried turn by turn, so
    the smallest client is as large as it can be, then the second smallest, and so on.
    """
    shares = _Shares(dealt, sizes)
    targets = np.broadcast_to(target, len(dealt)).tolist()
    waiting = list(range(len(dealt)))
    for turn in range(max(targets)):
        below = [client for client in waiting if turn < targets[client]]
        # Who gets nothing now gets nothing later: samples only become fewer.
        waiting = list(filter(shares.give, below))
    return shares.table()


def _holders(dealt: Sequence[Sequence[int]]) -> defaultdict[int, list[int]]:
    """Return for each class the clients that hold it."""
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for client, classes in enumerate(dealt):
        for c in classes:
            holders[c].append(client)
    return holders


class _Shares:
    """Samples taken so far: `taken[client][class]`, and what is `left` of each class."""

    def __init__(self, dealt: Sequence[Sequence[int]], sizes: Ints) -> None:
        self.taken = [dict.fromkeys(classes, 0) for classes in dealt]
        self.left: list[int] = sizes.tolist()
        self.holders = _holders(dealt)

    def give(self, client: int) -> bool:
        """Give the client one more sample of its classes, or say that there is none to be had."""
        own = self.taken[client]
        spare = [c for c in own if self.left[c]]
        if not spare:
            return self._give_by_exchange(client)
        # Of equal ones the class with most left, because others may need the scarce ones.
        chosen = min(spare, key=lambda c: (own[c], -self.left[c]))
        own[chosen] += 1
        self.left[chosen] -= 1
        return True

    def _give_by_exchange(self, client: int) -> bool:
        """Search breadth-first for a chain of holders that ends at a class with samples left."""
        queue = deque(self.taken[client])
        reached: Reached = dict.fromkeys(queue)
        while queue:
            c = queue.popleft()
            if self.left[c]:
                self._exchange(client, c, reached)
                return True
            queue.extend(self._reach_from(c, reached))
        return False

    def _reach_from(self, c: int, reached: Reached) -> list[int]:
        """Return the classes, not reached so far, to which a holder of class c could change, and note the way."""
        reachable = []
        for holder in self.holders[c]:
            # A holder keeps its last sample of a class: no client loses a class that it was dealt.
            if self.taken[holder][c] > 1:
                fresh = [d for d in self.taken[holder] if d not in reached]
                reached.update(dict.fromkeys(fresh, (holder, c)))
                reachable += fresh
        return reachable

    def _exchange(self, client: int, end: int, reached: Reached) -> None:
        """Move each holder of the chain from its class to the next, and the client to the first."""
        self.left[end] -= 1
        step = reached[end]
        while step is not None:
            holder, start = step
            self.taken[holder][end] += 1
            self.taken[holder][start] -= 1
            end, step = start, reached[start]
        self.taken[client][end] += 1

    def table(self) -> Ints:
        """Return clients x classes."""
        counts = np.zeros((len(self.taken), len(self.left)), dtype=np.int64)
        for client, own in enumerate(self.taken):
            counts[client, list(own)] = list(own.values())
        return counts
