"""Classes of exponentially falling size, divided among clients by another rule."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from flatfed.core.configuration.checking import Range
from flatfed.core.errors import ConfigError
from flatfed.data.partition.base import Ints, Partitioner
from flatfed.data.partition.dirichlet import Dirichlet, DirichletPerClass, Spread


class LongTail(Partitioner, id="long-tail"):
    """Classes thinned out to sizes that fall by `imbalance` from first to last, then a Dirichlet partition.

    Of class c = 0, ..., C - 1 at most `n_max * imbalance ** (-c / (C - 1))` samples stay, n_max being the size of the
    largest class (Cao et al. 2019, arXiv 1906.07413); the others belong to nobody. `inner` divides what stays:
    `dirichlet` with the prior of what stays, or `dirichlet-per-class` with alpha for every class.
    """

    imbalance: Annotated[float, Range(low=1.0, high=1e9)] = 100.0
    alpha: Annotated[float, Range(low=0.0, high=1e9)] = 0.5
    inner: Literal["dirichlet", "dirichlet-per-class"] = "dirichlet"
    size_sigma: Spread = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha == 0 and self.inner == "dirichlet-per-class":
            raise ConfigError("long-tail: alpha must be greater than 0 with inner dirichlet-per-class")

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the inner rule's table of what stays."""
        kept = thinned(sizes, self.imbalance)
        if clients > kept.sum():
            raise ConfigError(
                f"long-tail: {clients} clients cannot share the {kept.sum()} samples that an imbalance of "
                f"{self.imbalance:g} leaves; use fewer clients"
            )
        return self._rule().table(kept, clients, generator)

    def meaning(self, classes: int) -> str:
        """Say what alpha counts, which the inner rule decides."""
        return self._rule().meaning(classes).replace("beta", "alpha")

    def _rule(self) -> Partitioner:
        if self.inner == "dirichlet":
            return Dirichlet(alpha=self.alpha, prior="data", size_sigma=self.size_sigma)
        return DirichletPerClass(beta=self.alpha, size_sigma=self.size_sigma)


def thinned(sizes: Ints, imbalance: float) -> Ints:
    """Return how many samples of each class stay: at least one, at most all."""
    place = np.arange(len(sizes)) / max(len(sizes) - 1, 1)
    # 1e-9: a product that should be whole may lie a rounding below.
    wanted = np.floor(sizes.max() * imbalance**-place + 1e-9).astype(np.int64)
    return np.asarray(np.clip(wanted, 1, sizes))
