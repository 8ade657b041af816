"""Noise, independent for every value of every pixel."""

from __future__ import annotations

import numpy as np

from flatfed.data.corruptions.corruption_types import Pixels, corruption
from flatfed.data.corruptions.draws import Draws


@corruption("noise", (0.04, 0.06, 0.08, 0.09, 0.10))
def gaussian_noise(x: Pixels, deviation: float, draws: Draws) -> Pixels:
    """Normal noise of the same deviation everywhere."""
    return x + draws.normal(0.0, deviation, *x.shape[1:])


@corruption("noise", (500, 250, 100, 75, 50))
def shot_noise(x: Pixels, photons: int, draws: Draws) -> Pixels:
    """Poisson noise: a white pixel is `photons` photons on average."""
    return draws.poisson(x * photons) / photons


@corruption("noise", (0.01, 0.02, 0.03, 0.05, 0.07))
def impulse_noise(x: Pixels, share: float, draws: Draws) -> Pixels:
    """A share of all values become black or white, each half of the time."""
    chance = draws.uniform(0.0, 1.0, *x.shape[1:])
    return np.where(chance < share, (chance < share / 2).astype(np.float64), x)


@corruption("noise", (0.06, 0.10, 0.12, 0.16, 0.20))
def speckle_noise(x: Pixels, deviation: float, draws: Draws) -> Pixels:
    """Normal noise in proportion to the value."""
    return x * (1.0 + draws.normal(0.0, deviation, *x.shape[1:]))
