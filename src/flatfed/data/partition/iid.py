"""Clients that look alike."""

from __future__ import annotations

import numpy as np

from flatfed.data.partition.base import Ints, Partitioner


class IID(Partitioner, id="iid"):
    """Equal parts of a random shuffle."""

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return draws without replacement (multivariate hypergeometric), client after client."""
        size, left, rows = int(sizes.sum()) // clients, sizes.copy(), []
        for _ in range(clients):
            rows.append(generator.multivariate_hypergeometric(left, size))
            left -= rows[-1]
        return np.stack(rows)
