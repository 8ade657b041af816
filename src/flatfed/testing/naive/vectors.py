"""Lengths and directions."""

from __future__ import annotations

import math

import numpy as np

from flatfed.testing.naive.model import Vector


def norm(v: Vector) -> float:
    """Return the Euclidean length."""
    return math.sqrt(float((v**2).sum()))


def unit(v: Vector) -> Vector:
    """Return the direction; zero has none, and stays zero."""
    return v / (norm(v) + 1e-16) if norm(v) > 0 else np.zeros_like(v)
