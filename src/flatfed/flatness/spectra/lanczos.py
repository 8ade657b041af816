"""The largest eigenvalues of a symmetric operator by Lanczos, each with its residual and a remark.

After m products the operator looks like a small tridiagonal matrix T in an orthonormal basis Q:

    A Q = Q T + beta_m q_{m+1} e_m^T
    A y ~ theta y with y = Q s, T s = theta s, and ||A y - theta y|| = beta_m |s_m|

The residual costs no further product, and bounds the distance to a true eigenvalue. The basis is kept orthogonal to
rounding (two passes of Gram-Schmidt), so that no eigenvalue appears twice. SciPy's `eigsh` finds the same values; it
restarts, which costs products, and tells neither residuals nor how far it got when a budget ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.method.vectors import is_finite
from flatfed.core.randomness import torch_generator

Product = Callable[[Tensor], Tensor]

TINY = 1e-30

PATIENCE, SHARE = 5, 1.0
"""Converged values must stay so for this many more products, or this share of those before, whichever is more."""


@dataclass(frozen=True)
class Eigenvalues:
    """The largest eigenvalues, in descending order, and how well they are known.

    Attributes:
        values: the Ritz values.
        residuals: `||A y - theta y||` of each: a true eigenvalue is at most so far away.
        vectors: a Ritz vector in each row, or nothing.
        products: products of the operator that were needed.
        tolerance: the share of its value that a residual may be.
        rounding: what a product is known to.
    """

    values: Tensor
    residuals: Tensor
    vectors: Tensor
    products: int
    tolerance: float
    rounding: float

    @property
    def converged(self) -> list[bool]:
        """Say of each value whether its residual is within the tolerance."""
        return (self.residuals <= self.bounds).tolist()

    @property
    def bounds(self) -> Tensor:
        """How far off each value may be: a share of it, or rounding if that is more, as for an eigenvalue of 0."""
        return (self.tolerance * self.values.abs()).clamp(min=10 * self.rounding)

    @property
    def exact(self) -> bool:
        """Say whether the values are known as well as they can be computed."""
        return float(self.residuals.max()) <= 10 * self.rounding

    @property
    def remark(self) -> str:
        """The same in words."""
        good = sum(self.converged)
        if good == len(self.values):
            return f"converged after {self.products} products"
        return f"{good} of {len(self.values)} converged after {self.products} products; give it more"


@dataclass(frozen=True)
class Tridiagonal:
    """The operator as Lanczos knows it so far: the diagonal and off-diagonal of T, the last beta, and the basis."""

    alphas: Tensor
    betas: Tensor
    basis: Tensor
    last: float

    @property
    def matrix(self) -> Tensor:
        """T itself."""
        return torch.diag(self.alphas) + torch.diag(self.betas, 1) + torch.diag(self.betas, -1)


class Lanczos:
    """The recurrence, one product at a time.

    It ends when the Krylov space of the start vector is exhausted. With a generator it then goes on from a random
    vector orthogonal to all before (a new *block*): that is how an eigenvalue is found as often as it occurs.
    """

    def __init__(self, product: Product, start: Tensor, most: int, generator: torch.Generator | None = None) -> None:
        self._product, self._most, self._generator = product, min(most, len(start)), generator
        # Uninitialised, so that only rows that are reached take up memory.
        self._basis = start.new_empty(self._most + 1, len(start))
        self._basis[0] = start / torch.linalg.vector_norm(start)
        self._alphas: list[float] = []
        self._betas: list[float] = []
        self.block = 0
        """Where the current block begins."""

    def step(self) -> bool:
        """Do one product; say whether another one can tell more."""
        m = len(self._alphas)
        q, known = self._basis[m], self._basis[: m + 1]
        # A copy, because it is changed in place and may be the operator's own buffer.
        u = self._product(q).clone()
        if not is_finite(u):
            raise ConfigError("a product of the Hessian is not finite: the loss overflows at this model")
        # In double precision, because it is a sum over all parameters, and T decides the values.
        self._alphas.append(float(torch.dot(u.double(), q.double())))
        beta = _orthogonalised(u, known)
        # Relative to T: what is smaller is lost in the rounding of a product.
        is_rounding = beta <= self._scale() * torch.finfo(u.dtype).eps * 10
        self._betas.append(beta)
        if m + 1 >= self._most:
            return False
        if is_rounding:
            return self._end_block(known)
        self._basis[m + 1] = u / beta
        return True

    def _scale(self) -> float:
        """Return the size of the entries of T so far, which rounding is relative to."""
        # Never 0, also where the operator is.
        return max(1e-12, max(abs(alpha) for alpha in self._alphas), max(self._betas, default=0.0))

    def _end_block(self, known: Tensor) -> bool:
        """Take a remainder that is only rounding for 0: the Krylov space is exhausted; say whether another begins.

        Going on from the remainder would be going on from noise, and T would show eigenvalues that are not there.
        """
        self._betas[-1] = 0.0
        if self._generator is None:
            return False
        self.block = len(self._alphas)
        u = torch.randn(known.shape[1], generator=self._generator, dtype=torch.float64).to(known.dtype)
        self._basis[self.block] = u / max(_orthogonalised(u, known), TINY)
        return True

    @property
    def tridiagonal(self) -> Tridiagonal:
        """What is known so far."""
        m = len(self._alphas)
        # The last beta leads to what is not known yet, and is no entry of T.
        off = torch.tensor(self._betas[:-1], dtype=torch.float64)
        return Tridiagonal(torch.tensor(self._alphas, dtype=torch.float64), off, self._basis[:m], self._betas[-1])

    @property
    def top_of_block(self) -> float:
        """The largest Ritz value of the current block; one that has just begun may hold anything."""
        block = self.tridiagonal.matrix[self.block :, self.block :]
        if len(block) == 0:
            return float("inf")
        return float(torch.linalg.eigvalsh(block)[-1])


def _orthogonalised(u: Tensor, known: Tensor) -> float:
    """Make a vector orthogonal to the rows of a basis, in place, and return its length."""
    for _ in range(2):  # one pass leaves what rounding lost in it; twice is enough (Kahan, Parlett)
        u -= known.T @ (known @ u)
    return float(torch.linalg.vector_norm(u.double()))


def largest_eigenvalues(
    product: Product,
    size: int,
    k: int = 1,
    *,
    tolerance: float = 1e-3,
    most: int = 200,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    vectors: bool = False,
) -> Eigenvalues:
    """Return the `k` algebraically largest eigenvalues of a symmetric operator.

    Args:
        product: `v -> A v`.
        size: its dimension.
        k: how many values.
        tolerance: stop when each residual is below this share of its value.
        most: products at most.
        seed: key of the random start vector.
        dtype: the type of the vectors.
        vectors: return the eigenvectors too.
    """
    check_count(k, size)
    generator = torch_generator(seed, "lanczos")
    start = torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)
    # k values need at least k products.
    lanczos = Lanczos(product, start, max(most, k), generator)
    steady = Steady(k)
    # It stops when nothing more can be learnt or the products are used up, else when the values have converged,
    # have stayed so for a while, and no larger one can be waiting in a block that has only begun.
    while lanczos.step():
        values = _ritz(lanczos.tridiagonal, k, tolerance, vectors=False)
        if steady.holds(values) and _complete(lanczos, values, k):
            break
    return _ritz(lanczos.tridiagonal, k, tolerance, vectors)


def check_count(k: int, size: int) -> None:
    """Refuse more values than there are."""
    if not 1 <= k <= size:
        raise ConfigError(f"k must be between 1 and the {size} parameters, not {k}")


class Steady:
    """Says when values have converged and stayed: a Ritz value may rest for a while near a smaller eigenvalue."""

    def __init__(self, k: int) -> None:
        self._k, self._first, self._values = k, 0, torch.zeros(0)

    def holds(self, values: Eigenvalues) -> bool:
        """Look at the values after one more product."""
        if len(values.values) < self._k or not all(values.converged):
            self._first = 0
            return False
        if not self._first or self._moved(values):
            self._first, self._values = values.products, values.values
        # Where residuals are mere rounding, more products would show nothing new.
        return values.exact or values.products - self._first >= max(PATIENCE, SHARE * self._first)

    def _moved(self, values: Eigenvalues) -> bool:
        """Say whether a value has left its place since it converged: it was resting near another eigenvalue."""
        return bool(((values.values - self._values).abs() > values.bounds).any())


def _complete(lanczos: Lanczos, values: Eigenvalues, k: int) -> bool:
    """Say whether no further block can hold one of the largest: the current one has nothing above the k-th."""
    # A random start has a share in every eigenvector, so that the first block holds the largest value.
    if k == 1 or lanczos.block == 0:
        return True
    smallest = float(values.values[-1])
    slack = max(values.tolerance * abs(smallest), 10 * values.rounding)
    return lanczos.top_of_block <= smallest + slack


def _ritz(known: Tridiagonal, k: int, tolerance: float, vectors: bool) -> Eigenvalues:
    """Return the largest Ritz values, in descending order."""
    thetas, s = torch.linalg.eigh(known.matrix)
    count = len(thetas)
    chosen = torch.arange(count - 1, max(count - 1 - k, -1), -1)
    rounding = torch.finfo(known.basis.dtype).eps * float(thetas.abs().max())
    residuals = (known.last * s[-1, chosen].abs()).clamp(min=rounding)  # no value is known better than it is computed
    ys = known.basis[:0]
    if vectors:
        ys = s[:, chosen].T.to(known.basis.dtype) @ known.basis
    return Eigenvalues(thetas[chosen], residuals, ys, count, tolerance, rounding)
