"""Reading images between their pixels: linear zoom as a matrix, and bilinear interpolation at any places."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import grid_sample

from flatfed.data.corruptions.corruption_types import Pixels

Matrix = NDArray[np.float64]


def zoom_matrix(length: int, factor: float) -> Matrix:
    """Return the linear map of a line of pixels to its central part, enlarged by `factor` to the same length."""
    part = math.ceil(length / factor)
    enlarged = round(part * factor)
    first, skipped = (length - part) // 2, (enlarged - length) // 2
    places = (np.arange(length) + skipped) * ((part - 1) / max(enlarged - 1, 1))
    # The last pixel has no neighbour to its right and is reached from its left one.
    left = np.minimum(places.astype(np.int64), max(part - 2, 0))
    weight = places - left
    matrix = np.zeros((length, length))
    matrix[np.arange(length), first + left] = 1.0 - weight
    matrix[np.arange(length), first + np.minimum(left + 1, part - 1)] += weight
    return matrix


def bilinear(x: Pixels, rows: Matrix, columns: Matrix, about_centres: bool) -> Pixels:
    """Return images at real-valued places (N x height x width each), reflected beyond the border.

    They are reflected about the centres of the outermost pixels (c b | a b c) or about their edges (b a | a b c).
    """
    # `grid_sample` has the column first, as x and y.
    across = _scaled(columns, x.shape[2], about_centres)
    down = _scaled(rows, x.shape[1], about_centres)
    grid = torch.from_numpy(np.stack([across, down], axis=-1))
    planes = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    values = grid_sample(planes, grid, mode="bilinear", padding_mode="reflection", align_corners=about_centres)
    read: Pixels = values.permute(0, 2, 3, 1).numpy()
    return read


def _scaled(places: Matrix, length: int, about_centres: bool) -> Matrix:
    """Return places in pixels on the scale of `grid_sample`: -1 to 1, between centres or edges of the outermost."""
    if about_centres:
        return 2.0 * places / max(length - 1, 1) - 1.0
    return (2.0 * places + 1.0) / length - 1.0
