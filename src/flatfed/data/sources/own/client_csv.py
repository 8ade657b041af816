"""Any classification of images whose owners are written in a table."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.config import Count, Index
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.client_tables import Ints, Table, class_number, in_order, numbered, read_table
from flatfed.data.formats.image_folders import Listing
from flatfed.data.formats.images import Channels, Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Share, file_keys, held_out
from flatfed.data.storage.image_files import TEST, TRAIN, file_pool, own_path
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
    table = read_table(own_path(NAME, directory, path, example="clients.csv"), *COLUMNS)
    root = own_path(NAME, directory, images, "images") if images else table.path.parent
    files = _files(table, root)
    given = np.array(table.read("split", _split)) if "split" in table else None
    labels, count = _labels(table, given, classes)
    clients = table.column("client")
    owners = numbered(clients, in_order(clients))
    splits = given if given is not None else _keyed(files, labels, owners, test_share, root)
    if TEST not in splits:
        raise ConfigError(f"{table.path}: no image can be kept for a test; add images, or a column split")
    listing = Listing(files, labels)
    parts = {name: listing.where(splits == name) for name in SPLITS if name in (TRAIN, TEST) or (splits == name).any()}
    decoding = Decoding(size, crop, fit, channels, memory, verify)
    return file_pool(NAME, parts, count, decoding, "cnn", augment, {"client": owners[splits == TRAIN]})


def _files(table: Table, root: Path) -> tuple[str, ...]:
    """Return the files, each there and each once."""
    files = tuple(os.path.normpath(root / name) for name in table.column("file"))
    table.check_single(files, "the file")
    table.check_there(files)
    return files


def _split(cell: str) -> str:
    if cell.lower() not in SPLITS:
        raise ConfigError(nearest(cell, SPLITS, "split"))
    return cell.lower()


def _keyed(files: tuple[str, ...], labels: Ints, owners: Ints, share: float, root: Path) -> Words:
    """Keep a share of each class for the test, but leave every client an image to train on."""
    held = held_out(file_keys(files, f"{NAME} test", root), labels, share)
    everything, lost = (np.bincount(owners[mask], minlength=owners.max() + 1) for mask in (held | True, held))
    for owner in np.flatnonzero(everything == lost):
        held[np.flatnonzero(owners == owner)[0]] = False
    return np.where(held, TEST, TRAIN)


def _labels(table: Table, splits: Words | None, classes: int) -> tuple[Ints, int]:
    """Return the class of each row and their number: as they are, or in the order of the training rows' labels."""
    for name in (TRAIN, TEST):
        if splits is not None and name not in splits:
            raise ConfigError(f"{table.path}: no row has the split {name}")
    if classes:
        return np.array(table.read("label", class_number(classes)), np.int64), classes
    cells = np.array(table.column("label"))
    order = in_order((cells if splits is None else cells[splits == TRAIN]).tolist())
    if len(order) < 2:
        raise ConfigError(f"{table.path}: all training rows have the label {order[0]!r}; two or more are needed")
    for row, known in zip(table.rows, np.isin(cells, order), strict=True):
        if not known:
            raise row.wrong(f"no training row has the label {row.fields[table.places['label']].strip()!r}")
    return numbered(cells.tolist(), order), len(order)
