"""Arithmetic on flat vectors that the methods share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

GUARD = 1e-16
"""Added to every norm that divides: `unit(v) = v / (norm(v) + GUARD)`."""


def length(v: Tensor) -> Tensor:
    """Return `||v||` as a tensor of one entry; of each row where `v` has a client's vector in each."""
    norms: Tensor = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    return norms


def unit(v: Tensor) -> Tensor:
    """Return `v / (||v|| + 1e-16)`, one L2 norm over the whole vector; the zero vector stays zero."""
    return v / (length(v) + GUARD)


def unit_(v: Tensor) -> Tensor:
    """As `unit`, in place."""
    return v.div_(length(v) + GUARD)


def norm(v: Tensor) -> float:
    """Return the L2 norm of the whole vector."""
    return float(torch.linalg.vector_norm(v))


def is_finite(v: Tensor) -> bool:
    """Say whether every entry is finite, in one pass in the common case (a finite sum implies it)."""
    return math.isfinite(float(v.sum())) or bool(torch.isfinite(v).all())
