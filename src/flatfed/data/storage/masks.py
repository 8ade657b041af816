"""Pools of images with masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from flatfed.core.task.examples import Examples
from flatfed.data.augment import BatchTransformChain, HorizontalFlipPair, ScaleCrop
from flatfed.data.formats.segmentation import IGNORE, Pairs, Size
from flatfed.data.storage.budget import open_examples
from flatfed.data.storage.pool import Normalise, Pool
from flatfed.data.storage.segmentation import Segmentation, SegmentationLoss

PIXELS = 2**22
"""Pixels in a batch of an evaluation, about: they fit into memory together with a network's features."""


class MaskExamples:
    """Images with masks that lie in bytes, or come from files; batches have int64 masks."""

    def __init__(self, examples: Examples, size: Size) -> None:
        self.examples, self.size = examples, size

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def evaluation_batch(self) -> int:
        """How many images an evaluation should take at a time, at most."""
        return max(1, PIXELS // (self.size[0] * self.size[1]))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and masks."""
        images, masks = self.examples.batch(indices)
        return images, masks.long()


def mask_pool(
    name: str,
    parts: Mapping[str, Pairs],
    classes: int,
    groups: Mapping[str, Sequence[str]],
    prepare: Normalise,
    crop: Size | None,
    scale: tuple[float, float],
    memory: float,
    labels: Tensor | None = None,
) -> Pool:
    """Return the pool of a segmentation: `train`, `test` and further test sets, with the groups by name.

    Training images are scaled and cropped at random with their masks, and flipped; without `crop` to their own size.
    Without `labels`, which partitions by class go by, all examples have label 0.
    """
    opened = open_examples(parts, memory)
    sets = {part: MaskExamples(opened[part], pairs.size) for part, pairs in parts.items()}
    train, test = sets.pop("train"), sets.pop("test")
    size = crop or train.size
    return Pool(
        name=name,
        train=train,
        labels=torch.zeros(len(train), dtype=torch.int64) if labels is None else labels,
        test=test,
        classes=classes,
        facts={"in_channels": 3, "image_size": size[0]},
        default_model="bisenetv2",
        prepare=prepare,
        batch_transform=BatchTransformChain((ScaleCrop(size, scale, IGNORE), HorizontalFlipPair())),
        tests=sets,
        groups={group: numbered(names) for group, names in groups.items()},
        loss=SegmentationLoss(IGNORE),
        metrics=Segmentation(classes, IGNORE),
    )


def numbered(names: Sequence[str]) -> Tensor:
    """Return the number of each name among the different ones, in alphabetical order."""
    return torch.from_numpy(np.unique(np.array(names), return_inverse=True)[1].astype(np.int64))
