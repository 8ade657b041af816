"""Lengths and directions."""

from __future__ import annotations

import math

import numpy as np

from methods.naive.model import Vector


def norm(v: Vector) -> float:
    return math.sqrt(float((v**2).sum()))


def unit(v: Vector) -> Vector:
    return v / (norm(v) + 1e-16) if norm(v) > 0 else np.zeros_like(v)
