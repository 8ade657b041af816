"""Power iteration with deflation as the papers use it, for comparison: it may stop far from an eigenvalue.

    repeat at most 20 times: u = A v, lambda = <v, u>, v = u/||u||, until lambda changes by less than 1e-4 of itself
    then A <- A - lambda v v^T for the next one

It finds the largest in absolute value first; the start vector is uniform on [0, 1), and normalised here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.randomness import torch_generator
from flatfed.flatness.spectra.lanczos import Eigenvalues, Product, check_count


def power_iteration(
    product: Product,
    size: int,
    k: int = 1,
    *,
    steps: int = 20,
    tolerance: float = 1e-4,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Eigenvalues:
    """Return `k` eigenvalue estimates in descending order, with the residuals that they really have."""
    check_count(k, size)
    generator = torch_generator(seed, "power iteration")
    estimates: list[_Estimate] = []
    for _ in range(k):
        start = torch.rand(size, generator=generator, dtype=torch.float64).to(dtype)
        estimates.append(_iterate(_deflated(product, estimates), start, steps, tolerance))
    products = sum(estimate.products for estimate in estimates)
    estimates.sort(key=lambda estimate: -estimate.value)
    return Eigenvalues(
        torch.tensor([estimate.value for estimate in estimates], dtype=torch.float64),
        torch.tensor([estimate.residual for estimate in estimates], dtype=torch.float64),
        torch.stack([estimate.vector for estimate in estimates]),
        products,
        tolerance,
        0.0,
    )


@dataclass(frozen=True)
class _Estimate:
    """An eigenvalue as power iteration leaves it, and the products that it took."""

    value: float
    residual: float
    vector: Tensor
    products: int


def _deflated(product: Product, known: Sequence[_Estimate]) -> Product:
    """Return the operator without the eigenvalues that are known."""
    # A copy, because the list grows afterwards.
    known = list(known)

    def deflated(v: Tensor) -> Tensor:
        u = product(v)
        for estimate in known:
            u = u - estimate.value * torch.dot(estimate.vector, v) * estimate.vector
        return u

    return deflated


def _iterate(product: Product, start: Tensor, steps: int, tolerance: float) -> _Estimate:
    """Return the estimate that a value settles at, or the last one; it may settle near no eigenvalue."""
    v = start / torch.linalg.vector_norm(start)
    value = residual = 0.0
    products = 0
    for _ in range(steps):
        u = product(v)
        products += 1
        before, value = value, float(torch.dot(v, u))
        residual = float(torch.linalg.vector_norm(u - value * v))
        length = float(torch.linalg.vector_norm(u))
        # What the operator maps to 0 has no direction to go on in.
        if length == 0.0:
            break
        v = u / length
        # The first value has none to be compared with.
        if before and abs(value - before) / (abs(before) + 1e-6) < tolerance:
            break
    return _Estimate(value, residual, v, products)
