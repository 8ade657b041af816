"""Clients whose class mixes are drawn from a Dirichlet distribution."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from flatfed.core.configuration.checking import Range
from flatfed.data.partition.base import Ints, Partitioner
from flatfed.data.partition.class_shares import deal_by_size, deal_classes, share
from flatfed.data.partition.mixtures import Floats, Mixtures, apportion, fill_by_draws, fill_by_quota, random_turns

Spread = Annotated[float, Range(low=0.0, high=10.0)]


class Dirichlet(Partitioner, id="dirichlet"):
    """Class mixes q_k ~ Dirichlet(alpha * prior); alpha 0: one class per client.

    The prior sums to 1: 1 / C for each of the C classes, or with `prior="data"` the share of each class in the data, so
    that classes of all sizes last equally long (Hsu et al. 2019, arXiv 1909.06335). Client after client takes its mix
    from what is left, to the nearest sample; where a class runs out, the client draws a new mix over the classes not
    yet exhausted. This rule has the statistics of the split files that FedSAM, FedGloSS and FedGF use; independent
    draws from q_k, or keeping q_k when a class runs out, have not. With alpha = 0 classes have equally many clients
    where possible (or, with `prior="data"`, as many as their share says); where a class has too few samples for its
    clients, these share it evenly and are smaller.

    Clients are equally large, or, with `size_sigma`, log-normally so (see `client_sizes`).
    """

    alpha: Annotated[float, Range(low=0.0, high=1e9)] = 0.5
    prior: Literal["uniform", "data"] = "uniform"
    size_sigma: Spread = 0.0

    def meaning(self, classes: int) -> str:
        """Say that alpha is shared among the classes."""
        if self.alpha == 0:
            return "alpha 0: one class per client"
        each = f"{self.alpha / classes:.4g}" if self.prior == "uniform" else "its share"
        return f"alpha is the total over {classes} classes, {each} for each"

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the clients' mixes in samples, client after client."""
        wanted = client_sizes(int(sizes.sum()), clients, self.size_sigma, generator)
        if self.alpha == 0:
            return share(self._one_class_each(sizes, clients, generator), sizes, wanted)
        return fill_by_quota(sizes, wanted, self._concentration(sizes), generator)

    def _one_class_each(self, sizes: Ints, clients: int, generator: np.random.Generator) -> list[list[int]]:
        if self.prior == "data":
            return deal_by_size(sizes, clients, generator)
        return deal_classes(sizes, clients, 1, generator)

    def _concentration(self, sizes: Ints) -> float | Floats:
        """Return the concentration of every class: one number, or one for each."""
        if self.prior == "data":
            return np.asarray(self.alpha * sizes / sizes.sum())
        return self.alpha / len(sizes)


class DirichletPerClass(Partitioner, id="dirichlet-per-class"):
    """Class mixes q_k ~ Dirichlet(beta for every class), clients filled in random turns.

    The split of the FedSMOO and FedWMSAM code, except that an exhausted class is not started again: mixes are
    renormalised over the others, so that no sample is used twice. Clients are equally large, or, with `size_sigma`,
    log-normally so (see `client_sizes`).
    """

    beta: Annotated[float, Range(low=0.0, open_low=True, high=1e9)] = 0.6
    size_sigma: Spread = 0.0

    def meaning(self, classes: int) -> str:
        """Say that beta is for each class."""
        return f"beta is for each of {classes} classes, {self.beta * classes:.4g} in total"

    def table(self, sizes: Ints, clients: int, generator: np.random.Generator) -> Ints:
        """Return the mixes drawn without replacement, a random client at a time."""
        wanted = client_sizes(int(sizes.sum()), clients, self.size_sigma, generator)
        mixtures = Mixtures.draw(clients, len(sizes), self.beta, generator)
        return fill_by_draws(sizes, mixtures, random_turns(wanted, generator), generator)


def client_sizes(samples: int, clients: int, sigma: float, generator: np.random.Generator) -> Ints:
    """Return how many samples each client gets: floor(samples / clients), or with `sigma` > 0 log-normally many.

    Then client k gets `samples * exp(sigma z_k) / sum_j exp(sigma z_j)` with `z ~ N(0, 1)`, rounded such that all
    samples are used (largest remainders). Who would get none gets one, from the largest.
    """
    # Nothing is drawn here, so that equal sizes leave the draws of the mixes as they are.
    if sigma == 0:
        return np.full(clients, samples // clients, dtype=np.int64)
    normal = generator.standard_normal(clients)
    # Relative to the largest, so that `exp` cannot overflow.
    weights = np.exp(sigma * (normal - normal.max()))
    sizes = apportion(weights / weights.sum(), samples)
    for client in np.flatnonzero(sizes == 0):
        sizes[sizes.argmax()] -= 1
        sizes[client] = 1
    return sizes
