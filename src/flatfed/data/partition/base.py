"""What every partition is: the labels, a rule and a seed decide which client holds which samples.

Most rules say how many samples of each class each client gets, as a table clients x classes; which samples these are is
a shuffle within the class. No sample goes to two clients, and every client has at least one.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.config import Config
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import ConfigError
from flatfed.core.randomness import numpy_generator
from flatfed.data.directory import DataDirectory

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Groups = Mapping[str, npt.NDArray[Any]]

CLIENTS = 100
"""How many clients there are where nothing says otherwise."""


class Partitioner(Config):
    """Family of partitions. A rule overrides `table`, or `assign` where classes are not all that it goes by."""

    registry: ClassVar[Registry[Partitioner]] = Registry("partition")

    default_clients: ClassVar[int] = CLIENTS
    """How many clients there are where none are asked for."""

    as_the_data_has: ClassVar[bool] = False
    """Whether there are then as many as the data, or a file, say."""

    def meaning(self, classes: int) -> str:
        """Say what the concentration counts, where people mean different things by it; else nothing."""
        return ""

    def divide(self, labels: npt.ArrayLike, groups: Groups, clients: int | None, seed: int) -> list[Ints]:
        """Return for each client the indices of its samples, in increasing order: a true partition, checked.

        `groups` are further numbers per sample, by name: natural divisions (by user, say) and coarse labels. Without a
        number of clients there are as many as the rule itself says.
        """
        labels = _checked_labels(labels)
        for name, numbers in groups.items():
            if np.shape(numbers) != labels.shape:
                wanted = f"{len(labels):,} numbers, one for each sample"
                raise ConfigError(f"groups: {name!r} must be {wanted}; its shape is {np.shape(numbers)}")
        parts = self.assign(labels, groups, clients, numpy_generator(seed, "partition", self.id))
        check_partition(parts, len(labels))
        return parts

    def within(self, directory: DataDirectory) -> Self:
        """Return the rule with the files that it needs, found in a data directory."""
        return self

    def split(self, labels: npt.ArrayLike, clients: int, seed: int) -> list[Ints]:
        """Return for each client the indices of its samples, by the labels alone."""
        return self.divide(labels, {}, clients, seed)

    def assign(
        self, labels: npt.NDArray[Any], groups: Groups, clients: int | None, generator: np.random.Generator
    ) -> list[Ints]:
        """Return for each client the indices of its samples."""
        _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        count = self.count_clients(clients, len(labels))
        # The table is drawn before the shuffle: with another order a seed would give other clients.
        return deal_samples(self.table(sizes, count, generator), classes, generator)

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return clients x classes: how many of the `sizes[c]` samples of class c each client gets."""
        raise NotImplementedError

    def count_clients(self, clients: int | None, samples: int) -> int:
        """Return how many clients there are to be, and refuse more than samples."""
        count = self.default_clients if clients is None else clients
        if count < 1:
            raise ConfigError(f"the number of clients must be at least 1, not {count}")
        if count > samples:
            raise ConfigError(f"{count} clients cannot share {samples} samples; use at most {samples} clients")
        return count


def check_partition(parts: Sequence[Ints], samples: int) -> None:
    """Refuse parts that are empty, overlap, or refer to anything but the samples 0 to `samples` - 1."""
    if not len(parts):
        raise ConfigError("there are no clients")
    for client, part in enumerate(parts):
        _check_part(client, part, samples)
    uses = np.bincount(np.concatenate(parts), minlength=samples)
    if uses.max() > 1:
        sample = int(uses.argmax())
        raise ConfigError(f"sample {sample} is held by {_holders(parts, sample)}; a sample has one client")


def _check_part(client: int, part: Ints, samples: int) -> None:
    if len(part) == 0:
        raise ConfigError(f"client {client} has no samples; each client needs at least one")
    outside = part[(part < 0) | (part >= samples)]
    if len(outside):
        raise ConfigError(
            f"client {client} holds sample {outside[0]}, but there are {samples:,} samples, 0 to {samples - 1}"
        )


def _holders(parts: Sequence[Ints], sample: int) -> str:
    """Return who holds a sample: two clients, or one that has it more than once."""
    holders = [client for client, part in enumerate(parts) if sample in part]
    if len(holders) > 1:
        return f"clients {holders[0]} and {holders[1]}"
    return f"client {holders[0]}, more than once"


def samples_of(owners: Ints, clients: int) -> list[Ints]:
    """Return for each client the positions where it is the owner; other owners than 0 to `clients` - 1 are nobody."""
    # Stable, so that the positions of each client come in increasing order.
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(clients + 1))
    return [order[start:end] for start, end in itertools.pairwise(bounds)]


def deal_samples(table: Ints, classes: Ints, generator: np.random.Generator) -> list[Ints]:
    """Return for each client `table[client, c]` random samples of every class c."""
    shuffled = generator.permutation(len(classes))
    # A stable sort keeps the shuffle within each class.
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    unused = np.bincount(classes) - table.sum(axis=0)
    clients = len(table)
    owners = np.empty(len(classes), dtype=np.int64)
    # Class by class, the owners of its samples in turn; owner `clients` stands for nobody.
    owners[by_class] = np.repeat(np.tile(np.arange(clients + 1), len(unused)), np.vstack([table, unused]).T.ravel())
    return samples_of(owners, clients)


def _checked_labels(labels: npt.ArrayLike) -> npt.NDArray[Any]:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ConfigError(f"labels must be one whole number per sample, not {labels.dtype} of shape {labels.shape}")
    return labels


def partitions() -> dict[str, str]:
    """Return the id and a one-line description of every partition."""
    known = Partitioner.registry
    return {id: (inspect.getdoc(known[id]) or "").partition("\n")[0] for id in sorted(known)}


def apportion(shares: Floats, total: int) -> Ints:
    """Return whole numbers near `total * shares` that add up to `total` (method of largest remainders)."""
    exact = total * shares
    whole = np.floor(exact).astype(np.int64)
    # Stable, so that of equal remainders the first are rounded up on every machine.
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole


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
