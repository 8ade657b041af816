"""Partitions: which client holds which samples, decided by the labels, a rule and a seed.

A rule says how many samples of each class each client gets, as a table clients x classes; which samples
these are is a shuffle within the class. All clients get floor(samples / clients) samples unless a rule says
otherwise, and no sample goes to two of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from flatfed.core.config import Config, Count, Range, Registry
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.randomness import numpy_generator
from flatfed.data.holdings import deal_classes, share
from flatfed.data.mixtures import Mixtures, fill_by_draws, fill_by_quota, random_turns

Ints = npt.NDArray[np.int64]

CLIENTS = 100
"""How many clients there are where nothing says otherwise."""


class Partitioner(Config):
    """Family of partitions."""

    registry: ClassVar[Registry[Partitioner]] = Registry("partition")

    def divide(
        self, labels: npt.ArrayLike, groups: Mapping[str, npt.NDArray[Any]], clients: int | None, seed: int
    ) -> list[Ints]:
        """Return for each client the indices of its samples; `groups` are natural divisions (by user, say).

        Without a number of clients there are 100, or as many as the rule itself says.
        """
        return self.split(labels, CLIENTS if clients is None else clients, seed)

    def split(self, labels: npt.ArrayLike, clients: int, seed: int) -> list[Ints]:
        """Return for each client the indices of its samples, in increasing order."""
        _, classes, sizes = np.unique(_checked_labels(labels), return_inverse=True, return_counts=True)
        _check_clients(clients, len(classes))
        generator = numpy_generator(seed, "partition", self.id)
        parts = _deal_samples(self.table(sizes, clients, generator), classes, generator)
        check_partition(parts, len(classes))
        return parts

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return clients x classes: how many of the `sizes[c]` samples of class c each client gets."""
        raise NotImplementedError


class IID(Partitioner, id="iid"):
    """Equal parts of a random shuffle."""

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return draws without replacement (multivariate hypergeometric), client after client."""
        size, left, rows = int(sizes.sum()) // clients, sizes.copy(), []
        for _ in range(clients):
            rows.append(generator.multivariate_hypergeometric(left, size))
            left -= rows[-1]
        return np.stack(rows)


class Dirichlet(Partitioner, id="dirichlet"):
    """Class mixes q_k ~ Dirichlet(alpha * uniform prior), equal sizes; alpha 0: one class per client.

    The prior sums to 1, so each of the C classes has concentration alpha / C (Hsu et al. 2019,
    arXiv 1909.06335). Client after client takes its mix from what is left, to the nearest sample; where a
    class runs out, the client draws a new mix over the classes not yet exhausted. This rule has the statistics
    of the split files that FedSAM, FedGloSS and FedGF use; independent draws from q_k, or keeping q_k when a
    class runs out, have not. With alpha = 0 classes have equally many clients where possible; where a class
    has too few samples for its clients, these share it evenly and are smaller.
    """

    alpha: Annotated[float, Range(low=0.0, high=1e9)] = 0.5

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the clients' mixes in samples, client after client."""
        size = int(sizes.sum()) // clients
        if self.alpha == 0:
            return share(deal_classes(sizes, clients, 1, generator), sizes, size)
        return fill_by_quota(sizes, clients, size, self.alpha / len(sizes), generator)


class DirichletPerClass(Partitioner, id="dirichlet-per-class"):
    """Class mixes q_k ~ Dirichlet(beta for every class), equal sizes, clients filled in random turns.

    The split of the FedSMOO and FedWMSAM code, except that an exhausted class is not started again: mixes are
    renormalised over the others, so that no sample is used twice.
    """

    beta: Annotated[float, Range(low=0.0, open_low=True, high=1e9)] = 0.6

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the mixes drawn without replacement, a random client at a time."""
        size = int(sizes.sum()) // clients
        mixtures = Mixtures.draw(clients, len(sizes), self.beta, generator)
        return fill_by_draws(sizes, mixtures, random_turns(clients, size, generator), generator)


class Pathological(Partitioner, id="pathological"):
    """A fixed number of classes per client, in equal shares.

    The papers' gamma. Classes are dealt at random such that all have equally many holders (the FedSMOO code
    draws them independently and repeats samples of those in demand). Clients are equally large where the
    classes allow it, and otherwise differ as little as possible.
    """

    classes_per_client: Count = 3

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the classes dealt and shared."""
        size = int(sizes.sum()) // clients
        if self.classes_per_client > min(size, len(sizes)):
            raise ConfigError(
                f"pathological: classes_per_client must be at most {min(size, len(sizes))}, not "
                f"{self.classes_per_client}: there are {len(sizes)} classes, and {size} samples per client"
            )
        return share(deal_classes(sizes, clients, self.classes_per_client, generator), sizes, size)


class Natural(Partitioner, id="natural"):
    """As the data came: a client for each writer, user, domain or sequence.

    `by` names the division where a data set has several. With fewer clients than there are groups, so many are drawn.
    """

    by: str = ""

    def divide(
        self, labels: npt.ArrayLike, groups: Mapping[str, npt.NDArray[Any]], clients: int | None, seed: int
    ) -> list[Ints]:
        """Return the groups' samples."""
        known = {name: numbers for name, numbers in groups.items() if name != "coarse"}
        if not known:
            raise ConfigError("natural: these data have no natural clients; take another partition, such as dirichlet")
        name = self.by or next(iter(known))
        if name not in known:
            raise ConfigError(f"natural: {nearest(name, known, 'division')}")
        chosen = np.unique(known[name])
        if clients is not None and clients > len(chosen):
            raise ConfigError(f"natural: {clients} clients, but there are {len(chosen)} by {name}; leave --clients out")
        if clients is not None:
            chosen = np.sort(numpy_generator(seed, "partition", self.id).permutation(chosen)[:clients])
        return [np.flatnonzero(known[name] == group) for group in chosen]


def partitions() -> dict[str, str]:
    """Return the id and a one-line description of every partition."""
    known = Partitioner.registry
    return {id: (inspect.getdoc(known[id]) or "").partition("\n")[0] for id in sorted(known)}


def check_partition(parts: Sequence[Ints], samples: int) -> None:
    """Refuse parts that are empty, overlap, or refer to anything but the samples 0 to `samples` - 1."""
    for client, part in enumerate(parts):
        if len(part) == 0:
            raise ConfigError(f"client {client} has no samples; use fewer clients")
        if part.min() < 0 or part.max() >= samples:
            raise ConfigError(f"client {client} refers to samples outside the {samples} that there are")
    uses = np.bincount(np.concatenate(parts), minlength=samples)
    if uses.max() > 1:
        raise ConfigError(f"sample {int(uses.argmax())} is used {int(uses.max())} times; a sample has one client")


def describe(parts: Sequence[Ints], labels: npt.ArrayLike) -> dict[str, Any]:
    """Return numbers of clients and samples, and mean, min and max of samples and classes per client."""
    labels = np.asarray(labels)
    sizes = [len(part) for part in parts]
    return {
        "clients": len(parts),
        "samples": sum(sizes),
        "samples_per_client": _summary(sizes),
        "classes_per_client": _summary([len(np.unique(labels[part])) for part in parts]),
    }


def _summary(counts: list[int]) -> dict[str, float]:
    return {"mean": float(np.mean(counts)), "min": min(counts), "max": max(counts)}


def _checked_labels(labels: npt.ArrayLike) -> npt.NDArray[Any]:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ConfigError(f"labels must be one whole number per sample, not {labels.dtype} of shape {labels.shape}")
    return labels


def _check_clients(clients: int, samples: int) -> None:
    if clients < 1:
        raise ConfigError(f"the number of clients must be at least 1, not {clients}")
    if clients > samples:
        raise ConfigError(f"{clients} clients cannot share {samples} samples; use at most {samples} clients")


def _deal_samples(table: Ints, classes: Ints, generator: np.random.Generator) -> list[Ints]:
    """Return for each client `table[client, c]` random samples of every class c."""
    shuffled = generator.permutation(len(classes))
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    unused = np.bincount(classes) - table.sum(axis=0)
    clients = len(table)
    # Class by class, the owners of its samples in turn; owner `clients` stands for nobody.
    owners = np.repeat(np.tile(np.arange(clients + 1), len(unused)), np.vstack([table, unused]).T.ravel())
    return [np.sort(by_class[owners == client]) for client in range(clients)]
