"""Random numbers for a batch of images, each image from a generator of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatfed.core.randomness import numpy_generator

Array = NDArray[np.float64]


class Draws:
    """Draws stacked over the images of a batch: what one image gets does not depend on its neighbours."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators

    @classmethod
    def keyed(cls, seed: int, name: str, severity: int, indices: Sequence[int]) -> Draws:
        """Return the draws for these images under a corruption and its severity."""
        return cls([numpy_generator(seed, "corruption", name, severity, index) for index in indices])

    def __len__(self) -> int:
        return len(self._generators)

    def normal(self, mean: float, deviation: float, *shape: int) -> Array:
        """Return normal numbers of this shape for each image."""
        return np.stack([g.normal(mean, deviation, shape) for g in self._generators])

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        """Return uniform numbers of this shape for each image."""
        return np.stack([g.uniform(low, high, shape) for g in self._generators])

    def integers(self, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Return whole numbers from `low` to `high` inclusive, of this shape for each image."""
        return np.stack([g.integers(low, high, shape, endpoint=True) for g in self._generators])

    def poisson(self, means: Array) -> NDArray[Any]:
        """Return for each image Poisson numbers with these means."""
        return np.stack([g.poisson(mean) for g, mean in zip(self._generators, means, strict=True)])
