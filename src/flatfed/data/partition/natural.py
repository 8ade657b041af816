"""Clients as the data came."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.partition.base import Groups, Ints, Partitioner, samples_of

COARSE = "coarse"
"""The group that is no division into clients but a coarser labelling."""


class Natural(Partitioner, id="natural"):
    """As the data came: a client for each writer, user, domain or sequence.

    `by` names the division where a data set has several. With fewer clients than there are groups, so many are drawn.
    """

    as_the_data_has: ClassVar[bool] = True

    by: str = ""

    def assign(
        self, labels: npt.NDArray[Any], groups: Groups, clients: int | None, generator: np.random.Generator
    ) -> list[Ints]:
        """Return the groups' samples."""
        known = {name: numbers for name, numbers in groups.items() if name != COARSE}
        if not known:
            raise ConfigError("natural: these data have no natural clients; take another partition, such as dirichlet")
        name = self.by or next(iter(known))
        if name not in known:
            raise ConfigError(f"natural: {nearest(name, known, 'division')}")
        found, owners = np.unique(known[name], return_inverse=True)
        parts = samples_of(owners, len(found))
        if clients is None:
            return parts
        if not 1 <= clients <= len(found):
            raise ConfigError(f"natural: {clients} clients, but there are {len(found)} by {name}; leave --clients out")
        return [parts[group] for group in np.sort(generator.permutation(len(found))[:clients])]
