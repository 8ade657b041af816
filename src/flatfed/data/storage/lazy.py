"""Examples that are decoded when they are needed, and the decoded ones kept as long as there is room."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError

Pair = tuple[Tensor, Tensor]

CACHE = 512 * 2**20
"""Bytes of decoded examples that each process keeps, at most."""


class LazyImages:
    """Examples that `decode(index)` makes from files; those used last stay in memory, `cache` bytes of them.

    Safe in threads. Every process has a cache of its own: a copy that is pickled, or found in a forked process, begins
    with an empty one. What a batch holds does not depend on it.

    Args:
        decode: an index to an input and a target, the same each time; picklable.
        count: how many examples there are.
        cache: bytes to keep at most; 0 keeps nothing.
        evaluation_batch: how many of them an evaluation should take at a time, at most.
    """

    def __init__(
        self, decode: Callable[[int], Pair], count: int, cache: int = CACHE, evaluation_batch: int = 512
    ) -> None:
        if cache < 0:
            raise ConfigError(f"cache must be at least 0 bytes, not {cache}; 0 keeps nothing")
        self.decode, self.count, self.cache, self.evaluation_batch = decode, count, cache, evaluation_batch
        self._cache = Cache(cache)

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: Tensor) -> Pair:
        """Return inputs and int64 targets of these examples."""
        # An empty batch has the shape of the others: that of the first example.
        numbers = indices.tolist() or [0]
        inputs, targets = zip(*map(self.example, numbers), strict=True)
        for number, image in zip(numbers, inputs, strict=True):
            if image.shape != inputs[0].shape:
                shapes = f"{tuple(image.shape)}, example {numbers[0]} {tuple(inputs[0].shape)}"
                raise ConfigError(f"example {number} has the shape {shapes}; all must have one size")
        count = len(indices)
        return torch.stack(inputs)[:count], torch.stack(targets)[:count].long()

    def example(self, index: int) -> Pair:
        """Return one example, from the cache where it is there. It is shared: do not change it."""
        cache = self._own_cache()
        pair = cache.get(index)
        if pair is None:
            # Outside the lock, so that threads decode at the same time.
            pair = self.decode(index)
            cache.put(index, pair)
        return pair

    @property
    def bytes_kept(self) -> int:
        """How much the cache of this process holds."""
        return self._own_cache().bytes

    def _own_cache(self) -> Cache:
        # A forked process finds its parent's cache, whose lock may be held by a thread that is not there.
        if self._cache.owner != os.getpid():
            self._cache = Cache(self.cache)
        return self._cache

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cache"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache = Cache(self.cache)


class Cache:
    """The examples used last, at most `room` bytes of them; of one process, in which forks have no part."""

    def __init__(self, room: int) -> None:
        self.owner, self.room, self.bytes = os.getpid(), room, 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, Pair] = OrderedDict()

    def get(self, index: int) -> Pair | None:
        """Return an example, now the one used last; None where it is not kept."""
        with self._lock:
            if index not in self._kept:
                return None
            self._kept.move_to_end(index)
            return self._kept[index]

    def put(self, index: int, pair: Pair) -> None:
        """Keep an example; those not used for longest make room for it."""
        size = _bytes(pair)
        with self._lock:
            # Another thread may have decoded it in the meantime.
            if index in self._kept or size > self.room:
                return
            while self.bytes + size > self.room:
                self.bytes -= _bytes(self._kept.popitem(last=False)[1])
            self._kept[index] = pair
            self.bytes += size


def _bytes(pair: Pair) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in pair)
