"""Pachinko allocation: a mix of coarse labels per client, and within each a mix of its fine labels."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.checking import Range
from flatfed.core.errors import ConfigError
from flatfed.data.partition.base import Groups, Ints, Partitioner, deal_samples
from flatfed.data.partition.dirichlet import Mixtures, fill_by_draws
from flatfed.data.partition.natural import COARSE

Concentration = Annotated[float, Range(low=0.0, open_low=True, high=1e9)]


class PAM(Partitioner, id="pam"):
    """Pachinko: coarse labels ~ Dirichlet(alpha each), then fine ones ~ Dirichlet(beta each); CIFAR-100-PAM.

    Reddi et al. 2021 (arXiv 2003.00295), with 500 clients of 100 images. Client after client draws a coarse label, then
    a fine label within it, then an image, without replacement. An exhausted fine label is left out of the mix of its
    coarse one, an exhausted coarse label out of that of the client, and the rest renormalised. Clients are equally
    large.
    """

    default_clients: ClassVar[int] = 500

    alpha: Concentration = 0.1
    beta: Concentration = 10.0

    def meaning(self, classes: int) -> str:
        """Say that both are for each label."""
        return "alpha is for each coarse label, beta for each class within one"

    def assign(
        self, labels: npt.NDArray[Any], groups: Groups, clients: int | None, generator: np.random.Generator
    ) -> list[Ints]:
        """Return the samples of the labels drawn."""
        if COARSE not in groups:
            raise ConfigError("pam: the data has no coarse labels; choose another partition, such as dirichlet")
        _, first, fine, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
        coarse = np.unique(groups[COARSE], return_inverse=True)[1]
        parents = coarse[first]
        if np.any(parents[fine] != coarse):
            wrong = labels[np.flatnonzero(parents[fine] != coarse)[0]]
            raise ConfigError(f"pam: each label must lie in one coarse label, but {wrong} lies in several")
        count = self.count_clients(clients, len(labels))
        return deal_samples(self._draw(sizes, parents, count, generator), fine, generator)

    def _draw(self, sizes: Ints, parents: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return clients x fine labels; `parents` are the coarse labels of the fine ones.

        Coarse labels can be drawn for all before any fine one: a coarse label is exhausted when as many samples are
        taken as it has, whichever of its fine labels they are of.
        """
        totals = np.bincount(parents, weights=sizes).astype(np.int64)
        owners = np.repeat(np.arange(clients), int(sizes.sum()) // clients)
        mixtures = Mixtures.draw(clients, len(totals), self.alpha, generator)
        drawn = fill_by_draws(totals, mixtures, owners, generator)
        table = np.zeros((clients, len(sizes)), dtype=np.int64)
        for c in range(len(totals)):
            members = np.flatnonzero(parents == c)
            mixtures = Mixtures.draw(clients, len(members), self.beta, generator)
            owners = np.repeat(np.arange(clients), drawn[:, c])
            table[:, members] = fill_by_draws(sizes[members], mixtures, owners, generator)
        return table
