"""Cityscapes: street scenes of 50 cities, with a class per pixel (M. Cordts et al. 2016)."""

from __future__ import annotations

from pathlib import Path

from flatfed.core.configuration.checking import Positive
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import Expected, Official, source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.images import Gigabytes
from flatfed.data.formats.segmentation import IGNORE, ClientList, MaskLabels, SizeText, parse_size, read_client_lists
from flatfed.data.sources.street_scenes.clients import NORMALISE, names_of, pairs_of
from flatfed.data.storage.masks import mask_pool
from flatfed.data.storage.pool import Pool

NAME = "cityscapes"
IMAGES, MASKS = "leftImg8bit", "gtFine"
TRAINED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""The label ids that are evaluated, in the order of their train ids 0 to 18."""
LAST_ID = 33
PARTS = {"train": "train", "test": "val"}
"""The official folder of each part: the official test part has no masks, so that val is what is tested."""
LABELS = MaskLabels(
    dict.fromkeys((*range(LAST_ID + 1), 255), IGNORE) | {id: train_id for train_id, id in enumerate(TRAINED)}
)


@source(
    NAME,
    partition="natural",
    # Fetched by hand: its authors ask for a registration.
    official=Official("https://www.cityscapes-dataset.com"),
    expected=Expected(train=2_975, test=500, classes=len(TRAINED), groups={"city": 18}, chosen_by=("lists",)),
)
def cityscapes(
    directory: DataDirectory,
    lists: str = "",
    size: SizeText = "",
    crop: SizeText = "512x1024",
    min_scale: Positive = 0.5,
    max_scale: Positive = 1.5,
    memory: Gigabytes = 1.0,
) -> Pool:
    """Cityscapes, street scenes with a class per pixel, 19 classes, 2,975 train and 500 test (its val part); mIoU.

    The official folders leftImg8bit and gtFine (fine annotations, labelIds). The clients by nature are the 18 training
    cities, or with `lists=heterogeneous` or `lists=uniform` those of FedDrive's lists, a folder beside leftImg8bit (or
    anywhere) with train/*.json and test/*.json. `size` (HEIGHTxWIDTH) resizes all pictures; training ones are scaled by
    `min_scale` to `max_scale`, cropped to `crop` and flipped. `memory` in gigabytes is what is kept of decoded pictures
    in each process.
    """
    root = directory.find(NAME, f"cityscapes/{IMAGES}", f"cityscapes/data/{IMAGES}", IMAGES).parent
    shape = parse_size("data.size", size)
    train_lists, test_lists = _list_folder(root, lists, "train"), _list_folder(root, lists, "test")
    train, test = _clients(root, "train", train_lists), _clients(root, "test", test_lists)
    parts = {
        "train": pairs_of(train, LABELS, shape, train_lists),
        "test": pairs_of(test, LABELS, shape, test_lists),
    }
    groups = {"city": [path.parent.name for path in parts["train"].images]}
    if lists:
        # The first grouping is the one that the natural partition takes.
        groups = {"client": names_of(train), **groups}
    return mask_pool(
        NAME,
        parts,
        len(TRAINED),
        groups,
        NORMALISE,
        parse_size("data.crop", crop),
        (min_scale, max_scale),
        memory,
    )


def _list_folder(root: Path, lists: str, part: str) -> Path | None:
    """Return the folder of FedDrive's lists of a part, where they are asked for."""
    if not lists:
        return None
    # An absolute path takes the place of the root.
    return root / Path(lists).expanduser() / part


def _clients(root: Path, part: str, folder: Path | None) -> list[ClientList]:
    """Return the clients of a part: those of the lists in a folder, or else the cities."""
    if folder is None:
        return _cities(root, PARTS[part])
    return read_client_lists(folder, root / IMAGES, root / MASKS)


def _cities(root: Path, part: str) -> list[ClientList]:
    """Return the cities of an official part."""
    folder = root / IMAGES / part
    cities = sorted(filter(Path.is_dir, folder.glob("*")))
    if not cities:
        raise ConfigError(f"{NAME}: {folder} holds no CITY/*_{IMAGES}.png; unpack the archives there")
    return [_city(path, root / MASKS / part / path.name) for path in cities]


def _city(folder: Path, masks: Path) -> ClientList:
    """Return the pictures of a city and their masks."""
    ending = f"_{IMAGES}.png"
    images = sorted(folder.glob(f"*{ending}"))
    if not images:
        raise ConfigError(f"{NAME}: {folder} holds no *{ending}; unpack the archives again, or remove it")
    names = [f"{path.name.removesuffix(ending)}_{MASKS}_labelIds.png" for path in images]
    return ClientList(folder.name, images, [masks / name for name in names])
