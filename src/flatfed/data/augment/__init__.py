"""Augmentations: frozen dataclasses that change a whole batch, with randomness from the generator they are given.

Two stages. `augment(inputs, generator)` works on raw images (uint8, N x channels x height x width), before they are
normalised. `batch_transform(inputs, targets, generator)` works on the prepared batch: what changes targets too (mixup,
a mask that is scaled with its image) or belongs after normalisation (cutout). Both are drawn once per step, so that
every pass of a step sees the same batch.

>>> augment, batch_transform = named("crop-flip,cutout", {"classes": 10, "image_size": 32})
>>> task = ff.Task(net, clients, test, prepare=prepare, augment=augment, batch_transform=batch_transform)
"""

from flatfed.data.augment.chains import BatchTransformChain, Chain
from flatfed.data.augment.crops import BatchCrop, Crop, LineageCrop, RandomResizedCrop
from flatfed.data.augment.flips import BatchFlip, Flip, HorizontalFlipPair
from flatfed.data.augment.mixing import Cutout, Mixup
from flatfed.data.augment.segmentation import ScaleCrop
from flatfed.data.augment.spelling import augmentations, named

__all__ = [
    "BatchCrop",
    "BatchFlip",
    "BatchTransformChain",
    "Chain",
    "Crop",
    "Cutout",
    "Flip",
    "HorizontalFlipPair",
    "LineageCrop",
    "Mixup",
    "RandomResizedCrop",
    "ScaleCrop",
    "augmentations",
    "named",
]
