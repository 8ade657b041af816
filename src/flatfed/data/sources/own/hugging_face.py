"""Any classification of images or texts that the library `datasets` of Hugging Face can load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import source
from flatfed.data.directory import DataDirectory, MissingOption
from flatfed.data.formats.hub_tables import HubImages, HubTable, load_splits
from flatfed.data.formats.images import Channels, Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Ints, Mask, Share, held_out, keys_of
from flatfed.data.storage.image_files import TEST, TRAIN, reader_pool
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.texts import Corpus, Script, Size, text_pool
from flatfed.data.storage.tokens import TextReading

NAME = "hugging-face"


@source(NAME)
def hugging_face(
    directory: DataDirectory,
    path: str = "",
    name: str = "",
    train: str = "train",
    test: str = "test",
    column: str = "",
    label: str = "",
    client: str = "",
    download: bool = False,
    test_share: Share = 0.1,
    size: Count = 64,
    crop: Index = 0,
    fit: Fit = "crop",
    channels: Channels = 3,
    augment: str = "none",
    memory: Gigabytes = 1.0,
    verify: bool = False,
    vocabulary: Size = 30_000,
    length: Count = 128,
    script: Script = "ascii",
    tokenizer: str = "",
) -> Pool:
    """Images or texts of Hugging Face's library datasets: a folder, or a name on its hub (data.path).

    `path` is what save_to_disk wrote, a folder of files that load_dataset reads, or a name on the hub with its
    configuration `name`; nothing is fetched unless `download` says so. `train` and `test` are splits; where the latter
    is not there, `test_share` of each class is kept for the test, the same in every run. `column` holds the images or
    texts (by default the first of that kind), `label` the classes and `client` whose they are, for the partition by
    nature. The other options are those of `image-folder` and `texts`.
    """
    if not path:
        raise MissingOption(NAME, "say which data set, a folder or its name on the hub", "path", "FOLDER")
    splits = load_splits(path, _local(directory, path), name, download)
    table = HubTable.choose(path, splits, train, column, label, client)
    order = _classes(table)
    labels = table.labels(order)
    # A split that was named must be there; only in place of the default one are rows held out.
    if test in splits or test != TEST:
        held = np.zeros(len(table), bool)
        tested = HubTable.choose(path, splits, test, table.column, table.label)
    else:
        held = _held_out(table, labels, test_share)
        tested = table.where(held)
    parts = _Parts(table.where(~held), labels[~held], tested, tested.labels(order))
    groups = _groups(table, ~held)
    if table.has_images:
        decoding = Decoding(size, crop, fit, channels, memory, verify)
        readers = parts.images(decoding)
        return reader_pool(NAME, readers, parts.train_labels, len(order), decoding, "cnn", augment, groups)
    return text_pool(NAME, *parts.texts(TextReading(script, tokenizer, length)), len(order), vocabulary, length, groups)


@dataclass(frozen=True)
class _Parts:
    """The rows that are trained on and those that are tested on, with their classes."""

    train: HubTable
    train_labels: Ints
    test: HubTable
    test_labels: Ints

    def images(self, decoding: Decoding) -> dict[str, HubImages]:
        """Return readers of the images of both parts."""
        return {
            TRAIN: self.train.images(self.train_labels, decoding),
            TEST: self.test.images(self.test_labels, decoding),
        }

    def texts(self, reading: TextReading) -> tuple[tuple[Corpus, Ints], tuple[Corpus, Ints]]:
        """Return the texts of both parts, with their classes."""
        train = reading.read(self.train.cells(self.train.column))
        test = reading.read(self.test.cells(self.test.column))
        return (train, self.train_labels), (test, self.test_labels)


def _classes(table: HubTable) -> list[str]:
    classes = table.classes()
    if len(classes) < 2:
        raise ConfigError(f"{table.title}: all rows have one class; a classification needs two or more")
    return classes


def _groups(table: HubTable, trained: Mask) -> dict[str, Ints]:
    """Return the owners of the training rows, where a column says them; they are numbered over all rows."""
    if not table.client:
        return {}
    return {"client": table.owners()[trained]}


def _local(directory: DataDirectory, path: str) -> Path | None:
    """Return the folder or file that is meant; None where it must be a name on the hub."""
    for place in directory.places(path):
        if place.exists():
            return directory.found(place)
    return None


def _held_out(table: HubTable, labels: Ints, share: float) -> Mask:
    """Return which rows are kept for the test: a share of each class."""
    # Rows have no names, but their numbers are the same in every run.
    held = held_out(keys_of(map(str, range(len(table))), f"{NAME} test"), labels, share)
    if not held.any():
        raise ConfigError(f"{table.title} has one row of each class, none of which can be kept for a test")
    return held
