"""Which rows of a table are for training and which for the test: as a column says, or by the content of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.storage.held_out import Ints, Mask, held_out, keys_of
from flatfed.data.tables.text_columns import TextColumns

SPLITS = ("train", "test")


def named_training(table: TextColumns, column: str) -> Mask:
    """Return which rows a column says to train on; both kinds must be there."""
    words = [cell.lower() for cell in table.cells[column]]
    for row, word in enumerate(words):
        if word not in SPLITS:
            raise table.wrong(row, nearest(word[:40], SPLITS, "split"))
    for name in SPLITS:
        if name not in words:
            raise ConfigError(f"{table.path}: no row has the split {name}")
    return np.array([word == "train" for word in words])


def keyed_test(path: Path, contents: Sequence[str], labels: Ints, owners: Ints | None, share: float) -> Mask:
    """Keep a share of each class for the test, but leave every owner a row to train on."""
    # By content and not by place: rows in another order keep their test.
    keys = keys_of(contents, "table test")
    held = held_out(keys, labels, share)
    left = held.copy()
    if owners is not None:
        _leave_each_one(left, keys, owners)
    # Where each owner has one row, all rows of some owners are held out: they are clients of the test alone.
    held = left if left.any() else held
    if not held.any():
        raise ConfigError(f"{path}: no row can be kept for a test; add rows, or a column split")
    return held


def _leave_each_one(held: Mask, keys: Ints, owners: Ints) -> None:
    """Give back the row with the largest key to each owner all of whose rows are held out."""
    sizes = np.bincount(owners)
    held_sizes = np.bincount(owners[held], minlength=len(sizes))
    lacking = np.flatnonzero(sizes == held_sizes)
    for owner in lacking:
        rows = np.flatnonzero(owners == owner)
        held[rows[np.argmax(keys[rows])]] = False


def as_words(held: Mask) -> npt.NDArray[np.str_]:
    """Return the splits by name."""
    return np.where(held, *reversed(SPLITS))
