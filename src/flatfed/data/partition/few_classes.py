"""Clients that hold few classes: a fixed number of them, or shards of the samples in the order of their labels."""

from __future__ import annotations

import numpy as np

from flatfed.core.configuration.checking import Count
from flatfed.core.errors import ConfigError
from flatfed.data.partition.base import Ints, Partitioner
from flatfed.data.partition.class_shares import deal_classes, share


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


class ByLabelShards(Partitioner, id="by-label-shards"):
    """Samples in the order of their labels, cut into equal shards; each client gets some at random.

    The non-IID split of McMahan et al. 2017 (arXiv 1602.05629), with two shards per client: most clients see two
    classes. Samples beyond the last whole shard are not used.
    """

    shards_per_client: Count = 2

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the classes of each client's shards."""
        samples, shards = int(sizes.sum()), clients * self.shards_per_client
        length = samples // shards
        if length == 0:
            raise ConfigError(
                f"by-label-shards: {self.shards_per_client} shards for each of {clients} clients are {shards}, but "
                f"there are {samples} samples; use fewer clients or shards"
            )
        label = np.repeat(np.arange(len(sizes)), sizes)[: shards * length]
        owner = np.repeat(generator.permutation(shards) // self.shards_per_client, length)
        flat = np.bincount(owner * len(sizes) + label, minlength=clients * len(sizes))
        return flat.reshape(clients, len(sizes))
