"""Power iteration with deflation as the papers use it, for comparison: it may stop far from an eigenvalue.

    repeat at most 20 times: u = A v, lambda = <v, u>, v = u/||u||, until lambda changes by less than 1e-4 of itself
    then A <- A - lambda v v^T for the next one

It finds the largest in absolute value first; the start vector is uniform on [0, 1), and normalised here.
"""

from __future__ import annotations

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
    values: list[float] = []
    residuals: list[float] = []
    vectors: list[Tensor] = []
    products = 0
    for _ in range(k):
        v = torch.rand(size, generator=generator, dtype=torch.float64).to(dtype)
        v /= torch.linalg.vector_norm(v)
        value = residual = 0.0
        for _ in range(steps):
            u = product(v)
            products += 1
            for known, vector in zip(values, vectors, strict=True):
                u = u - known * torch.dot(vector, v) * vector
            before, value = value, float(torch.dot(v, u))
            residual = float(torch.linalg.vector_norm(u - value * v))
            length = float(torch.linalg.vector_norm(u))
            if length == 0.0:
                break
            v = u / length
            if before and abs(value - before) / (abs(before) + 1e-6) < tolerance:
                break
        values.append(value)
        residuals.append(residual)
        vectors.append(v)
    order = sorted(range(k), key=lambda i: -values[i])
    pick = [values[i] for i in order], [residuals[i] for i in order]
    told = torch.tensor(pick[0], dtype=torch.float64), torch.tensor(pick[1], dtype=torch.float64)
    return Eigenvalues(*told, torch.stack([vectors[i] for i in order]), products, tolerance, 0.0)
