"""Blurs."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from flatfed.data.corruptions.corruption_types import Levels, Pixels, corruption, truncated
from flatfed.data.corruptions.draws import Draws
from flatfed.data.corruptions.libraries import ndimage
from flatfed.data.corruptions.sampling import zoom_matrix

NEGLIGIBLE = 1e-9


@corruption("blur", (0.4, 0.6, 0.7, 0.8, 1.0), smallest=8)
def gaussian_blur(x: Pixels, sigma: float, draws: Draws) -> Pixels:
    """A Gaussian blur."""
    return smooth(x, sigma)


@corruption("blur", ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)), smallest=8)
def defocus_blur(x: Pixels, level: tuple[float, float], draws: Draws) -> Pixels:
    """A blur by a disc of some radius, itself softened by a Gaussian."""
    blurred: Pixels = ndimage().correlate(x, disc(*level)[None, :, :, None], mode="mirror")
    return blurred


@corruption("blur", ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2)), smallest=8)
def glass_blur(x: Pixels, level: tuple[float, int], draws: Draws) -> Pixels:
    """Pixels jumbled among neighbours, once or twice, with a Gaussian blur before and after."""
    sigma, times = level
    # To bytes in between, as the published sets were made.
    levels = truncated(smooth(x, sigma))
    for _ in range(times):
        levels = jumbled(levels, draws)
    return smooth(levels / 255.0, sigma)


@corruption("blur", ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5)), smallest=16)
def motion_blur(x: Pixels, level: tuple[int, float], draws: Draws) -> Levels:
    """A blur along a line, at a random angle of -45 to 45 degrees."""
    return rounded(streaked(x, *level, angles=draws.uniform(-45.0, 45.0)))


@corruption("blur", (1.06, 1.11, 1.16, 1.21, 1.26), smallest=16)
def zoom_blur(x: Pixels, largest: float, draws: Draws) -> Pixels:
    """The mean of the image and of itself enlarged in steps of 1 %."""
    # 1.0 is the first factor, so that the image counts twice, as in the published sets.
    factors = np.arange(1.0, largest, 0.01)
    # Height first: one matrix product then enlarges all images.
    rows = np.ascontiguousarray(x.transpose(1, 0, 3, 2))
    height, width = len(rows), rows.shape[3]
    total = rows.copy()
    for factor in factors:
        longer = zoom_matrix(height, factor) @ rows.reshape(height, -1)
        total += (longer.reshape(-1, width) @ zoom_matrix(width, factor).T).reshape(rows.shape)
    return total.transpose(1, 0, 3, 2) / (len(factors) + 1)


def smooth(x: Pixels, sigma: float, mode: str = "nearest", truncate: float = 4.0) -> Pixels:
    """Return images (N x height x width, perhaps x channels) under a Gaussian blur."""
    sigmas = (0.0, sigma, sigma) + (0.0,) * (x.ndim - 3)
    blurred: Pixels = ndimage().gaussian_filter(x, sigmas, mode=mode, truncate=truncate)
    return blurred


def disc(radius: float, softness: float) -> NDArray[np.float64]:
    """Return a disc whose values add up to 1, softened by a Gaussian over 3 x 3 pixels."""
    reach = int(radius) + 2
    squares = np.arange(-reach, reach + 1) ** 2
    flat = (squares[:, None] + squares <= radius**2).astype(np.float64)
    bell = np.exp(-(np.arange(-1, 2) ** 2) / (2.0 * softness**2))
    kernel = np.outer(bell, bell) / bell.sum() ** 2
    softened: NDArray[np.float64] = ndimage().correlate(flat / flat.sum(), kernel, mode="constant")
    return softened


def jumbled(levels: Levels, draws: Draws) -> Levels:
    """Let each pixel take the value of itself or of a neighbour above, to the left, or both.

    The pixels of the two first rows and columns stay. The published sets were made by exchanges in place that overwrite
    one of the two pixels, from the last pixel to the first; this is the same.
    """
    count, height, width = levels.shape[:3]
    # Never to the right or below: the published code excludes the upper end of its draw.
    steps = draws.integers(-1, 0, 2, height - 2, width - 2)
    rows = np.arange(2, height)[:, None] + steps[:, 1]
    columns = np.arange(2, width) + steps[:, 0]
    mixed = levels.copy()
    mixed[:, 2:, 2:] = levels[np.arange(count)[:, None, None], rows, columns]
    return mixed


def streaked(x: Pixels, radius: int, sigma: float, angles: NDArray[np.float64]) -> Pixels:
    """Blur each image along a line that starts in the pixel, by half a Gaussian over 2 `radius` + 1 pixels.

    ImageMagick's rule, with which the published sets were made: the line's points are rounded to pixels, and beyond the
    border the nearest pixel counts.
    """
    count, height, width = x.shape[:3]
    along = np.arange(2 * radius + 1)
    weights = np.exp(-(along**2) / (2.0 * sigma**2))
    weights /= weights.sum()
    turn = np.deg2rad(angles)[:, None]
    # ImageMagick rounds halves down.
    down = np.ceil(along * np.sin(turn) - 0.5).astype(np.int64)
    across = np.ceil(along * np.cos(turn) - 0.5).astype(np.int64)
    reach = 2 * radius
    padded = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    total = np.zeros_like(x)
    for image, point in itertools.product(range(count), np.flatnonzero(weights > NEGLIGIBLE)):
        row, column = reach + down[image, point], reach + across[image, point]
        total[image] += weights[point] * padded[image, row : row + height, column : column + width]
    return total


def rounded(pixels: Pixels) -> Levels:
    """Return pixels (0 to 1) as the nearest bytes."""
    return (np.clip(pixels, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
