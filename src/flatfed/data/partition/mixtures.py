"""Clients whose classes follow a random mix q_k ~ Dirichlet: how many samples of each class each one gets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Mixtures:
    """Class mixes `q_k ~ Dirichlet(a_1, ..., a_C)`, one row each, as `s log(q_k)` up to a constant per row.

    Logarithms, and scaled by the smallest concentration `s`: with a small one all but one entry of q underflow, yet
    once that class has run out, the others must still be told apart. The gamma variables behind the Dirichlet come from
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


def apportion(shares: Floats, total: int) -> Ints:
    """Return whole numbers near `total * shares` that add up to `total` (method of largest remainders)."""
    exact = total * shares
    whole = np.floor(exact).astype(np.int64)
    # Stable, so that of equal remainders the first are rounded up on every machine.
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole


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
