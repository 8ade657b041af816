"""One training set-up: what `ff.train` is given, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flatfed.testing.naive.model import IS_WEIGHT, Data, Gradient, Vector, cross_entropy_gradient


@dataclass(frozen=True)
class Swa:
    """N, Averages: `ff.SWA`."""

    start: float = 0.75
    cycle: int = 10
    lr_low: float = 1e-4
    mode: str = "end-of-cycle"


@dataclass(frozen=True)
class Wima:
    """N, Averages: `ff.WIMA`."""

    window: int = 100


@dataclass(frozen=True)
class Setup:
    """What `ff.train` is given, in NumPy. One entry of `schedule` is one round."""

    w0: Vector
    clients: Sequence[Data]
    schedule: Sequence[Sequence[int]]
    lr: float = 0.2
    local_epochs: int = 3
    batch_size: int | None = None
    weight_decay: float = 0.0
    momentum: float = 0.0
    lr_decay: float = 1.0
    clip: float | None = None
    weighting: str = "samples"
    average: Swa | Wima | None = None
    server_rate: float = 1.0  # of the methods whose rate is a factor on their own step
    gradient: Gradient = field(default=cross_entropy_gradient)
    is_weight: NDArray[np.bool_] = field(default_factory=lambda: IS_WEIGHT)

    @property
    def N(self) -> int:  # noqa: N802
        """The number of clients."""
        return len(self.clients)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.schedule)

    def g(self, k: int, w: Vector) -> Vector:
        """The full-batch data gradient of client k."""
        x, y = self.clients[k]
        return self.gradient(w, x, y)

    def K(self, k: int) -> int:  # noqa: N802
        """Local steps of client k; with batches, set-ups must make every batch of a client equal."""
        if self.batch_size is None:
            return self.local_epochs
        return self.local_epochs * math.ceil(len(self.clients[k][1]) / self.batch_size)

    def zeros(self) -> Vector:
        """Return a vector of zeros as long as the model."""
        return np.zeros_like(self.w0)

    def zeros_per_client(self) -> list[Vector]:
        """Return one such vector for each client."""
        return [self.zeros() for _ in self.clients]


def kept(s: Setup, models: list[Vector], w: Vector) -> Vector:
    """End a round whose step leads to w: only `server_rate` of the way is gone."""
    before = models[-1] if models else s.w0
    models.append(w if s.server_rate == 1 else before + s.server_rate * (w - before))
    return models[-1]
