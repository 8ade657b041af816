"""A partition in numbers: sizes, classes per client, and who holds how many of which class."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.data.partition.base import Ints, Partitioner


def partitions() -> dict[str, str]:
    """Return the id and a one-line description of every partition."""
    known = Partitioner.registry
    return {id: (inspect.getdoc(known[id]) or "").partition("\n")[0] for id in sorted(known)}


def class_counts(parts: Sequence[Ints], labels: npt.ArrayLike, classes: int | None = None) -> Ints:
    """Return clients x classes: how many samples of each class each client holds."""
    labels = np.asarray(labels)
    width = int(labels.max()) + 1 if classes is None else classes
    return np.stack([np.bincount(labels[part], minlength=width) for part in parts])


def describe(parts: Sequence[Ints], labels: npt.ArrayLike) -> dict[str, Any]:
    """Return numbers of clients and samples, and mean, min and max of samples and classes per client."""
    table = class_counts(parts, np.unique(np.asarray(labels), return_inverse=True)[1])
    sizes = table.sum(axis=1)
    return {
        "clients": len(parts),
        "samples": int(sizes.sum()),
        "unused": len(np.asarray(labels)) - int(sizes.sum()),
        "samples_per_client": summary(sizes),
        "classes_per_client": summary((table > 0).sum(axis=1)),
    }


def summary(counts: Ints) -> dict[str, float]:
    """Return mean, min and max of numbers per client."""
    return {"mean": float(counts.mean()), "min": int(counts.min()), "max": int(counts.max())}
