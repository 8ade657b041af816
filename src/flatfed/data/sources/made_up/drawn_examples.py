"""Examples drawn around class means: learnable, the same under every seed of a run, and cheap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from flatfed.core.randomness import torch_generator
from flatfed.core.task.examples import TensorExamples
from flatfed.data.sources.made_up.originals import Original
from flatfed.data.storage.texts import RESERVED

PURPOSE = "synthetic"
GRID = 4
"""The patterns of classes are coarse: this number of fields along each side, so that a crop keeps most of them."""
GREY, CONTRAST, NOISE, SHIFT = 128.0, 45.0, 30.0, 15.0
"""The middle of a pixel's values; standard deviations of class patterns, of the noise, and of an owner's tint."""
TOPIC = 0.3
"""The share of a text's words that are of its topic."""
TOPIC_WORDS = 20
SHORTEST = 0.25
"""A text has at least this share of the longest length."""

Draw = Callable[["ExampleMaker", str, Tensor, Tensor], TensorExamples]


@dataclass(frozen=True)
class ExampleMaker:
    """How synthetic examples are drawn.

    Args:
        original: what they are like.
        shape: their shape, perhaps smaller than that of the original.
        seed: decides every draw.
        owners: how many clients hold the training examples.
    """

    original: Original
    shape: tuple[int, ...]
    seed: int
    owners: int = 1

    def examples(self, part: str, labels: Tensor, owners: Tensor) -> TensorExamples:
        """Return the examples of a part of the data, with these classes and owners."""
        return DRAWS[self.original.kind](self, part, labels, owners)

    def generator(self, *parts: str) -> torch.Generator:
        """Return the generator for a purpose."""
        return torch_generator(self.seed, PURPOSE, *parts)

    def patterns(self) -> Tensor:
        """Return the coarse pattern of each class: classes x channels x fields x fields, around zero."""
        channels, height, width = self.shape
        fields = (self.original.classes, channels, min(GRID, height), min(GRID, width))
        return CONTRAST * torch.randn(fields, generator=self.generator("classes"))

    def enlarged(self, fields: Tensor) -> Tensor:
        """Return coarse fields, channels x fields x fields, as large as a picture."""
        height, width = self.shape[1:]
        return F.interpolate(fields.unsqueeze(0), size=(height, width), mode="nearest")[0]

    def tints(self, owners: Tensor) -> Tensor:
        """Return what the owner of each example adds to its channels."""
        # As many for every part: what is drawn for the first depends on how many there are.
        count = max(self.owners, int(owners.max()) + 1)
        drawn = SHIFT * torch.randn((count, self.shape[0], 1, 1), generator=self.generator("owners"))
        return drawn[owners]


def _images(drawing: ExampleMaker, part: str, labels: Tensor, owners: Tensor) -> TensorExamples:
    """Return images of bytes: the pattern of the class, the tint of the owner, and noise."""
    patterns = drawing.patterns()
    tints = drawing.tints(owners)
    generator = drawing.generator("images", part)
    images = torch.empty((len(labels), *drawing.shape), dtype=torch.uint8)
    # One at a time: a photograph in floats takes four times its bytes.
    for number, label in enumerate(labels.tolist()):
        noise = NOISE * torch.randn(drawing.shape, generator=generator)
        images[number] = _bytes(GREY + drawing.enlarged(patterns[label]) + tints[number] + noise)
    return TensorExamples(images, labels)


def _scenes(drawing: ExampleMaker, part: str, labels: Tensor, owners: Tensor) -> TensorExamples:
    """Return scenes with their masks: each field of a coarse grid has a class, and its pixels the colour of it."""
    channels, height, width = drawing.shape
    classes = drawing.original.classes
    colours = CONTRAST * torch.randn((classes, channels), generator=drawing.generator("classes"))
    tints = drawing.tints(owners)
    generator = drawing.generator("scenes", part)
    images = torch.empty((len(labels), *drawing.shape), dtype=torch.uint8)
    masks = torch.empty((len(labels), height, width), dtype=torch.uint8)
    for number, label in enumerate(labels.tolist()):
        fields = torch.randint(classes, (GRID, GRID), generator=generator)
        # The first row is of the scene's own class, by which scenes may be divided.
        fields[0] = label
        mask = drawing.enlarged(fields.view(1, GRID, GRID).float())[0].long()
        noise = NOISE * torch.randn(drawing.shape, generator=generator)
        images[number] = _bytes(GREY + colours[mask].movedim(2, 0) + tints[number] + noise)
        masks[number] = mask.to(torch.uint8)
    return TensorExamples(images, masks)


def _texts(drawing: ExampleMaker, part: str, labels: Tensor, owners: Tensor) -> TensorExamples:
    """Return texts as word numbers: some words of the topic, the rest of the whole vocabulary, then padding."""
    vocabulary, length = drawing.shape
    words = (drawing.original.classes, TOPIC_WORDS)
    topics = torch.randint(RESERVED, vocabulary, words, generator=drawing.generator("classes"))
    generator = drawing.generator("texts", part)
    shape = (len(labels), length)
    texts = torch.randint(RESERVED, vocabulary, shape, generator=generator)
    chosen = torch.randint(TOPIC_WORDS, shape, generator=generator)
    of_topic = torch.rand(shape, generator=generator) < TOPIC
    texts = torch.where(of_topic, topics[labels].gather(1, chosen), texts)
    shortest = max(1, int(SHORTEST * length))
    lengths = torch.randint(shortest, length + 1, (len(labels), 1), generator=generator)
    texts[torch.arange(length) >= lengths] = 0
    return TensorExamples(texts.to(torch.int32), labels)


def _bytes(values: Tensor) -> Tensor:
    return values.clamp(0, 255).to(torch.uint8)


DRAWS: dict[str, Draw] = {"images": _images, "scenes": _scenes, "texts": _texts}
"""How examples of each kind are drawn."""
