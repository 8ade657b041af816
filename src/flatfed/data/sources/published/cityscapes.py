"""Cityscapes: street scenes of 50 cities, with a class per pixel (M. Cordts et al. 2016)."""

from __future__ import annotations

from pathlib import Path

from flatfed.core.configuration.config import Positive
from flatfed.core.errors import ConfigError
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.images import Gigabytes
from flatfed.data.formats.segmentation import IGNORE, ClientList, Labels, Pairs, SizeText, parse_size, read_client_lists
from flatfed.data.storage.masks import mask_pool
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.transforms import Normalise

NAME = "cityscapes"
IMAGES, MASKS = "leftImg8bit", "gtFine"
TRAINED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""The label ids that are evaluated, in the order of their train ids 0 to 18."""
LAST_ID = 33
LABELS = Labels(
    dict.fromkeys((*range(LAST_ID + 1), 255), IGNORE) | {id: train_id for train_id, id in enumerate(TRAINED)}
)


@source(NAME, partition="natural")
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
    root = directory.find(NAME, *(f"{place}{IMAGES}" for place in ("cityscapes/", "cityscapes/data/", ""))).parent
    shape = parse_size("data.size", size)
    folders = {part: root / Path(lists).expanduser() / part if lists else None for part in ("train", "test")}
    clients = {
        part: read_client_lists(folder, root / IMAGES, root / MASKS) if folder else _cities(root, part)
        for part, folder in folders.items()
    }
    parts = {part: pairs_of(clients[part], LABELS, shape, folder) for part, folder in folders.items()}
    groups = {"client": [c.name for c in clients["train"] for _ in c.images]} if lists else {}
    return mask_pool(
        NAME,
        parts,
        len(TRAINED),
        groups | {"city": [path.parent.name for path in parts["train"].images]},
        Normalise((0.5,) * 3, (0.5,) * 3),
        parse_size("data.crop", crop),
        (min_scale, max_scale),
        memory,
    )


def pairs_of(
    clients: list[ClientList], labels: Labels, size: tuple[int, int] | None, named_in: Path | None = None
) -> Pairs:
    """Return the pictures of these clients, one client after another; `named_in` is the folder of their lists."""
    images = [path for client in clients for path in client.images]
    masks = [path for client in clients for path in client.masks]
    return Pairs.found(images, masks, labels, size, named_in)


def _cities(root: Path, part: str) -> list[ClientList]:
    """Return the cities of a part; the official test part has no masks, so that val is what is tested."""
    folder = {"train": "train", "test": "val"}[part]
    found = []
    for city in sorted(path for path in (root / IMAGES / folder).glob("*") if path.is_dir()):
        images = sorted(city.glob(f"*_{IMAGES}.png"))
        names = [path.name.removesuffix(f"_{IMAGES}.png") + f"_{MASKS}_labelIds.png" for path in images]
        if not images:
            raise ConfigError(f"{NAME}: {city} holds no *_{IMAGES}.png; unpack the archives again, or remove it")
        found.append(ClientList(city.name, images, [root / MASKS / folder / city.name / name for name in names]))
    if not found:
        raise ConfigError(f"{NAME}: {root / IMAGES / folder} holds no CITY/*_{IMAGES}.png; unpack the archives there")
    return found
