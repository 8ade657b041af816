"""How drops of water catch the light: edges of the drops, distances from them, and a relief of these.

The steps follow OpenCV's functions, with which the published sets were made: Canny's edges, chamfer distances with a
5 x 5 mask, a box blur, histogram equalisation and a 3 x 3 relief.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from flatfed.data.corruptions.corruption_types import Levels
from flatfed.data.corruptions.libraries import ndimage

Grid = NDArray[np.float64]
Mask = NDArray[np.bool_]

LOW, HIGH = 50, 150
FAR = 20.0
"""Distances count up to here."""
STRAIGHT, DIAGONAL, KNIGHT = 1.0, 1.4, 2.1969
COSTS = {1: STRAIGHT, 2: DIAGONAL, 5: KNIGHT}
"""The cost of a move by the square of its length."""
MOVES = [(r, c) for r, c in itertools.product(range(-2, 3), repeat=2) if r**2 + c**2 in COSTS]
RELIEF = np.array([[-2.0, -1.0, 0.0], [-1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
TANGENT = np.tan(np.pi / 8)


def droplets(liquid: Levels) -> Grid:
    """Return how bright the water is, 0 to 1, where `liquid` (N x height x width) says how much of it there is."""
    # By way of float32, as OpenCV keeps distances: a double may be cut off to another whole number.
    depth = _box(distances(edges(liquid))).astype(np.float32).astype(np.uint8)
    raised = np.clip(_relief(equalised(depth)), 0.0, 255.0)
    light = liquid * np.rint(_box(raised))
    brightest = light.max(axis=(1, 2), keepdims=True)
    brightness: Grid = light / np.where(brightest > 0.0, brightest, 1.0)
    return brightness


def edges(images: Levels) -> Mask:
    """Return Canny's edges: ridges of the gradient above HIGH, and those above LOW that are connected to them."""
    filters = ndimage()
    values = images.astype(np.int64)
    across, down = _sobel(values, 2), _sobel(values, 1)
    size = np.abs(across) + np.abs(down)
    ridge = _ridges(size, across, down) & (size > LOW)
    # Pixels are neighbours within an image only, never from one image of the batch to the next.
    within = np.zeros((3, 3, 3), dtype=bool)
    within[1] = True
    labels, count = filters.label(ridge, structure=within)
    strong = np.zeros(count + 1, dtype=bool)
    strong[labels[ridge & (size > HIGH)]] = True
    # Label 0 is all that is no ridge.
    strong[0] = False
    connected: Mask = strong[labels]
    return connected


def _sobel(values: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
    slope = ndimage().correlate1d(values, [-1, 0, 1], axis=axis, mode="nearest")
    gradient: NDArray[np.int64] = ndimage().correlate1d(slope, [1, 2, 1], axis=3 - axis, mode="nearest")
    return gradient


def _ridges(size: NDArray[np.int64], across: NDArray[np.int64], down: NDArray[np.int64]) -> Mask:
    """Return where the gradient is largest along its own direction, in steps of 45 degrees."""
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))
    height, width = size.shape[1:]

    def at(row: int, column: int) -> NDArray[np.int64]:
        return padded[:, 1 + row : 1 + row + height, 1 + column : 1 + column + width]

    flat = np.abs(down) < np.abs(across) * TANGENT
    steep = np.abs(down) > np.abs(across) * (TANGENT + 2.0)
    rising = (across < 0) != (down < 0)
    # Strict on one side only, so that of two equal neighbours one remains.
    along_row = (size > at(0, -1)) & (size >= at(0, 1))
    along_column = (size > at(-1, 0)) & (size >= at(1, 0))
    one_diagonal = (size > at(-1, -1)) & (size > at(1, 1))
    other_diagonal = (size > at(-1, 1)) & (size > at(1, -1))
    slanted = np.where(rising, other_diagonal, one_diagonal)
    ridges: Mask = np.where(flat, along_row, np.where(steep, along_column, slanted))
    return ridges


def distances(marked: Mask) -> Grid:
    """Return each pixel's distance from the nearest marked one, in straight, diagonal and knight's moves, up to FAR."""
    current = np.where(marked, 0.0, FAR)
    while True:
        nearer = _after_one_move(current)
        if np.array_equal(nearer, current):
            return current
        current = nearer


def _after_one_move(current: Grid) -> Grid:
    """Return the distances where each pixel may also go by way of any other that one move reaches."""
    height, width = current.shape[1:]
    padded = np.pad(current, ((0, 0), (2, 2), (2, 2)), constant_values=FAR)
    # Written in place, one move at a time: all moves at once would need sixteen times the memory.
    nearer, through = current.copy(), np.empty_like(current)
    for row, column in MOVES:
        moved = padded[:, 2 + row : 2 + row + height, 2 + column : 2 + column + width]
        np.add(moved, COSTS[row**2 + column**2], out=through)
        np.minimum(nearer, through, out=nearer)
    return nearer


def equalised(images: Levels) -> Levels:
    """Return images whose levels are spread evenly over 0 to 255; one of a single level stays."""
    spread = images.copy()
    for number, image in enumerate(images):
        counts = np.bincount(image.ravel(), minlength=256)
        first = int(np.flatnonzero(counts)[0])
        rest = image.size - counts[first]
        if rest:
            table = np.rint((np.cumsum(counts) - counts[first]) * (255.0 / rest))
            spread[number] = np.clip(table, 0.0, 255.0).astype(np.uint8)[image]
    return spread


def _box(images: NDArray[np.generic]) -> Grid:
    """Return the mean of each 3 x 3 square: one sum, then one division, so that a whole number stays whole."""
    sums: Grid = ndimage().correlate(images.astype(np.float64), np.ones((1, 3, 3)), mode="mirror")
    return sums / 9.0


def _relief(images: Levels) -> Grid:
    relief: Grid = ndimage().correlate(images.astype(np.float64), RELIEF[None], mode="mirror")
    return relief
