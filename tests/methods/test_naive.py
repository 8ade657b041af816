"""The reference must be right by itself: its gradients and a few closed forms, without flatfed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from methods import naive
from methods.naive import DIMENSION, Vector

few = settings(max_examples=10, deadline=None, derandomize=True, database=None)
parameters = arrays(np.float64, DIMENSION, elements=st.floats(-2, 2))


def difference_quotient(f: Callable[[Vector], float], w: Vector, h: float = 1e-5) -> Vector:
    return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])


@given(w=parameters)
@few
def test_the_cross_entropy_gradient_is_the_difference_quotient(w: Vector) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, naive.INPUTS)), rng.integers(0, naive.CLASSES, 7)
    expected = difference_quotient(lambda v: naive.cross_entropy(v, x, y), w)
    np.testing.assert_allclose(naive.cross_entropy_gradient(w, x, y), expected, atol=1e-8)


@given(w=parameters, e=parameters, tau=st.floats(0.5, 4))
@few
def test_the_distillation_gradient_is_the_difference_quotient(w: Vector, e: Vector, tau: float) -> None:
    x = np.random.default_rng(1).normal(size=(6, naive.INPUTS))
    expected = difference_quotient(lambda v: naive.kl(v, e, x, tau), w)
    np.testing.assert_allclose(naive.kl_gradient(w, e, x, tau), expected, atol=1e-8)


def test_the_weight_mask_follows_the_parameter_names() -> None:
    assert naive.IS_WEIGHT.tolist() == [True] * 20 + [False] * 4 + [True] * 12 + [False] * 3


def test_official_swa_averages_249_captures_uniformly() -> None:
    held = naive.swa_weights("official", 10_000, 7500, 10)
    assert len(held) == 249
    np.testing.assert_allclose(list(held.values()), 1 / 249, rtol=1e-12)


def test_paper_swa_leaves_three_quarters_on_the_snapshot() -> None:
    held = naive.swa_weights("paper", 10_000, 7500, 10)
    assert held.pop(-1) == pytest.approx(0.75, rel=1e-12)
    assert len(held) == 250
    np.testing.assert_allclose(list(held.values()), 0.001, rtol=1e-12)
