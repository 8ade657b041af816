"""Weather: snow, fog, brightness and spatter; frost exists as published files only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flatfed.data.corruptions.blur import rounded, smooth, streaked
from flatfed.data.corruptions.corruption_types import Pixels, corruption, truncated
from flatfed.data.corruptions.draws import Draws
from flatfed.data.corruptions.droplets import droplets
from flatfed.data.corruptions.sampling import zoom_matrix

LUMA = np.array([0.299, 0.587, 0.114])
WATER = np.array([175.0, 238.0, 238.0]) / 255.0
MUD = np.array([63.0, 42.0, 20.0]) / 255.0

SNOW = (
    (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
    (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
)
SPATTER = (
    (0.62, 0.1, 0.7, 0.7, 0.5, "water"),
    (0.65, 0.1, 0.8, 0.7, 0.5, "water"),
    (0.65, 0.3, 1.0, 0.69, 0.5, "water"),
    (0.65, 0.1, 0.7, 0.69, 0.6, "mud"),
    (0.65, 0.1, 0.5, 0.68, 0.6, "mud"),
)


@corruption("weather", SNOW, smallest=16)
def snow(x: Pixels, level: tuple[float, float, float, float, int, float, float], draws: Draws) -> Pixels:
    """Streaks of falling flakes, in two directions, over an image that is paler."""
    mean, deviation, zoom, threshold, radius, sigma, keep = level
    height, width = x.shape[1:3]
    flakes = draws.normal(mean, deviation, height, width)
    flakes = zoom_matrix(height, zoom) @ flakes @ zoom_matrix(width, zoom).T
    flakes[flakes < threshold] = 0.0
    angles = draws.uniform(-135.0, -45.0)
    # Bytes before and after the streaks, as the published sets were made.
    layer = rounded(streaked(truncated(flakes)[..., None] / 255.0, radius, sigma, angles)) / 255.0
    pale = keep * x + (1.0 - keep) * np.maximum(x, 1.5 * grey(x) + 0.5)
    return pale + layer + layer[:, ::-1, ::-1]


@corruption("weather", ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75)), smallest=8)
def fog(x: Pixels, level: tuple[float, float], draws: Draws) -> Pixels:
    """A cloud of fractal density over the image, dimmed so that the brightest value stays."""
    strength, decay = level
    brightest = x.max(axis=(1, 2, 3), keepdims=True)
    density = cloud(x.shape[1], x.shape[2], decay, draws)[..., None]
    foggy: Pixels = (x + strength * density) * brightest / (brightest + strength)
    return foggy


@corruption("weather", (0.05, 0.1, 0.15, 0.2, 0.3))
def brightness(x: Pixels, more: float, draws: Draws) -> Pixels:
    """The value (of hue, saturation and value) raised."""
    value = x.max(axis=3, keepdims=True)
    raised = np.minimum(value + more, 1.0)
    # Black has no hue and becomes grey.
    brighter: Pixels = np.where(value > 0.0, x * (raised / np.where(value > 0.0, value, 1.0)), raised)
    return brighter


@corruption("weather", SPATTER, smallest=16)
def spatter(x: Pixels, level: tuple[float, float, float, float, float, str], draws: Draws) -> Pixels:
    """Drops of water (severities 1 to 3) or of mud (4 and 5)."""
    mean, deviation, sigma, threshold, strength, kind = level
    liquid = smooth(draws.normal(mean, deviation, *x.shape[1:3]), sigma)
    liquid[liquid < threshold] = 0.0
    if kind == "water":
        return x + strength * droplets(truncated(liquid))[..., None] * tint(WATER, x)
    cover = smooth((liquid > threshold).astype(np.float64), strength)
    cover = np.where(cover < 0.8, 0.0, cover)[..., None]
    return x * (1.0 - cover) + cover * tint(MUD, x)


def grey(x: Pixels) -> Pixels:
    """Return the lightness of images, one channel."""
    if x.shape[3] == 1:
        return x
    lightness: Pixels = (x @ LUMA)[..., None]
    return lightness


def tint(colour: NDArray[np.float64], x: Pixels) -> NDArray[np.float64]:
    """Return a colour as these images can show it."""
    if x.shape[3] == 3:
        return colour
    return np.array([colour @ LUMA])


def cloud(height: int, width: int, decay: float, draws: Draws) -> NDArray[np.float64]:
    """Return fractal clouds between 0 and 1: midpoints displaced at random on a torus, ever less on finer grids.

    A displacement is uniform between -r^2 and r^2; r begins at 100 and is divided by `decay` from grid to grid.
    """
    # The least power of two: a grid is halved down to single pixels.
    side = 1 << (max(height, width, 2) - 1).bit_length()
    density = np.zeros((len(draws), side, side))
    step, reach = side, 100.0
    while step >= 2:
        cells = side // step
        _displace(density, step, draws.uniform(-(reach**2), reach**2, 3, cells, cells))
        step //= 2
        reach /= decay
    density -= density.min(axis=(1, 2), keepdims=True)
    density /= density.max(axis=(1, 2), keepdims=True)
    return density[:, :height, :width]


def _displace(density: NDArray[np.float64], step: int, moves: NDArray[np.float64]) -> None:
    """Fill in the points halfway between those of a grid: the mean of their neighbours, moved."""
    half = step // 2
    corners = density[:, ::step, ::step]
    centres = (_with_next(_with_next(corners, 1), 2)) / 4.0 + moves[:, 0]
    tops = (_with_next(corners, 2) + _with_last(centres, 1)) / 4.0 + moves[:, 1]
    sides = (_with_next(corners, 1) + _with_last(centres, 2)) / 4.0 + moves[:, 2]
    density[:, half::step, half::step] = centres
    density[:, ::step, half::step] = tops
    density[:, half::step, ::step] = sides


def _with_next(grid: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return grid + np.roll(grid, -1, axis=axis)


def _with_last(grid: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return grid + np.roll(grid, 1, axis=axis)
