"""Any classification of images whose owners are written in a table."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.catalogue import source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.client_tables import ClientTable, Ints, class_number, in_order, numbered, read_table
from flatfed.data.formats.image_folders import Listing
from flatfed.data.formats.images import Channels, Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Share, file_keys, held_out
from flatfed.data.storage.image_files import TEST, TRAIN, file_pool
from flatfed.data.storage.pool import Pool

NAME = "client-csv"
COLUMNS = ("client", "file", "label"), ("split",)
SPLITS = (TRAIN, TEST, "val", "seen", "unseen")

Words = npt.NDArray[np.str_]


@source(NAME, partition="natural")
def client_csv(
    directory: DataDirectory,
    path: str = "",
    images: str = "",
    classes: Index = 0,
    test_share: Share = 0.1,
    size: Count = 64,
    crop: Index = 0,
    fit: Fit = "crop",
    channels: Channels = 3,
    augment: str = "none",
    memory: Gigabytes = 1.0,
    verify: bool = False,
) -> Pool:
    """Images of your own with their owners: a CSV file client,file,label[,split] (data.path).

    `path` is looked for here, then in the data directory; files are named from the folder `images`, or else
    from the table's own. Labels are any words, or with `classes` whole numbers below it. `split` is train, test, or a
    further test set's name: val, seen or unseen. Without it, `test_share` of each class is kept for the test, the same
    in every run. For the other options see `image-folder`.
    """
    table = read_table(directory.find_own(NAME, path, example="clients.csv"), *COLUMNS)
    root = _root(directory, table, images)
    files = _files(table, root)
    named_splits = _named_splits(table)
    labels, count, names = _labels(table, named_splits, classes)
    clients = table.column("client")
    owners = numbered(clients, in_order(clients))
    splits = named_splits
    if splits is None:
        # By names and not by rows: the same files in another order keep their test.
        keys = file_keys(files, f"{NAME} test", root)
        splits = _keyed_splits(table, keys, labels, owners, test_share)
    decoding = Decoding(size, crop, fit, channels, memory, verify)
    parts = _parts(Listing(files, labels), splits)
    pool = file_pool(NAME, parts, count, decoding, "cnn", augment, {"client": owners[splits == TRAIN]})
    return replace(pool, class_names=names)


def _root(directory: DataDirectory, table: ClientTable, images: str) -> Path:
    """Return the folder from which files are named."""
    if not images:
        return table.path.parent
    return directory.find_own(NAME, images, "images")


def _files(table: ClientTable, root: Path) -> tuple[str, ...]:
    """Return the files, each there and each once."""
    # Normalised, so that a/../b.png and b.png are one file.
    files = tuple(os.path.normpath(root / name) for name in table.column("file"))
    table.check_single(files, "the file")
    table.check_there(files)
    return files


# --- splits ---------------------------------------------------------------------------------------------------


def _named_splits(table: ClientTable) -> Words | None:
    """Return the column of splits, where there is one."""
    if "split" not in table:
        return None
    return np.array(table.read("split", _split))


def _split(cell: str) -> str:
    if cell.lower() not in SPLITS:
        raise ConfigError(nearest(cell, SPLITS, "split"))
    return cell.lower()


def _keyed_splits(table: ClientTable, keys: Ints, labels: Ints, owners: Ints, share: float) -> Words:
    """Keep a share of each class for the test, but leave every client an image to train on."""
    held = held_out(keys, labels, share)
    sizes = np.bincount(owners)
    held_sizes = np.bincount(owners[held], minlength=len(sizes))
    for owner in np.flatnonzero(sizes == held_sizes):
        held[np.flatnonzero(owners == owner)[0]] = False
    if not held.any():
        raise ConfigError(f"{table.path}: no image can be kept for a test; add images, or a column split")
    return np.where(held, TEST, TRAIN)


def _parts(listing: Listing, splits: Words) -> dict[str, Listing]:
    """Return the images of each split: train and test always, the others where there are any."""
    names = {TRAIN, TEST, *splits.tolist()}
    return {name: listing.where(splits == name) for name in sorted(names, key=SPLITS.index)}


# --- labels ---------------------------------------------------------------------------------------------------


def _labels(table: ClientTable, splits: Words | None, classes: int) -> tuple[Ints, int, list[str]]:
    """Return the class of each row, how many there are, and their names where they have some.

    Classes are as they are, or in the order of the training rows' labels.
    """
    if splits is not None:
        _check_both(table, splits)
    if classes:
        return np.array(table.read("label", class_number(classes)), np.int64), classes, []
    cells = np.array(table.column("label"))
    training = cells if splits is None else cells[splits == TRAIN]
    order = in_order(training.tolist())
    _check_classes(table, cells, order)
    return numbered(cells.tolist(), order), len(order), order


def _check_both(table: ClientTable, splits: Words) -> None:
    """Refuse a table without training or test rows."""
    for name in (TRAIN, TEST):
        if name not in splits:
            raise ConfigError(f"{table.path}: no row has the split {name}")


def _check_classes(table: ClientTable, cells: Words, order: list[str]) -> None:
    """Refuse a single class, and a label that no training row has."""
    if len(order) < 2:
        raise ConfigError(f"{table.path}: all training rows have the label {order[0]!r}; two or more are needed")
    for row, known in zip(table.rows, np.isin(cells, order), strict=True):
        if not known:
            raise row.wrong(f"no training row has the label {row.fields[table.places['label']].strip()!r}")
