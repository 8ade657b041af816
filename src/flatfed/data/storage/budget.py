"""Examples from files within a budget of memory: decoded once where they fit, else whenever they are needed."""

from __future__ import annotations

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
"""So many unreadable files are named in one message."""


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
    left = int(gigabytes * GIGABYTE)
    sizes = {name: len(reader) * _bytes(reader(0)) for name, reader in readers.items()}
    if sum(sizes.values()) <= left:
        return {name: read_all(reader) for name, reader in readers.items()}
    opened: dict[str, Examples] = {}
    for name in sorted(readers, key=lambda name: (name == training, sizes[name])):
        if name != training and sizes[name] <= left // 2:
            opened[name] = read_all(readers[name])
            left -= sizes[name]
        else:
            opened[name] = _lazy(readers[name], left if name == training else 0)
    return {name: opened[name] for name in readers}


def read_all(reader: Reader) -> DecodedImages:
    """Return all examples of a reader as tensors, mapped where large, decoded on as many threads as there are cores."""
    inputs, targets = (room_for((len(reader), *part.shape), part.dtype) for part in reader(0))

    def place(index: int) -> None:
        inputs[index], targets[index] = reader(index)

    with ThreadPoolExecutor(_cores()) as pool:
        for _ in pool.map(place, range(len(reader))):
            pass
    return DecodedImages(inputs, targets)


def verify(name: str, readers: Mapping[str, Reader]) -> None:
    """Read every example once; those that cannot be read are counted and the first ones named."""
    works = [(reader, index) for reader in readers.values() for index in range(len(reader))]
    with ThreadPoolExecutor(_cores()) as pool:
        faults = [fault for fault in pool.map(lambda work: _fault(*work), works) if fault]
    if faults:
        more = f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
        raise ConfigError(f"{name}: {len(faults)} of {len(works)} images are bad: {'; '.join(faults[:NAMED])}{more}")


def evaluation_batch(image: Tensor) -> int:
    """Return how many images like this one an evaluation should take at a time, at most."""
    return min(max(PIXELS // (image.shape[-1] * image.shape[-2]), FEWEST), MOST)


def _lazy(reader: Reader, cache: int) -> LazyImages:
    return LazyImages(reader, len(reader), cache, evaluation_batch(reader(0)[0]))


def _fault(reader: Reader, index: int) -> str | None:
    try:
        reader(index)
        return None
    except ConfigError as error:
        return str(error)


def _bytes(pair: tuple[Tensor, Tensor]) -> int:
    return sum(part.numel() * part.element_size() for part in pair)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
