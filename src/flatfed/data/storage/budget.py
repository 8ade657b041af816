"""Examples from files within a budget of memory: decoded once where they fit, else whenever they are needed."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.data.storage.lazy import LazyImages
from flatfed.data.storage.mapped import room_for

GIGABYTE = 2**30
PIXELS = 512 * 64 * 64
"""Pixels that an evaluation takes at a time, about; a network needs far more memory for them than they do."""
FEWEST, MOST = 16, 512
NAMED = 5
"""A message names at most this number of unreadable files."""


class Reader(Protocol):
    """Reads one example at a time; inputs and targets of all have the same shapes. Picklable."""

    def __len__(self) -> int:
        """Return the number of examples."""
        ...

    def __call__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return input and target of one example; an unreadable file is a `ConfigError` that names it."""
        ...


class DecodedImages(TensorExamples):
    """Images that were decoded once; `evaluation_batch` is how many an evaluation should take at a time, at most."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        super().__init__(inputs, targets)
        self.evaluation_batch = evaluation_batch(inputs[0])


def open_examples(readers: Mapping[str, Reader], gigabytes: float, training: str = "train") -> dict[str, Examples]:
    """Return the examples of several readers.

    If all fit into the budget, they are decoded now, once, into tensors that processes share; else tests that fit into
    half of what is left are, and of the others each process keeps those used last, as many as there is room for. A test
    that does not fit is decoded anew each time: swept in order, it would find none of its examples kept.
    """
    budget = int(gigabytes * GIGABYTE)
    # All examples of a reader have one shape, so that the first tells.
    sizes = {name: len(reader) * _bytes(reader(0)) for name, reader in readers.items()}
    if sum(sizes.values()) <= budget:
        return {name: read_all(reader) for name, reader in readers.items()}
    tests = {name: size for name, size in sizes.items() if name != training}
    decoded = _fitting(tests, budget)
    left = budget - sum(tests[name] for name in decoded)
    caches = {training: left}
    return {name: _opened(reader, name in decoded, caches.get(name, 0)) for name, reader in readers.items()}


def _fitting(sizes: Mapping[str, int], budget: int) -> set[str]:
    """Return which tests are decoded once, the smallest first: each takes at most half of what is then left."""
    chosen = set()
    for name in sorted(sizes, key=sizes.__getitem__):
        if sizes[name] <= budget // 2:
            chosen.add(name)
            budget -= sizes[name]
    return chosen


def _opened(reader: Reader, decoded: bool, cache: int) -> Examples:
    if decoded:
        return read_all(reader)
    return LazyImages(reader, len(reader), cache, evaluation_batch(reader(0)[0]))


def read_all(reader: Reader) -> DecodedImages:
    """Return all examples of a reader as tensors, mapped where large, decoded on as many threads as there are cores."""
    inputs, targets = (room_for((len(reader), *part.shape), part.dtype) for part in reader(0))

    def place(index: int) -> None:
        inputs[index], targets[index] = reader(index)

    with ThreadPoolExecutor(_cores()) as pool:
        # Going through the results raises the errors of the threads.
        list(pool.map(place, range(len(reader))))
    return DecodedImages(inputs, targets)


def verify(name: str, readers: Mapping[str, Reader]) -> None:
    """Read every example once; those that cannot be read are counted and the first ones named."""
    count = sum(map(len, readers.values()))
    faults = [fault for reader in readers.values() for fault in _faults(reader)]
    if faults:
        more = f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
        raise ConfigError(f"{name}: {len(faults)} of {count} images are bad: {'; '.join(faults[:NAMED])}{more}")


def _faults(reader: Reader) -> list[str]:
    """Return what is wrong with the examples that cannot be read."""
    with ThreadPoolExecutor(_cores()) as pool:
        return list(filter(None, pool.map(functools.partial(_fault, reader), range(len(reader)))))


def evaluation_batch(image: Tensor) -> int:
    """Return how many images like this one an evaluation should take at a time, at most."""
    return min(max(PIXELS // (image.shape[-1] * image.shape[-2]), FEWEST), MOST)


def _fault(reader: Reader, index: int) -> str:
    """Return what is wrong with an example; nothing where it can be read."""
    try:
        reader(index)
        return ""
    except ConfigError as error:
        return str(error)


def _bytes(pair: tuple[Tensor, Tensor]) -> int:
    return sum(part.numel() * part.element_size() for part in pair)


def _cores() -> int:
    # A container may have fewer cores than the machine; not every system tells.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
