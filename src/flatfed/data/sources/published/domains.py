"""Sets of images in several styles, one of which is held out: does a model do well where it never was?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.core.configuration.config import Count, Index
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.client_tables import Ints
from flatfed.data.formats.image_folders import Listing, class_names, list_classes, subfolders
from flatfed.data.formats.images import Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Portion, file_keys, held_out, sampled
from flatfed.data.storage.image_files import TEST, TRAIN, file_pool
from flatfed.data.storage.pool import Pool

OFFICEHOME = ("Art", "Clipart", "Product", "Real World")
PACS = ("art_painting", "cartoon", "photo", "sketch")
SEEN = 0.1
"""The share of the training domains that is kept for the further test `seen`."""


@source("officehome", partition="natural")
def officehome(
    directory: DataDirectory,
    target: str = "Art",
    split: Count = 1,
    size: Count = 256,
    crop: Index = 224,
    fit: Fit = "crop",
    memory: Gigabytes = 1.0,
    verify: bool = False,
    share: Portion | None = None,
) -> Pool:
    """Office-Home, things of office and home in 4 domains, 65 classes, 15,588 images; one domain is the test.

    `target` is that domain: Art, Clipart, Product or Real World. The others are the clients, each divided among `split`
    of them; a tenth of their images is kept for the further test `seen`. `share` keeps about that share of the other
    images of each class and domain for training, the same ones in every run. (Venkateswara et al. 2017)
    """
    folder = directory.find("officehome", "OfficeHomeDataset_10072016", "OfficeHome", "officehome", "office_home")
    decoding = Decoding(size, crop, fit, 3, memory, verify)
    return _pool("officehome", Domains.read(folder, OFFICEHOME), target, split, decoding, share)


@source("pacs", partition="natural")
def pacs(
    directory: DataDirectory,
    target: str = "art_painting",
    split: Count = 1,
    size: Count = 227,
    crop: Index = 224,
    fit: Fit = "crop",
    memory: Gigabytes = 1.0,
    verify: bool = False,
    share: Portion | None = None,
) -> Pool:
    """PACS, pictures in 4 domains, 7 classes, 9,991 images; one domain is the test.

    `target` is that domain: art_painting, cartoon, photo or sketch. The others are the clients, each divided among
    `split` of them; a tenth of their images is kept for the further test `seen`. `share` keeps about that share of the
    other images of each class and domain for training, the same ones in every run. (Li et al. 2017)
    """
    folder = directory.find("pacs", "PACS/kfold", "PACS", "pacs/kfold", "pacs", "kfold")
    decoding = Decoding(size, crop, fit, 3, memory, verify)
    return _pool("pacs", Domains.read(folder, PACS), target, split, decoding, share)


@dataclass(frozen=True)
class Domains:
    """The images of every domain, by its official name, all with the same classes."""

    folder: Path
    listings: dict[str, Listing]
    classes: list[str]

    @classmethod
    def read(cls, folder: Path, names: Sequence[str]) -> Domains:
        """List the images; spaces, dashes, underscores and capitals in the names of domain folders do not matter."""
        there = {_simple(path.name): path for path in subfolders(folder)}
        for name in names:
            if _simple(name) not in there:
                raise ConfigError(f"{folder / name} is missing; there must be a folder for each of {', '.join(names)}")
        places = {name: there[_simple(name)] for name in names}
        classes = sorted({label for place in places.values() for label in class_names(place)})
        return cls(folder, {name: list_classes(place, classes) for name, place in places.items()}, classes)

    def named(self, name: str) -> str:
        """Return the domain that a name means."""
        for known in self.listings:
            if _simple(known) == _simple(name):
                return known
        raise ConfigError(nearest(name, self.listings, "domain"))


def _simple(name: str) -> str:
    return "".join(c for c in name.lower() if c not in " -_")


def _pool(name: str, domains: Domains, target: str, split: int, decoding: Decoding, share: float | None) -> Pool:
    held = domains.named(target)
    sources = {domain: listing for domain, listing in domains.listings.items() if domain != held}
    together = Listing(
        tuple(file for listing in sources.values() for file in listing.files),
        np.concatenate([listing.labels for listing in sources.values()]),
    )
    number = np.repeat(np.arange(len(sources)), [len(listing) for listing in sources.values()])
    kinds = number * len(domains.classes) + together.labels
    seen = held_out(file_keys(together.files, f"{name} seen", domains.folder), kinds, SEEN)
    if not seen.any():
        raise ConfigError(f"{domains.folder} has one image of each class and domain; there must be more")
    taken = ~seen
    if share is not None:
        keys = file_keys(together.files, f"{name} share", domains.folder)
        taken[taken] = sampled(keys[~seen], kinds[~seen], share)
    train, number = together.where(taken), number[taken]
    parts = {TRAIN: train, TEST: domains.listings[held], "seen": together.where(seen)}
    groups = {"domain": number}
    if split > 1:
        groups = {"client": _divided(name, train, number, list(sources), split, domains.folder), **groups}
    return file_pool(name, parts, len(domains.classes), decoding, "resnet18-gn", "resized-crop,flip", groups)


def _divided(name: str, train: Listing, number: Ints, names: list[str], split: int, root: Path) -> Ints:
    """Return the client of each image: every domain is dealt out among `split` of them, in a keyed order."""
    clients, keys = number * split, file_keys(train.files, f"{name} clients", root)
    for domain, called in enumerate(names):
        members = np.flatnonzero(number == domain)
        if len(members) < split:
            raise ConfigError(f"{name}: {split} clients cannot share the {len(members)} images of {called}")
        clients[members[np.argsort(keys[members])]] += np.arange(len(members)) % split
    return clients
