"""Directions, planes and barriers against what they are by definition."""

from __future__ import annotations

import pytest
import torch

from flatfed.core.errors import ConfigError
from flatfed.flatness.landscape.directions import filter_normalised, random_directions, raw_direction
from flatfed.flatness.landscape.planes import barrier, between, grid_around, plane_through
from flatness.problems import KINDS, network, surface

GENERATOR = torch.Generator().manual_seed(0)
MODELS = [torch.randn(30, generator=GENERATOR, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_filters_have_the_norms_of_the_models(kind: str) -> None:
    found = surface(kind)
    w = found.oracle.w.clone()
    direction = filter_normalised(found.layout, w, raw_direction(found.size, 0, 0, torch.float64))
    model = network(kind)
    for piece in found.layout.parameters:
        mine, weights = piece.view(direction), dict(model.named_parameters())[piece.name]
        if weights.ndim < 2:
            assert not mine.any()
            continue
        for a, b in zip(mine, weights, strict=True):
            assert float(a.norm()) == pytest.approx(float(b.detach().norm()), rel=1e-6)


def test_raw_directions_are_the_same_for_all_models_and_differ_by_number_and_seed() -> None:
    first, second = random_directions(surface("tanh").layout, surface("tanh").oracle.w, 2, seed=1)
    again = random_directions(surface("tanh").layout, surface("tanh").oracle.w, 2, seed=1)
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, random_directions(surface("tanh").layout, surface("tanh").oracle.w, 1, seed=2)[0])


def test_a_plane_goes_through_its_models() -> None:
    plane = plane_through(MODELS)
    assert float(plane.u.norm()) == pytest.approx(1) and float(plane.v.norm()) == pytest.approx(1)
    assert float(plane.u @ plane.v) == pytest.approx(0, abs=1e-12)
    for model in MODELS:
        torch.testing.assert_close(plane.at(*plane.coordinates(model)), model)
    assert plane.coordinates(MODELS[0]) == (0.0, 0.0)
    assert plane.coordinates(MODELS[1])[1] == pytest.approx(0, abs=1e-12)
    xs, ys = grid_around(plane, MODELS, 21)
    assert len(xs) == len(ys) == 21
    for model in MODELS:
        x, y = plane.coordinates(model)
        assert xs[0] < x < xs[-1] and ys[0] < y < ys[-1]


@pytest.mark.parametrize("third", [MODELS[0], MODELS[1], 3 * MODELS[1] - 2 * MODELS[0]])
def test_three_models_on_a_line(third: torch.Tensor) -> None:
    with pytest.raises(ConfigError, match="lie on one line"):
        plane_through([MODELS[0], MODELS[1], third])


def test_models_of_different_shapes() -> None:
    with pytest.raises(ConfigError, match="three models of one shape"):
        plane_through([MODELS[0], MODELS[1], torch.zeros(4)])


def test_the_barrier_between_two_models() -> None:
    shares = [round(0.1 * n - 1, 10) for n in range(31)]
    assert barrier(shares, [2 + share for share in shares]) == pytest.approx(0)
    assert barrier(shares, [share * (1 - share) for share in shares]) == pytest.approx(0.25)
    with pytest.raises(ConfigError, match="0 and 1 must be on the grid"):
        barrier([0.1, 0.9], [1.0, 1.0])
    torch.testing.assert_close(between(MODELS[0], MODELS[1], 1.0), MODELS[0])
