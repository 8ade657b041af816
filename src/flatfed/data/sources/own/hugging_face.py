"""Any classification of images or texts that the library `datasets` of Hugging Face can load."""

from __future__ import annotations

import numpy as np

from flatfed.core.configuration.config import Count, Index
from flatfed.core.errors import ConfigError
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.hub_tables import HubTable, load_splits
from flatfed.data.formats.images import Channels, Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Share, held_out, keys_of
from flatfed.data.storage.image_files import TEST, TRAIN, reader_pool
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.texts import Corpus, Script, Size, text_pool

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
) -> Pool:
    """Images or texts of Hugging Face's library datasets: a folder, or a name on its hub (data.path).

    `path` is what save_to_disk wrote, a folder of files that load_dataset reads, or a name on the hub with its
    configuration `name`; nothing is fetched unless `download` says so. `train` and `test` are splits; where the latter
    is not there, `test_share` of each class is kept for the test, the same in every run. `column` holds the images or
    texts (by default the first of that kind), `label` the classes and `client` whose they are, for the partition by
    nature. The other options are those of `image-folder` and `texts`.
    """
    if not path:
        raise ConfigError(f"{NAME}: say which data set, --set data.path=FOLDER, or its name on the hub")
    local = next((directory.found(place) for place in directory.places(path) if place.exists()), None)
    splits = load_splits(path, local, name, download)
    table = HubTable.choose(path, splits, train, column, label, client)
    order = table.classes()
    if len(order) < 2:
        raise ConfigError(f"{table.title}: all rows have one class; a classification needs two or more")
    labels = table.labels(order)
    if test in splits or test != TEST:
        held, other = np.zeros(len(table), bool), HubTable.choose(path, splits, test, table.column, table.label)
    else:
        held = held_out(keys_of(map(str, range(len(table))), f"{NAME} test"), labels, test_share)
        if not held.any():
            raise ConfigError(f"{table.title} has one row of each class, none of which can be kept for a test")
        other = table.where(held)
    seen, groups = table.where(~held), {"client": table.owners()[~held]} if client else {}
    kept, tested = labels[~held], other.labels(order)
    if table.has_images:
        decoding = Decoding(size, crop, fit, channels, memory, verify)
        readers = {TRAIN: seen.images(kept, decoding), TEST: other.images(tested, decoding)}
        return reader_pool(NAME, readers, kept, len(order), decoding, "cnn", augment, groups)
    texts = [Corpus.read(part.cells(part.column), script) for part in (seen, other)]
    return text_pool(NAME, (texts[0], kept), (texts[1], tested), len(order), vocabulary, length, groups)
