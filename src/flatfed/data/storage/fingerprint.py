"""A fingerprint of the examples of a data set: other pictures under the same names are noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.data.storage.pool import Pool

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
        _add_tensor(digest, examples.inputs)
        _add_tensor(digest, examples.targets)
        return
    _add_sizes(digest, examples)
    inputs, targets = examples.batch(_evenly(len(examples), DECODED))
    _add_tensor(digest, inputs)
    _add_tensor(digest, targets)


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
