"""Synthetic data like those of a published data set: to try a command or a study without any file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.task.examples import Examples
from flatfed.data.augment import BatchTransformChain, HorizontalFlipPair
from flatfed.data.catalogue import source
from flatfed.data.formats.segmentation import IGNORE
from flatfed.data.sources.made_up.drawn_examples import ExampleMaker
from flatfed.data.sources.made_up.originals import ORIGINALS, Original
from flatfed.data.storage.masks import MaskExamples
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.segmentation import Segmentation, SegmentationLoss

NAME = "synthetic"
CLIENTS = 10
"""Clients by nature where nothing is said, or fewer where the original has fewer."""
MIXED = 0.5
"""The share of an owner's examples that may be of any class."""

Like = Literal[
    "cifar10",
    "cifar100",
    "mnist",
    "fashion-mnist",
    "mnist-writers",
    "digits",
    "landmarks-user-160k",
    "officehome",
    "pacs",
    "cityscapes",
    "idda",
    "camvid",
    "dbpedia14",
]


@source(NAME, follows="like")
def synthetic(
    like: Like = "cifar10",
    train: Count = 400,
    test: Count = 100,
    clients: Index = 0,
    size: Index = 0,
    target: str = "",
    seed: Index = 0,
) -> Pool:
    """Synthetic data, made on the spot like those of a named data set (data.like): to try things, not for results.

    Shapes, classes, clients by nature and test sets are those of `like`. The examples are class means under noise,
    `train` of them and `test` in each test set, decided by `seed` alone. `clients` is the number of clients by nature
    (0: at most 10). `size` makes pictures smaller (their height; 0: as the original's). `target` is the test domain of
    officehome and pacs.
    """
    original = ORIGINALS[like]
    owners = _owner_count(like, original, clients, train)
    drawing = ExampleMaker(original, _shape(original, size), seed, owners)
    return _pool(like, drawing, _parts(like, drawing, train, test, owners, target))


def _shape(original: Original, size: int) -> tuple[int, ...]:
    """Return the shape of an example, of pictures as high as is asked for."""
    if not size or original.kind == "texts":
        return original.shape
    channels, height, width = original.shape
    return channels, size, max(1, round(size * width / height))


def _owner_count(like: str, original: Original, clients: int, train: int) -> int:
    """Return how many clients by nature there are."""
    if not original.owner:
        if clients:
            raise ConfigError(f"{NAME}: {like} has no clients by nature; leave data.clients out, or set --clients")
        return 1
    if original.domains:
        if clients not in (0, original.owners):
            raise ConfigError(f"{NAME}: {like} has {original.owners} clients by nature; leave data.clients out")
        clients = original.owners
    count = clients or min(CLIENTS, original.owners)
    if count > train:
        raise ConfigError(f"{NAME}: {count} clients cannot share {train} examples; set data.train to more")
    return count


class Parts:
    """The examples of each part, and what divides those for training."""

    def __init__(self, sets: Mapping[str, Examples], labels: Tensor, groups: Mapping[str, Tensor]) -> None:
        self.sets, self.labels, self.groups = sets, labels, groups


def _parts(like: str, drawing: ExampleMaker, train: int, test: int, owners: int, target: str) -> Parts:
    original = drawing.original
    labels = torch.arange(train) % original.classes
    holders = _owners(drawing, labels, owners)
    # Tests have tints that no client has: those of a domain that is held out, or of people who do not take part.
    foreign = _held_out(like, original, target) if original.domains else owners
    sets: dict[str, Examples] = {"train": drawing.examples("train", labels, holders)}
    for name in ("test", *original.tests):
        tested = torch.arange(test) % original.classes
        strange = name == "unseen" or (name == "test" and bool(original.domains))
        tints = torch.full_like(tested, foreign) if strange else torch.arange(test) % owners
        sets[name] = drawing.examples(f"{name} {target}".strip(), tested, tints)
    groups = {original.owner: holders} if original.owner else {}
    for name, count in original.groups.items():
        groups[name] = _further_group(name, count, labels, holders, original)
    return Parts(sets, labels, groups)


def _held_out(like: str, original: Original, target: str) -> int:
    """Return a number for the domain that is tested, behind those of the clients."""
    names = {_simple(name): number for number, name in enumerate(original.domains)}
    if target and _simple(target) not in names:
        raise ConfigError(f"{NAME} like {like}: {nearest(target, original.domains, 'domain')}")
    return original.owners + names.get(_simple(target), 0)


def _simple(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _owners(drawing: ExampleMaker, labels: Tensor, count: int) -> Tensor:
    """Return the owner of each example: everybody has one at least, and more of some classes than of others."""
    total = len(labels)
    generator = drawing.generator("who")
    anyone = torch.randint(count, (total,), generator=generator)
    usual = labels * count // drawing.original.classes
    mixed = torch.rand(total, generator=generator) < MIXED
    owners = torch.where(mixed, anyone, usual)
    owners[torch.randperm(total, generator=generator)[:count]] = torch.arange(count)
    return owners


def _further_group(name: str, count: int, labels: Tensor, owners: Tensor, original: Original) -> Tensor:
    """Return a further division of the training examples: classes in groups, domains of clients, stretches of one."""
    if name == "coarse":
        return labels * count // original.classes
    if name == "domain":
        return owners % count
    return owners * count + torch.arange(len(labels)) * count // len(labels)


def _pool(like: str, drawing: ExampleMaker, parts: Parts) -> Pool:
    original, shape = drawing.original, drawing.shape
    sets = dict(parts.sets)
    more: dict[str, Any] = {"augment": original.augment}
    if original.kind == "scenes":
        sets = {name: MaskExamples(examples, (shape[1], shape[2])) for name, examples in sets.items()}
        more = {
            "batch_transform": BatchTransformChain((HorizontalFlipPair(),)),
            "loss": SegmentationLoss(IGNORE),
            "metrics": Segmentation(original.classes, IGNORE),
        }
    train, test = sets.pop("train"), sets.pop("test")
    return Pool(
        name=f"{NAME} like {like}",
        train=train,
        labels=parts.labels,
        test=test,
        classes=original.classes,
        facts=_facts(original, shape),
        default_model=original.model,
        prepare=original.prepare,
        tests=sets,
        groups=parts.groups,
        class_names=original.class_names,
        **more,
    )


def _facts(original: Original, shape: tuple[int, ...]) -> dict[str, int]:
    """Return what a model is built from besides the classes."""
    if original.kind == "texts":
        return {"vocabulary": shape[0], "length": shape[1]}
    return {"in_channels": shape[0], "image_size": shape[1]}
