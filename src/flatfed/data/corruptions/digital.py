"""Digital corruptions: contrast, elastic transform, pixelation, JPEG, saturation."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatfed.data.corruptions.blur import smooth
from flatfed.data.corruptions.corruption_types import Levels, Pixels, corruption
from flatfed.data.corruptions.draws import Draws
from flatfed.data.corruptions.libraries import pillow
from flatfed.data.corruptions.sampling import bilinear

ELASTIC = ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))


@corruption("digital", (0.75, 0.5, 0.4, 0.3, 0.15))
def contrast(x: Pixels, keep: float, draws: Draws) -> Pixels:
    """Every value moved towards its channel's mean over the image."""
    mean = x.mean(axis=(1, 2), keepdims=True)
    flatter: Pixels = (x - mean) * keep + mean
    return flatter


@corruption("digital", ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)), colour=True)
def saturate(x: Pixels, level: tuple[float, float], draws: Draws) -> Pixels:
    """The saturation (of hue, saturation and value) lowered at severities 1 and 2, raised from 3 on; grey turns red."""
    factor, more = level
    value = x.max(axis=3, keepdims=True)
    spread = value - x.min(axis=3, keepdims=True)
    # A black pixel has no saturation; only the divisor must not be 0.
    saturation = spread / np.where(value > 0.0, value, 1.0)
    wanted = np.clip(saturation * factor + more, 0.0, 1.0)
    coloured = value - (value - x) * (wanted / np.where(saturation > 0.0, saturation, 1.0))
    # Grey has the hue 0, which is red.
    red = value * (1.0 - wanted * np.array([0.0, 1.0, 1.0]))
    saturated: Pixels = np.where(spread > 0.0, coloured, red)
    return saturated


@corruption("digital", ELASTIC, smallest=8)
def elastic_transform(x: Pixels, level: tuple[float, float, float], draws: Draws) -> Pixels:
    """A random affine map, then a smooth random displacement of every pixel; the levels are shares of the side."""
    height, width = x.shape[1:3]
    strength, sigma, shift = (share * min(height, width) for share in level)
    moved = affine(x, draws.uniform(-shift, shift, 3, 2))
    # In this order: the displacements across are drawn before those down.
    across = strength * smooth(draws.uniform(-1.0, 1.0, height, width), sigma, mode="reflect", truncate=3.0)
    down = strength * smooth(draws.uniform(-1.0, 1.0, height, width), sigma, mode="reflect", truncate=3.0)
    rows = np.arange(height, dtype=np.float64)[:, None] + down
    columns = np.arange(width, dtype=np.float64) + across
    return bilinear(moved, rows, columns, about_centres=False)


@corruption("digital", (0.95, 0.9, 0.85, 0.75, 0.65), smallest=8)
def pixelate(x: Pixels, share: float, draws: Draws) -> Levels:
    """The image made smaller and large again, with box filters."""
    height, width = x.shape[1:3]
    box = pillow().Resampling.BOX
    small = (int(width * share), int(height * share))
    return _each(x, lambda image: image.resize(small, box).resize((width, height), box))


@corruption("digital", (80, 65, 58, 50, 40), smallest=8)
def jpeg_compression(x: Pixels, quality: int, draws: Draws) -> Levels:
    """The image after JPEG compression of this quality."""

    def compressed(image: Any) -> Any:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return pillow().open(file)

    return _each(x, compressed)


def affine(x: Pixels, shifts: NDArray[np.float64]) -> Pixels:
    """Map three corners of the central square, of a third of the side to each direction, to places shifted so."""
    height, width = x.shape[1:3]
    centre, reach = np.array([width // 2, height // 2]), min(height, width) // 3
    corners = centre + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    ones = np.ones((len(x), 3, 1))
    back = np.linalg.solve(np.concatenate([corners + shifts, ones], axis=2), np.broadcast_to(corners, shifts.shape))
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    places = np.stack([columns, rows, np.ones_like(rows)], axis=-1)
    source = np.einsum("hwk,nkp->nhwp", places, back)
    return bilinear(x, source[..., 1], source[..., 0], about_centres=True)


def _each(x: Pixels, change: Callable[[Any], Any]) -> Levels:
    """Return the images, each after a change by Pillow."""
    # Exact: the pixels are bytes divided by 255.
    levels = np.rint(x * 255.0).astype(np.uint8)
    # Pillow wants grey images without an axis for channels.
    squeezed = levels[..., 0] if levels.shape[3] == 1 else levels
    changed = np.stack([np.asarray(change(pillow().fromarray(image))) for image in squeezed])
    return changed.reshape(levels.shape)
