"""Small image files for tests, written with Pillow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="images need Pillow: pip install 'flatfed[data]'")


def picture(seed: int, width: int = 12, height: int = 10, label: int = 0) -> Any:
    """Return a noisy picture whose brightness tells its class."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return Image.fromarray((generator.integers(0, 60, (height, width, 3)) + 60 * (label % 4)).astype(np.uint8))


def write_picture(path: Path, seed: int = 0, width: int = 12, height: int = 10, label: int = 0) -> Path:
    """Write a picture, lossless or as JPEG by the ending of its name, and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed, width, height, label).save(path)
    return path


def encoded(seed: int, label: int = 0) -> bytes:
    """Return the bytes of a PNG file."""
    buffer = io.BytesIO()
    picture(seed, label=label).save(buffer, "png")
    return buffer.getvalue()


def write_classes(folder: Path, classes: dict[str, int], seed: int = 0, ending: str = ".png") -> Path:
    """Write a folder for each class with this many pictures."""
    for label, (name, count) in enumerate(classes.items()):
        for number in range(count):
            write_picture(folder / name / f"{number:03d}{ending}", seed + 1000 * label + number, label=label)
    return folder
