"""Clients that look alike."""

from __future__ import annotations

import numpy as np

from flatfed.data.partition.base import Ints, Partitioner


class IID(Partitioner, id="iid"):
    """Equal parts of a random shuffle."""

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return draws without replacement (multivariate hypergeometric), client after client."""
        size = int(sizes.sum()) // clients
        left = sizes.copy()
        table = np.empty((clients, len(sizes)), dtype=np.int64)
        for row in table:
            row[:] = generator.multivariate_hypergeometric(left, size)
            left -= row
        return table
