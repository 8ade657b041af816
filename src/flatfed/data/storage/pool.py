"""A data set before it is divided among clients: examples, labels, and how stored bytes become a batch.

Its fingerprint shows other pictures under the same names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.core.task.metrics import Classification, Metrics
from flatfed.core.task.outputs import Loss
from flatfed.core.task.ragged import Ragged
from flatfed.core.task.structures import Structure, leaves
from flatfed.core.task.task import Augment, BatchTransform

if TYPE_CHECKING:
    from flatfed.data.storage.new_inputs import InputReader


@dataclass(frozen=True)
class Normalise:
    """`(x / scale - mean) / std` per channel, as float32; `scale` is the value of a white pixel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 255.0

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return a uint8 batch (N x channels x height x width) normalised."""
        # Scaled constants spare a pass over the batch.
        mean = torch.tensor(self.mean, device=inputs.device).view(-1, 1, 1) * self.scale
        std = torch.tensor(self.std, device=inputs.device).view(-1, 1, 1) * self.scale
        return inputs.to(torch.float32).sub_(mean).div_(std)


@dataclass(frozen=True, eq=False)
class Pool:
    """The examples of a data set; images lie as bytes, not floats, so that they are small in shared memory.

    Args:
        name: the id of the data set.
        train: all training examples.
        labels: one whole number per training example, 0 to `classes` - 1: partitions by class go by it.
        test: the test examples.
        classes: number of classes.
        facts: what a model is built from besides the classes: `in_channels` and `image_size`, or `in_features`, or
            `vocabulary` and `length`.
        default_model: id of the model that suits the data.
        prepare: a raw batch to the batch that a model takes; picklable.
        augment: `augment(inputs, generator)` on a raw training batch; picklable.
        batch_transform: `batch_transform(inputs, targets, generator)` on a prepared training batch; picklable.
        tests: further test sets by name, such as `unseen`.
        groups: natural divisions of the training examples by name (`writer`, `user`, `domain`): a number per example;
            the first is the one that a partition by nature uses. `coarse` holds coarse labels.
        loss: the loss.
        metrics: what a test measures besides it.
        class_names: the name of each class, where they are known.
        reader: what makes raw inputs of new files; images in memory need none.
        preprocessing: what turns raw rows into these inputs, ready for JSON, where there is such a thing: it is kept
            with a run.
        is_estimated: whether that was learnt from these very training examples. Whoever holds other examples of the
            same task would learn something else.
    """

    name: str
    train: Examples = field(repr=False)
    labels: Tensor = field(repr=False)
    test: Examples = field(repr=False)
    classes: int
    facts: Mapping[str, int]
    default_model: str
    prepare: Callable[[Tensor], Tensor] | None = None
    augment: Augment | None = None
    batch_transform: BatchTransform | None = None
    tests: Mapping[str, Examples] = field(default_factory=dict)
    groups: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    loss: Loss = F.cross_entropy
    metrics: Metrics = field(default_factory=Classification)
    class_names: Sequence[str] = ()
    reader: InputReader | None = field(default=None, repr=False)
    preprocessing: Mapping[str, Any] | None = field(default=None, repr=False)
    is_estimated: bool = False

    def __post_init__(self) -> None:
        count = len(self.train)
        if count == 0 or len(self.test) == 0:
            raise ConfigError(f"{self.name}: {count} training and {len(self.test)} test examples; neither may be none")
        for name, numbers in {"labels": self.labels, **self.groups}.items():
            self._check_numbers(name, numbers)
        _check_range(self.name, "train", self.labels, self.classes)
        if self.class_names and len(self.class_names) != self.classes:
            raise ConfigError(f"{self.name}: {len(self.class_names)} names for {self.classes} classes")

    def _check_numbers(self, name: str, numbers: Tensor) -> None:
        count = len(self.train)
        if numbers.shape != (count,) or numbers.dtype != torch.int64:
            raise ConfigError(f"{self.name}: {name} must be an int64 number for each of the {count} examples")


def image_pool(
    name: str,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    classes: int,
    default_model: str,
    prepare: Callable[[Tensor], Tensor] | None = None,
    augment: Augment | None = None,
    groups: Mapping[str, Tensor] | None = None,
    class_names: Sequence[str] = (),
) -> Pool:
    """Return the pool of an image classification that lies in memory: uint8 images N x C x H x W, int64 classes."""
    for part, (inputs, targets) in {"train": train, "test": test}.items():
        label = f"{name}: the {part} part"
        _check_types(label, inputs, targets)
        if inputs.shape[1:] != train[0].shape[1:] or inputs.ndim != 4 or not inputs.numel():
            raise ConfigError(f"{label} has inputs of {_by(inputs)}, the train part of {_by(train[0])}")
        _check_range(name, part, targets, classes)
    return Pool(
        name=name,
        train=TensorExamples(*train),
        labels=train[1],
        test=TensorExamples(*test),
        classes=classes,
        facts={"in_channels": train[0].shape[1], "image_size": train[0].shape[2]},
        default_model=default_model,
        prepare=prepare,
        augment=augment,
        groups=groups or {},
        class_names=class_names,
    )


def _check_types(label: str, inputs: Tensor, targets: Tensor) -> None:
    if inputs.dtype != torch.uint8 or targets.dtype != torch.int64:
        raise ConfigError(f"{label} must be uint8 inputs and int64 targets, not {inputs.dtype}, {targets.dtype}")
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise ConfigError(f"{label} has {len(inputs)} inputs and {len(targets)} targets")


def _by(inputs: Tensor) -> str:
    return " x ".join(map(str, inputs.shape))


def _check_range(name: str, part: str, targets: Tensor, classes: int) -> None:
    if int(targets.min()) < 0 or int(targets.max()) >= classes:
        raise ConfigError(f"{name}: the {part} part has targets outside 0..{classes - 1}")


WHOLE = 256 * 2**20
"""Bytes up to which everything is looked at; of what is larger, examples that lie evenly apart."""
LOOKED_AT = 1024
DECODED = 64
"""Of examples that are decoded when they are needed, fewer: each is a file to read."""


class Digest(Protocol):
    """What takes up bytes, one after the other."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take up some bytes."""
        ...


def fingerprint(pool: Pool) -> str:
    """Return a SHA-256 of the labels and examples of all parts of a data set, of large ones by a sample."""
    digest = hashlib.sha256()
    _add_tensor(digest, pool.labels)
    parts: Mapping[str, Examples] = {"train": pool.train, "test": pool.test, **pool.tests}
    for name, examples in parts.items():
        digest.update(f"{name} {len(examples)}".encode())
        _add_examples(digest, examples)
    return digest.hexdigest()


def _add_examples(digest: Digest, examples: Examples) -> None:
    if isinstance(examples, TensorExamples):
        _add_structure(digest, examples.inputs)
        _add_structure(digest, examples.targets)
        return
    _add_sizes(digest, examples)
    for part in examples.batch(_evenly(len(examples), DECODED)):
        _add_structure(digest, part)


def _add_structure(digest: Digest, structure: Structure) -> None:
    """Add the tensors of a structure; where it is more than one tensor, also the names of its entries."""
    if isinstance(structure, Mapping):
        digest.update(" ".join(map(str, structure)).encode())
    for leaf in leaves(structure):
        if isinstance(leaf, Ragged):
            _add_tensor(digest, leaf.ends)
        _add_tensor(digest, leaf.values if isinstance(leaf, Ragged) else leaf)


def _add_sizes(digest: Digest, examples: Examples) -> None:
    """Add the size of every file, where examples lie in files of their own."""
    files = getattr(getattr(examples, "decode", None), "files", None)
    if files is None:
        return
    sizes = np.array([os.stat(cast(str, file)).st_size for file in files], np.int64)  # noqa: PTH116  (many)
    digest.update(sizes.tobytes())


def _add_tensor(digest: Digest, tensor: Tensor) -> None:
    digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    if tensor.nbytes > WHOLE:
        tensor = tensor.index_select(0, _evenly(len(tensor), LOOKED_AT))
    digest.update(tensor.contiguous().view(torch.uint8).numpy().data)


def _evenly(count: int, wanted: int) -> Tensor:
    """Return at most `wanted` of `count` indices, evenly apart, the first and the last among them."""
    if count <= wanted:
        return torch.arange(count)
    return torch.linspace(0, count - 1, wanted, dtype=torch.float64).round().to(torch.int64)
