"""Directions, planes and barriers against what they are by definition."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.flatness.landscape.planes import barrier, grid_around, plane_through
from flatfed.flatness.landscape.scenes import filter_normalised, random_directions, raw_direction
from flatness.problems import KINDS, data, network, surface

GENERATOR = torch.Generator().manual_seed(0)
MODELS = [torch.randn(30, generator=GENERATOR, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_filters_have_the_norms_of_the_models(kind: str) -> None:
    actual = surface(kind)
    direction = filter_normalised(actual.layout, actual.w, raw_direction(actual.size, 0, 0, torch.float64))
    model = network(kind)
    for piece in actual.layout.parameters:
        mine, weights = piece.view(direction), dict(model.named_parameters())[piece.name]
        if weights.ndim < 2:
            assert not mine.any()
            continue
        for a, b in zip(mine, weights, strict=True):
            assert float(a.norm()) == pytest.approx(float(b.detach().norm()), rel=1e-6)


def test_filters_keep_the_directions_that_were_drawn() -> None:
    actual = surface("conv")
    raw = raw_direction(actual.size, 3, 1, torch.float64)
    direction = filter_normalised(actual.layout, actual.w, raw)
    for piece in actual.layout.parameters:
        for drawn, kept in zip(piece.view(raw), piece.view(direction), strict=True):
            if len(piece.shape) > 1:
                cosine = (drawn * kept).sum() / (drawn.norm() * kept.norm())
                assert float(cosine) == pytest.approx(1)


def test_a_filter_of_zeros_stays_where_it_is() -> None:
    model = network("tanh")
    with torch.no_grad():
        model[0].weight[2] = 0
    actual = ff.laboratory(model, data("tanh")).surface
    (direction,) = random_directions(actual.layout, actual.w, 1)
    rows = actual.layout.parameters[0].view(direction)
    assert not rows[2].any() and rows[1].any()


def test_raw_directions_are_the_same_for_all_models_and_differ_by_number_and_seed() -> None:
    actual = surface("tanh")
    first, second = random_directions(actual.layout, actual.w, 2, seed=1)
    again = random_directions(actual.layout, actual.w, 2, seed=1)
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, random_directions(actual.layout, actual.w, 1, seed=2)[0])
    double = random_directions(actual.layout, 2 * actual.w, 1, seed=1)[0]
    torch.testing.assert_close(double, 2 * first)


def test_raw_directions_are_gaussian() -> None:
    raw = torch.stack([raw_direction(2000, number, 0, torch.float64) for number in range(10)])
    assert float(raw.mean()) == pytest.approx(0, abs=0.03)
    assert float(raw.std()) == pytest.approx(1, rel=0.03)
    assert float(((raw @ raw.T) / 2000 - torch.eye(10)).abs().max()) < 0.15


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.floats(1e-3, 1e3), size=st.integers(3, 40))
def test_a_plane_goes_through_its_models(seed: int, scale: float, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    models = [scale * torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(3)]
    plane = plane_through(models)
    assert float(plane.u.norm()) == pytest.approx(1) and float(plane.v.norm()) == pytest.approx(1)
    assert float(plane.u @ plane.v) == pytest.approx(0, abs=1e-9)
    for model in models:
        x, y = plane.coordinates(model)
        torch.testing.assert_close(plane.origin + x * plane.u + y * plane.v, model, rtol=1e-9, atol=1e-9 * scale)
    assert plane.coordinates(models[0]) == (0.0, 0.0)
    assert plane.coordinates(models[1])[0] == pytest.approx(float((models[1] - models[0]).norm()))
    assert plane.coordinates(models[1])[1] == pytest.approx(0, abs=1e-9 * scale)
    assert plane.coordinates(models[2])[1] > 0
    xs, ys = grid_around(plane, models, 21)
    assert len(xs) == len(ys) == 21
    for model in models:
        x, y = plane.coordinates(model)
        assert xs[0] < x < xs[-1] and ys[0] < y < ys[-1]


def test_the_grid_reaches_a_fifth_beyond_the_models() -> None:
    """-0.2 to 1.2 of their distances, where the third model lies above the way from the first to the second."""
    first = torch.zeros(4, dtype=torch.float64)
    models = [first, torch.tensor([10.0, 0, 0, 0]).double(), torch.tensor([4.0, 5, 0, 0]).double()]
    xs, ys = grid_around(plane_through(models), models, 21)
    assert (xs[0], xs[-1]) == pytest.approx((-2, 12))
    assert (ys[0], ys[-1]) == pytest.approx((-1, 6))
    assert [b - a for a, b in pairwise(xs)] == pytest.approx([0.7] * 20, rel=1e-5)


@pytest.mark.parametrize("third", [MODELS[0], MODELS[1], 3 * MODELS[1] - 2 * MODELS[0]])
def test_three_models_on_a_line(third: torch.Tensor) -> None:
    with pytest.raises(ConfigError, match="lie on one line"):
        plane_through([MODELS[0], MODELS[1], third])


def test_two_models_that_are_the_same() -> None:
    with pytest.raises(ConfigError, match="two are the same"):
        plane_through([MODELS[0], MODELS[0], MODELS[1]])


def test_models_of_different_shapes() -> None:
    with pytest.raises(ConfigError, match="three models of one shape"):
        plane_through([MODELS[0], MODELS[1], torch.zeros(4)])


def test_the_barrier_between_two_models() -> None:
    shares = [round(0.1 * n - 1, 10) for n in range(31)]
    assert barrier(shares, [2 + share for share in shares]) == pytest.approx(0)
    assert barrier(shares, [share * (1 - share) for share in shares]) == pytest.approx(0.25)
    assert barrier(shares, [share**2 for share in shares]) == pytest.approx(0)  # convex: no barrier, whatever outside
    with pytest.raises(ConfigError, match="0 and 1 must be on the grid"):
        barrier([0.1, 0.9], [1.0, 1.0])


@settings(max_examples=50, deadline=None)
@given(
    ends=st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
    bumps=st.lists(st.floats(-3, 3), min_size=9, max_size=9),
)
def test_the_barrier_is_the_highest_rise_above_the_straight_line(ends: tuple[float, float], bumps: list[float]) -> None:
    shares = [n / 10 for n in range(11)]
    line = [share * ends[1] + (1 - share) * ends[0] for share in shares]
    rises = [0.0, *bumps, 0.0]
    actual = barrier([-0.5, *shares, 1.5], [99.0, *(a + b for a, b in zip(line, rises, strict=True)), 99.0])
    assert actual == pytest.approx(max(rises), abs=1e-9)
