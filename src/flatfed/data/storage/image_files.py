"""A pool of image files: what sources of photographs share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from flatfed.core.errors import ConfigError
from flatfed.data.augment import named
from flatfed.data.formats.image_folders import Listing
from flatfed.data.formats.images import Decoding, ImageFiles
from flatfed.data.storage.budget import Reader, open_examples, verify
from flatfed.data.storage.new_inputs import ImageReader
from flatfed.data.storage.pool import Pool

TRAIN, TEST = "train", "test"


def file_pool(
    name: str,
    parts: Mapping[str, Listing],
    classes: int,
    decoding: Decoding,
    default_model: str,
    augment: str = "none",
    groups: Mapping[str, npt.NDArray[np.int64]] | None = None,
) -> Pool:
    """Return the pool of `parts`: `train`, `test` and further test sets by name; `groups` divide the first.

    `augment` names augmentations: `resized-crop,flip`.
    """
    files = {part: ImageFiles(each.files, torch.from_numpy(each.labels), decoding) for part, each in parts.items()}
    return reader_pool(name, files, parts[TRAIN].labels, classes, decoding, default_model, augment, groups)


def reader_pool(
    name: str,
    readers: Mapping[str, Reader],
    labels: npt.NDArray[np.int64],
    classes: int,
    decoding: Decoding,
    default_model: str,
    augment: str = "none",
    groups: Mapping[str, npt.NDArray[np.int64]] | None = None,
) -> Pool:
    """Return the pool of what several readers read, with the `labels` of the training part."""
    for part, reader in readers.items():
        _check_filled(name, part, reader)
    if decoding.verify:
        verify(name, readers)
    facts = {"in_channels": decoding.channels, "image_size": decoding.side}
    # Before decoding, so that a wrong name does not cost the time of it.
    augmented, batch_transform = named(augment, {"classes": classes, **facts})
    examples = open_examples(readers, decoding.memory, TRAIN)
    return Pool(
        name=name,
        train=examples.pop(TRAIN),
        labels=torch.from_numpy(labels),
        test=examples.pop(TEST),
        classes=classes,
        facts=facts,
        default_model=default_model,
        prepare=decoding.prepare,
        augment=augmented,
        batch_transform=batch_transform,
        tests=examples,
        groups={group: torch.from_numpy(numbers) for group, numbers in (groups or {}).items()},
        reader=ImageReader(decoding),
    )


def _check_filled(name: str, part: str, reader: Reader) -> None:
    if len(reader) == 0:
        raise ConfigError(f"{name}: there are no images for {part}")
