"""Sets of images in several styles, one of which is held out: does a model do well where it never was?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.catalogue import Expected, Official, source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.client_tables import Ints
from flatfed.data.formats.image_folders import Listing, class_names, list_classes, subfolders
from flatfed.data.formats.images import Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Mask, Portion, file_keys, held_out, sampled
from flatfed.data.storage.image_files import TEST, TRAIN, file_pool
from flatfed.data.storage.pool import Pool

OFFICEHOME = ("Art", "Clipart", "Product", "Real World")
PACS = ("art_painting", "cartoon", "photo", "sketch")
SEEN = 0.1
"""The share of the training domains that is kept for the further test `seen`."""
NO_SEPARATORS = str.maketrans("", "", " -_")


def _expected(classes: int, total: int) -> Expected:
    """Return what is expected of four domains, any one of which is the test."""
    return Expected(train=None, test=None, classes=classes, groups={"domain": 3}, total=total, chosen_by=("share",))


@source(
    "officehome",
    partition="natural",
    # Fetched by hand, as PACS is: neither has an archive with a published checksum.
    official=Official("https://www.hemanthdv.org/officeHomeDataset.html"),
    expected=_expected(classes=65, total=15_588),
)
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


@source(
    "pacs",
    partition="natural",
    official=Official("https://domaingeneralization.github.io"),
    expected=_expected(classes=7, total=9_991),
)
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
        places = _domain_folders(folder, names)
        # The classes of all domains, so that one that a domain lacks is named as missing.
        classes = sorted(set(itertools.chain.from_iterable(map(class_names, places.values()))))
        return cls(folder, {name: list_classes(place, classes) for name, place in places.items()}, classes)

    def named(self, name: str) -> str:
        """Return the domain that a name means."""
        for known in self.listings:
            if _simple(known) == _simple(name):
                return known
        raise ConfigError(nearest(name, self.listings, "domain"))

    def without(self, target: str) -> TrainingDomains:
        """Return the images of all domains but one."""
        names = [name for name in self.listings if name != target]
        listings = [self.listings[name] for name in names]
        files = tuple(itertools.chain.from_iterable(listing.files for listing in listings))
        labels = np.concatenate([listing.labels for listing in listings])
        domains = np.repeat(np.arange(len(names)), list(map(len, listings)))
        return TrainingDomains(self, names, Listing(files, labels), domains)


@dataclass(frozen=True)
class TrainingDomains:
    """The images of the domains that are trained on.

    Args:
        source: all domains.
        names: the names of these.
        images: their images, one domain after another.
        domains: the number of each image's domain.
    """

    source: Domains
    names: list[str]
    images: Listing
    domains: Ints

    def where(self, mask: Mask) -> TrainingDomains:
        """Return some of the images."""
        return TrainingDomains(self.source, self.names, self.images.where(mask), self.domains[mask])

    def keys(self, purpose: str) -> Ints:
        """Return a key of each image, the same in every run."""
        return file_keys(self.images.files, purpose, self.source.folder)

    @property
    def kinds(self) -> Ints:
        """A number for each image that stands for its domain and class."""
        return self.domains * len(self.source.classes) + self.images.labels


def _domain_folders(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the folder of each domain."""
    present = {_simple(path.name): path for path in subfolders(folder)}
    for name in names:
        if _simple(name) not in present:
            raise ConfigError(f"{folder / name} is missing; there must be a folder for each of {', '.join(names)}")
    return {name: present[_simple(name)] for name in names}


def _simple(name: str) -> str:
    return name.lower().translate(NO_SEPARATORS)


def _pool(name: str, domains: Domains, target: str, split: int, decoding: Decoding, share: float | None) -> Pool:
    test_domain = domains.named(target)
    everything = domains.without(test_domain)
    seen = held_out(everything.keys(f"{name} seen"), everything.kinds, SEEN)
    if not seen.any():
        raise ConfigError(f"{domains.folder} has one image of each class and domain; there must be more")
    train = _sampled(name, everything.where(~seen), share)
    parts = {TRAIN: train.images, TEST: domains.listings[test_domain], "seen": everything.where(seen).images}
    groups = {"domain": train.domains}
    if split > 1:
        # The first grouping is the one that the natural partition takes.
        groups = {"client": _clients(name, train, split), **groups}
    return file_pool(name, parts, len(domains.classes), decoding, "resnet18-gn", "resized-crop,flip", groups)


def _sampled(name: str, train: TrainingDomains, share: float | None) -> TrainingDomains:
    """Return a share of the images of each class and domain, or all of them."""
    if share is None:
        return train
    return train.where(sampled(train.keys(f"{name} share"), train.kinds, share))


def _clients(name: str, train: TrainingDomains, split: int) -> Ints:
    """Return the client of each image: every domain is dealt out among `split` of them, in a keyed order."""
    clients = train.domains * split
    keys = train.keys(f"{name} clients")
    for number, domain in enumerate(train.names):
        members = np.flatnonzero(train.domains == number)
        if len(members) < split:
            raise ConfigError(f"{name}: {split} clients cannot share the {len(members)} images of {domain}")
        clients[members[np.argsort(keys[members])]] += np.arange(len(members)) % split
    return clients
