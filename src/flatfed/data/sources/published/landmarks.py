"""Landmarks-User-160k: photographs of sights, divided by photographer (Hsu, Qi, Brown 2020, arXiv 2003.08082)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from flatfed.core.configuration.checking import Count, Index
from flatfed.data.catalogue import Expected, Official, source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.client_tables import ClientTable, class_number, in_order, numbered, read_table
from flatfed.data.formats.image_folders import Listing
from flatfed.data.formats.images import Decoding, Fit, Gigabytes
from flatfed.data.storage.image_files import TEST, TRAIN, file_pool
from flatfed.data.storage.pool import Pool

NAME = "landmarks-user-160k"
CLASSES = 2_028
TABLES = {
    TRAIN: (f"{NAME}/federated_train.csv", f"{NAME}/data_user_dict/gld160k_user_dict_train.csv"),
    TEST: (f"{NAME}/test.csv", f"{NAME}/data_user_dict/gld160k_user_dict_test.csv"),
}
COLUMNS = {TRAIN: ("user_id", "image_id", "class"), TEST: ("image_id", "class")}
FOLDERS = (f"{NAME}/train", f"{NAME}/images", "google-landmark/train", "google-landmarks-v2/train")


@source(
    NAME,
    partition="natural",
    # Fetched by hand: the photographs are a part of another, far larger set.
    official=Official("https://github.com/google-research/google-research/tree/master/federated_vision_datasets"),
    expected=Expected(train=164_172, test=19_526, classes=CLASSES, groups={"user": 1_262}),
)
def landmarks(
    directory: DataDirectory,
    images: str = "",
    size: Count = 256,
    crop: Index = 224,
    fit: Fit = "crop",
    memory: Gigabytes = 1.0,
    verify: bool = False,
) -> Pool:
    """Landmarks-User-160k, photographs, 2,028 classes, 1,262 users; 164,172 train and 19,526 test.

    The tables federated_train.csv and test.csv lie in landmarks-user-160k/, the images of Google Landmarks v2 in its
    train/ (0/a/f/0af....jpg, or all in one folder) or in the folder `images`. They are decoded when they are needed,
    the shorter side to `size`; training takes a random part resized to `crop`, a test the middle. `memory` gigabytes of
    decoded images are kept in each process.
    """
    tables = {part: read_table(directory.find(NAME, *places), COLUMNS[part]) for part, places in TABLES.items()}
    folder = _image_folder(directory, images)
    parts = {part: _listing(table, folder) for part, table in tables.items()}
    _check_apart(tables, parts)
    users = tables[TRAIN].column("user_id")
    decoding = Decoding(size, crop, fit, 3, memory, verify)
    groups = {"user": numbered(users, in_order(users))}
    return file_pool(NAME, parts, CLASSES, decoding, "mobilenetv2-gn", "resized-crop", groups)


def _image_folder(directory: DataDirectory, images: str) -> Path:
    """Return the folder of the images: the one that was named, or else the first of the usual ones."""
    if images:
        return directory.find_own(NAME, images, "images")
    return directory.find(NAME, *FOLDERS)


def _listing(table: ClientTable, folder: Path) -> Listing:
    """Return the images of a table, each there and each once."""
    names = table.column("image_id")
    table.check_single(names, "the image")
    labels = np.array(table.read("class", class_number(CLASSES)), np.int64)
    files = tuple(_place(str(folder), name) for name in names)
    table.check_there(files)
    return Listing(files, labels)


def _place(folder: str, name: str) -> str:
    """Return where an image lies: by the first three characters of its name, or in the folder itself."""
    flat = os.path.join(folder, f"{name}.jpg")  # noqa: PTH118  (hundreds of thousands)
    if os.path.exists(flat):  # noqa: PTH110  (the same)
        return flat
    return os.path.join(folder, *name[:3], f"{name}.jpg")  # noqa: PTH118  (the same)


def _check_apart(tables: dict[str, ClientTable], parts: dict[str, Listing]) -> None:
    """Refuse an image that is in both tables."""
    trained = set(parts[TRAIN].files)
    for row, file in zip(tables[TEST].rows, parts[TEST].files, strict=True):
        if file in trained:
            raise row.wrong(f"the image {file} is also in {tables[TRAIN].path}, for training")
