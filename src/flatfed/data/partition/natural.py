"""Clients as the data came."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.data.partition.base import Groups, Ints, Partitioner, samples_of

COARSE = "coarse"
"""The group that is no division into clients but a coarser labelling."""


class Natural(Partitioner, id="natural"):
    """As the data came: a client for each writer, user, domain or sequence.

    `by` names the division where a data set has several. With n clients, fewer than there are groups, n are drawn.
    """

    as_the_data_has: ClassVar[bool] = True

    by: str = ""

    def assign(
        self, labels: npt.NDArray[Any], groups: Groups, clients: int | None, generator: np.random.Generator
    ) -> list[Ints]:
        """Return the groups' samples."""
        name = self._division(groups)
        numbers, owners = np.unique(groups[name], return_inverse=True)
        parts = samples_of(owners, len(numbers))
        if clients is None:
            return parts
        if not 1 <= clients <= len(parts):
            raise ConfigError(
                f"natural: {clients} clients, but there are {len(parts)} by {name}; leave {PARAMETER} out",
                parameter="clients",
            )
        # The first of one permutation: with more clients, those of a smaller number are among them.
        chosen = np.sort(generator.permutation(len(parts))[:clients])
        return [parts[group] for group in chosen]

    def _division(self, groups: Groups) -> str:
        """Return the name of the division to go by: the one that was asked for, else the first."""
        known = _divisions(groups)
        name = self.by or known[0]
        if name not in known:
            raise ConfigError(f"natural: {nearest(name, known, 'division')}")
        return name


def _divisions(groups: Groups) -> list[str]:
    names = [name for name in groups if name != COARSE]
    if not names:
        raise ConfigError("natural: the data has no natural clients; choose another partition, such as dirichlet")
    return names
