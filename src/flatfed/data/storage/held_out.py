"""Which examples are kept for a test where the data do not say it: the same in every run and on every machine."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.checking import Range
from flatfed.core.randomness import key
from flatfed.core.task.validation import Split, held_positions

Share = Annotated[float, Range(low=0.0, high=1.0, open_low=True, open_high=True)]
Portion = Annotated[float, Range(low=0.0, high=1.0, open_low=True)]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def held_out(keys: Ints, groups: Ints, share: float) -> Mask:
    """Return which examples have the smallest keys: about a share of each group, at least one, never all."""
    return _first(keys, groups, lambda size: min(max(round(share * size), 1), size - 1))


def divided(parts: list[Ints], share: float, split: Split = "client") -> tuple[list[Ints], Ints]:
    """Return what is left of each client's examples, and about a share of them that is held out; a client keeps one.

    Which they are depends on the examples' numbers alone: every method, and every seed with the same partition, has the
    same.
    """
    positions = held_positions([[(int(number),) for number in part] for part in parts], share, split)
    held = [np.asarray(part)[chosen.numpy()] for part, chosen in zip(parts, positions, strict=True)]
    left = [np.delete(np.asarray(part), chosen.numpy()) for part, chosen in zip(parts, positions, strict=True)]
    return left, np.concatenate(held)


def sampled(keys: Ints, groups: Ints, share: float) -> Mask:
    """Return which examples have the smallest keys: about a share of each group, at least one."""
    return _first(keys, groups, lambda size: max(round(share * size), 1))


def _first(keys: Ints, groups: Ints, count: Callable[[int], int]) -> Mask:
    """Return which examples have the smallest keys of their group, as many as `count` says for its size."""
    chosen = np.zeros(len(keys), dtype=bool)
    order = np.lexsort((keys, groups))
    # Groups are not negative, so that the first begins one too.
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        chosen[members[: count(len(members))]] = True
    return chosen


def keys_of(names: Iterable[str], purpose: str) -> Ints:
    """Return a number for each name that depends on it and the purpose only."""
    # Seed 0 and not that of the run: all runs have the same test.
    return np.array([key(0, purpose, name) for name in names], np.int64)


def file_keys(files: Iterable[str], purpose: str, root: Path) -> Ints:
    """Return a number for each file that depends on its name within `root` and the purpose only."""
    return keys_of((_portable(os.path.relpath(file, root)) for file in files), purpose)


def _portable(name: str) -> str:
    """Return a file's name as every system would write it; accents are composed, bytes that are no text are spelled."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace").replace(os.sep, "/")
    return unicodedata.normalize("NFC", text)
