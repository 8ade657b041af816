"""The same Hessian as another library sees it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from flatfed.flatness.spectra.power import power_iteration
from flatfed.flatness.spectra.spectrum import eigenvalues
from flatness.problems import CLASSES, COUNT, UNEQUAL, data, directions, network, opened

library: Any = pytest.importorskip("hessian_eigenthings", reason="a development dependency")

KINDS = ("tanh", "batch norm", "group norm")


def operator(kind: str, batches: int = 1) -> Any:
    """Return the library's operator over the same examples, in batches of one size (it weights batches equally)."""
    inputs, targets = data(kind)
    assert COUNT % batches == 0 and set(targets.tolist()) == set(range(CLASSES))
    loader = list(zip(inputs.tensor_split(batches), targets.tensor_split(batches), strict=True))
    return library.HessianOperator(network(kind).eval(), loader, library.supervised_loss(cross_entropy))


@pytest.mark.parametrize("batches", [1, COUNT])
@pytest.mark.parametrize("kind", KINDS)
def test_products(kind: str, batches: int) -> None:
    actual, (v,) = opened(kind, UNEQUAL, 4).surface, directions(operator(kind).size)
    torch.testing.assert_close(actual.product(v), operator(kind, batches).matvec(v), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ten_largest_eigenvalues(kind: str) -> None:
    theirs = library.lanczos(operator(kind), k=10, max_iter=50, which="LA", reorthogonalize=True, seed=0)
    ours = eigenvalues(opened(kind).surface, 10, tolerance=1e-9)
    torch.testing.assert_close(ours.values, theirs.eigenvalues, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_power_iteration_with_patience(kind: str) -> None:
    """Given as many products as it likes, it comes to the same largest value."""
    theirs = library.deflated_power_iteration(operator(kind), k=1, max_iter=2000, tol=1e-9, seed=0)
    actual = opened(kind).surface
    ours = power_iteration(actual.product, actual.size, steps=2000, tolerance=1e-13, dtype=torch.float64)
    assert float(ours.values[0]) == pytest.approx(float(theirs.eigenvalues[0]), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_trace(kind: str) -> None:
    theirs = library.trace(operator(kind), num_matvecs=60, method="hutchinson", seed=0)
    ours = opened(kind).measure("trace(samples=60)")["trace"].numbers
    both: Tensor = torch.tensor([theirs.stderr, ours["trace_error"]])
    assert abs(theirs.estimate - ours["trace"]) < 4 * float(both.norm())
