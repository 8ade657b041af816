"""IDDA: simulated street scenes of 105 domains, with a class per pixel (E. Alberti et al. 2020)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from flatfed.core.configuration.checking import Positive
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import Official, source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.images import Gigabytes
from flatfed.data.formats.segmentation import ClientList, MaskLabels, SizeText, parse_size, read_client_lists
from flatfed.data.sources.street_scenes.clients import NORMALISE, names_of, pairs_of
from flatfed.data.storage.masks import mask_pool
from flatfed.data.storage.pool import Pool

NAME = "idda"
IMAGES = "IDDAsmall"
CLASSES = 16
BY_VALUE = (255, 2, 4, 255, 11, 5, 0, 0, 1, 8, 13, 3, 7, 6, 255, 255, 15, 14, 12, 9, 10)
"""The class of each value in a mask, as FedDrive joins them; any other value has none."""
LABELS = MaskLabels(dict(enumerate(BY_VALUE)), strict=False)
SEEN, UNSEEN = "same_domain", "diff_domain"


@source(
    NAME,
    partition="natural",
    # Fetched by hand: it comes in several forms, of which the scenarios choose clients of their own.
    official=Official("https://idda-dataset.github.io"),
)
def idda(
    directory: DataDirectory,
    scenario: str = "country",
    lists: Literal["heterogeneous", "uniform"] = "heterogeneous",
    size: SizeText = "1024x1856",
    test_size: SizeText = "512x928",
    crop: SizeText = "512x928",
    min_scale: Positive = 0.5,
    max_scale: Positive = 2.0,
    memory: Gigabytes = 1.0,
) -> Pool:
    """IDDA, simulated street scenes with a class per pixel, 16 classes, test sets of seen and unseen domains; mIoU.

    In the layout of FedDrive: the pictures in IDDAsmall, and beside it its lists of clients,
    LISTS/SCENARIO/{train,test}/*.json. `scenario` is country (90 clients; countryside is unseen), rainy (69 clients;
    rain is unseen) or another folder of lists; `lists` is heterogeneous (a client is one domain) or uniform. `test` has
    the domains of the training clients, `unseen` the others. Pictures are resized to `size` (HEIGHTxWIDTH; tests to
    `test_size`); training ones are scaled by `min_scale` to `max_scale`, cropped to `crop` and flipped. `memory` in
    gigabytes is what is kept of decoded pictures in each process.
    """
    root = directory.find(NAME, f"idda/{IMAGES}", f"idda/data/{IMAGES}", IMAGES).parent
    pictures = root / IMAGES
    train_folder, test_folder = root / lists / scenario / "train", root / lists / scenario / "test"
    train = read_client_lists(train_folder, pictures, pictures)
    tests = read_client_lists(test_folder, pictures, pictures)
    train_shape, test_shape = parse_size("data.size", size), parse_size("data.test_size", test_size)
    parts = {
        "train": pairs_of(train, LABELS, train_shape, train_folder),
        "test": pairs_of(_called(tests, SEEN, test_folder), LABELS, test_shape, test_folder),
    }
    unseen = _matching(tests, UNSEEN)
    if unseen:
        parts["unseen"] = pairs_of(unseen, LABELS, test_shape, test_folder)
    return mask_pool(
        NAME,
        parts,
        CLASSES,
        {"client": names_of(train), "domain": [_domain(path, pictures) for path in parts["train"].images]},
        NORMALISE,
        parse_size("data.crop", crop),
        (min_scale, max_scale),
        memory,
    )


def _domain(path: Path, pictures: Path) -> str:
    """Return the domain of a picture, which is the first folder that it lies in."""
    return path.relative_to(pictures).parts[0]


def _matching(clients: list[ClientList], which: str) -> list[ClientList]:
    return [client for client in clients if which in client.name]


def _called(clients: list[ClientList], which: str, folder: Path) -> list[ClientList]:
    """Return the test client of seen domains; that there is none is an error."""
    matching = _matching(clients, which)
    if not matching:
        names = ", ".join(client.name for client in clients)
        raise ConfigError(f"{folder}: none of the test clients is called *{which}*; there are {names}")
    return matching
