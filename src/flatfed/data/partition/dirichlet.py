"""Clients whose class mixes are drawn, q_k ~ Dirichlet, and how many samples of each class each one gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.checking import Range
from flatfed.data.partition.base import Ints, Partitioner, apportion
from flatfed.data.partition.class_shares import deal_by_size, deal_classes, share

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Mixtures:
    """Class mixes `q_k ~ Dirichlet(a_1, ..., a_C)`, one row each, as `s log(q_k)` up to a constant per row.

    Logarithms, and scaled by the smallest concentration `s`: with a small one all but one entry of q underflow, yet
    once that class has run out, the others must still differ. The gamma variables behind the Dirichlet come from
    `log G(a) = log G(a + 1) + log(U) / a` (Marsaglia and Tsang 2000, section 6).
    """

    scaled_logs: Floats
    scale: float

    @classmethod
    def draw(cls, rows: int, classes: int, concentration: float | Floats, generator: np.random.Generator) -> Mixtures:
        """Draw a mix for every row; `concentration` is that of each class, one number or one for every class."""
        # A small alpha over many classes may round to 0, for which there is no Dirichlet distribution.
        each = np.maximum(concentration, np.finfo(np.float64).tiny)
        scale = float(np.min(each))
        logs = scale * np.log(generator.standard_gamma(each + 1, (rows, classes)))
        # -log(U) is exponential.
        return cls(logs - scale / each * generator.standard_exponential((rows, classes)), scale)

    def among(self, left: Bools) -> Floats:
        """Return the mixes renormalised over the classes that are `left`."""
        logs = np.where(left, self.scaled_logs, -np.inf)
        # Divided by a small scale the difference may become -inf, and 0 is then the right weight.
        with np.errstate(over="ignore"):
            weights = np.exp((logs - logs.max(axis=1, keepdims=True)) / self.scale)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def fill_by_quota(sizes: Ints, wanted: Ints, concentration: float | Floats, generator: np.random.Generator) -> Ints:
    """Return clients x classes when each client in turn gets its mix of what is left, to the nearest sample.

    Client k draws q ~ Dirichlet and takes `wanted[k] * q` samples. Where a class has fewer left, it takes these,
    and for the rest draws a new mix over the classes that remain.
    """
    left = sizes.copy()
    table = np.zeros((len(wanted), len(sizes)), dtype=np.int64)
    for row, size in zip(table, wanted.tolist(), strict=True):
        while missing := size - int(row.sum()):
            mixture = Mixtures.draw(1, len(sizes), concentration, generator).among(left > 0)[0]
            taken = np.minimum(apportion(mixture, missing), left)
            row += taken
            left -= taken
    return table


def fill_by_draws(sizes: Ints, mixtures: Mixtures, owners: Ints, generator: np.random.Generator) -> Ints:
    """Return clients x classes when the slots are filled one after another.

    Slot i belongs to client `owners[i]` and draws a class from that client's mix, renormalised over the
    classes of which fewer than `sizes` samples have been taken by then. All slots draw at once; where a class
    runs out, the later slots that had drawn it draw again without it: the same law as one by one.
    """
    left = np.ones(len(sizes), dtype=np.bool_)
    drawn = _draw_classes(mixtures.among(left), owners, generator)
    while (overdrawn := np.flatnonzero(np.bincount(drawn, minlength=len(sizes)) > sizes)).size:
        excess = {c: np.flatnonzero(drawn == c)[sizes[c] :] for c in overdrawn}
        # Only the class that runs out first is certain: what is drawn again may change the others.
        first = min(excess, key=lambda c: int(excess[c][0]))
        left[first] = False
        late = excess[first]
        drawn[late] = _draw_classes(mixtures.among(left), owners[late], generator)
    clients, classes = mixtures.scaled_logs.shape
    return np.bincount(owners * classes + drawn, minlength=clients * classes).reshape(clients, classes)


def _draw_classes(mixes: Floats, owners: Ints, generator: np.random.Generator) -> Ints:
    clients, classes = mixes.shape
    sums = mixes.cumsum(axis=1)
    # Client k's distribution function is moved to [k, k + 1], so that one search serves all clients.
    steps = (sums / sums[:, -1:] + np.arange(clients)[:, None]).ravel()
    # The sum may round up to where the next client begins.
    points = np.minimum(owners + generator.random(len(owners)), np.nextafter(owners + 1.0, 0.0))
    return np.asarray(np.searchsorted(steps, points, side="right") - owners * classes)


def random_turns(wanted: Ints, generator: np.random.Generator) -> Ints:
    """Return the owners of slots when each goes to a client drawn uniformly from those that have fewer than `wanted`.

    Clients as Poisson clocks of equal rate: whichever ticks next is uniform among those that still tick.
    """
    gaps = np.split(generator.standard_exponential(int(wanted.sum())), np.cumsum(wanted)[:-1])
    ticks = np.concatenate([own.cumsum() for own in gaps])
    return np.repeat(np.arange(len(wanted)), wanted)[np.argsort(ticks, kind="stable")]


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
