"""What published data sets are like: shapes, classes, clients by nature and test sets, without any file of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from flatfed.core.task.task import Augment
from flatfed.data.augment import Crop
from flatfed.data.formats.images import IMAGENET_MEAN, IMAGENET_STD
from flatfed.data.sources.published import cifar, dbpedia14, digits, domains, landmarks, mnist
from flatfed.data.sources.street_scenes import camvid, cityscapes, clients, idda
from flatfed.data.storage.pool import Normalise

Kind = Literal["images", "scenes", "texts"]
PHOTOGRAPHS = Normalise(IMAGENET_MEAN, IMAGENET_STD)


@dataclass(frozen=True)
class Original:
    """What a data set is like.

    Args:
        classes: how many there are.
        model: the network that suits it.
        shape: channels, height and width; for texts the vocabulary and the length.
        kind: what an example is: an image with a class, a scene with a class per pixel, a text with a class.
        prepare: a raw batch to the batch that a model takes.
        augment: the augmentation of training images.
        class_names: the names of the classes, where they are known.
        owner: what a client by nature is called; empty where there is none.
        owners: how many of them there are.
        tests: further test sets.
        domains: the domains, one of which is held out as the test.
        groups: further divisions of the training examples, with their numbers.
    """

    classes: int
    model: str
    shape: tuple[int, ...]
    kind: Kind = "images"
    prepare: Normalise | None = None
    augment: Augment | None = None
    class_names: Sequence[str] = ()
    owner: str = ""
    owners: int = 0
    tests: Sequence[str] = ()
    domains: Sequence[str] = ()
    groups: dict[str, int] = field(default_factory=dict)


def _small_pictures(classes: int, prepare: Normalise, names: Sequence[str], groups: dict[str, int]) -> Original:
    return Original(
        classes,
        "cnn",
        (3, 32, 32),
        prepare=prepare,
        augment=cifar.CROP_AND_FLIP,
        class_names=names,
        groups=groups,
    )


def _grey(prepare: Normalise, names: Sequence[str], owner: str = "", owners: int = 0) -> Original:
    return Original(10, "cnn", (1, 28, 28), prepare=prepare, class_names=names, owner=owner, owners=owners)


def _in_domains(classes: int, names: Sequence[str]) -> Original:
    return Original(
        classes,
        "resnet18-gn",
        (3, 224, 224),
        prepare=PHOTOGRAPHS,
        owner="domain",
        owners=len(names) - 1,
        tests=("seen",),
        domains=names,
    )


ORIGINALS = {
    "cifar10": _small_pictures(10, cifar.CIFAR10["fedsam"], cifar.CIFAR10_NAMES, {}),
    "cifar100": _small_pictures(100, cifar.CIFAR100["fedsam"], cifar.FINE_NAMES, {"coarse": 20}),
    "mnist": _grey(mnist.MNIST, mnist.DIGITS),
    "fashion-mnist": _grey(mnist.FASHION_MNIST, mnist.CLOTHES),
    "mnist-writers": _grey(mnist.MNIST, mnist.DIGITS, "writer", 539),
    "digits": Original(
        digits.CLASSES,
        "cnn-small",
        (1, 8, 8),
        prepare=Normalise(digits.MEAN, digits.STD),
        augment=Crop(padding=1),
        class_names=digits.CLASS_NAMES,
    ),
    "landmarks-user-160k": Original(
        landmarks.CLASSES, "mobilenetv2-gn", (3, 224, 224), prepare=PHOTOGRAPHS, owner="user", owners=1_262
    ),
    "officehome": _in_domains(65, domains.OFFICEHOME),
    "pacs": _in_domains(7, domains.PACS),
    "cityscapes": Original(
        len(cityscapes.TRAINED),
        "bisenetv2",
        (3, 512, 1024),
        "scenes",
        clients.NORMALISE,
        owner="city",
        owners=18,
    ),
    "idda": Original(
        idda.CLASSES,
        "bisenetv2",
        (3, 512, 928),
        "scenes",
        clients.NORMALISE,
        owner="client",
        owners=90,
        tests=("unseen",),
        groups={"domain": 5},
    ),
    "camvid": Original(
        camvid.CLASSES,
        "bisenetv2",
        (3, 360, 480),
        "scenes",
        Normalise(camvid.MEAN, camvid.STD),
        owner="sequence",
        owners=3,
        tests=("val",),
        groups={"stretch": 6},
    ),
    "dbpedia14": Original(dbpedia14.CLASSES, "textcnn", (30_000, 128), "texts", class_names=dbpedia14.CLASS_NAMES),
}
"""The data sets that synthetic data can be like."""
