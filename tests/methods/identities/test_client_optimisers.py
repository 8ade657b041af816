"""Identities and limits of SAM and ASAM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn

import flatfed as ff
from methods.bench import Point, Shift, array, assert_close, linear, network_setup, train_network, train_point
from methods.identities.shared import (
    bowl,
    coordinates,
    distance,
    each_opt,
    few,
    opt_named,
    plain_setup,
    radius,
    slope,
    vector,
)
from methods.naive import Vector, norm, unit
from methods.table import CLIENT_OPTS


def round_bowl_perturbation(method: Any, model: nn.Module, w: Vector) -> Vector:
    """eps of one SAM-type step on 1/2 |w|^2, where the gradient at w + eps is w + eps itself."""
    lr = 0.1
    run = train_point(method, model, [bowl(np.zeros_like(w))], lr=lr)
    return (w - array(run.vector)) / lr - w


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedavgm", "scaffold", "feddyn", "fedgloss"])
@pytest.mark.parametrize("opt", [ff.SAM(rho=0.0), ff.ASAM(rho=0.0)], ids=["sam", "asam"])
def test_radius_zero_is_sgd(method: str, opt: Any) -> None:
    setup = network_setup()
    perturbed = train_network(ff.make(method, client_opt=opt), setup)
    plain = train_network(ff.make(method), setup)
    assert torch.equal(perturbed.vector, plain.vector)
    assert [row["backprops"] for row in perturbed.history] == [2 * row["backprops"] for row in plain.history]


@pytest.mark.parametrize("method", ["fedsam", "fedasam"])
def test_fedsam_and_fedasam_with_radius_zero_are_fedavg(method: str) -> None:
    setup = network_setup()
    np.testing.assert_array_equal(vector(method, setup, rho=0.0), vector("fedavg", setup))


@given(w=coordinates, rho=radius)
@few
def test_the_sam_perturbation_has_length_rho_along_the_gradient(w: Vector, rho: float) -> None:
    eps = round_bowl_perturbation(ff.make("fedsam", rho=rho), Point(w), w)
    assert_close(eps, rho * unit(w), rel=1e-10, floor=1e-12)


@given(w=coordinates, b=coordinates, rho=radius, eta=st.floats(0, 1))
@few
def test_the_asam_perturbation_has_length_rho_in_its_own_scale(w: Vector, b: Vector, rho: float, eta: float) -> None:
    both = np.concatenate([w, b])
    eps = round_bowl_perturbation(ff.make("fedasam", rho=rho, eta=eta), Point(w, b), both)
    T = np.concatenate([np.abs(w) + eta, np.ones_like(b)])
    assert norm(eps / T) == pytest.approx(rho, rel=1e-9)
    assert_close(eps, rho * T**2 * both / norm(T * both), rel=1e-9)


@given(w=coordinates, rho=radius)
@few
def test_asam_without_weights_is_sam(w: Vector, rho: float) -> None:
    client = [bowl(np.ones(4), 2.0)]
    asam = train_point(ff.make("fedasam", rho=rho), Shift(w), client, rounds=2, local_epochs=2)
    sam = train_point(ff.make("fedsam", rho=rho), Shift(w), client, rounds=2, local_epochs=2)
    assert_close(asam.vector, sam.vector, rel=1e-13)


@given(signs=arrays(np.float64, 4, elements=st.sampled_from([-1.0, 1.0])), rho=radius)
@few
def test_asam_on_weights_of_size_one_is_sam(signs: Vector, rho: float) -> None:
    centre = np.array([3.0, -2.0, 5.0, 0.5])
    asam = train_point(ff.make("fedasam", rho=rho, eta=0.0), Point(signs), [bowl(centre)])
    sam = train_point(ff.make("fedsam", rho=rho), Point(signs), [bowl(centre)])
    assert_close(asam.vector, sam.vector, rel=1e-13)


@given(rho=radius, eta=st.floats(0.05, 1))
@few
def test_asam_on_zero_weights_is_sam_with_radius_rho_eta(rho: float, eta: float) -> None:
    centre = np.array([3.0, -2.0, 5.0, 0.5])
    asam = train_point(ff.make("fedasam", rho=rho, eta=eta), Point(np.zeros(4)), [bowl(centre)])
    sam = train_point(ff.make("fedsam", rho=rho * eta), Point(np.zeros(4)), [bowl(centre)])
    assert_close(asam.vector, sam.vector, rel=1e-12)


@given(w=coordinates, rho=radius)
@few
def test_asam_with_large_eta_tends_to_sam(w: Vector, rho: float) -> None:
    eta = 1e8
    client = [bowl(np.ones(4), np.arange(1.0, 5.0))]
    asam = train_point(ff.make("fedasam", rho=rho / eta, eta=eta), Point(w), client, local_epochs=3)
    sam = train_point(ff.make("fedsam", rho=rho), Point(w), client, local_epochs=3)
    assert_close(asam.vector, sam.vector, rel=1e-6)


@given(w=coordinates, b=coordinates, rho=radius, eta=st.floats(0, 1))
@few
def test_asam_on_all_tensors_scales_biases_too(w: Vector, b: Vector, rho: float, eta: float) -> None:
    both = np.concatenate([w, b])
    method = ff.make("fedasam", rho=rho, eta=eta, tensors="all")
    eps = round_bowl_perturbation(method, Point(w, b), both)
    T = np.abs(both) + eta
    assert norm(eps / T) == pytest.approx(rho, rel=1e-9)
    assert_close(eps, rho * T**2 * both / norm(T * both), rel=1e-9)


@given(w=coordinates, b=coordinates, rho=radius)
@few
def test_asam_on_all_tensors_with_large_eta_tends_to_sam(w: Vector, b: Vector, rho: float) -> None:
    eta, client = 1e8, [bowl(np.ones(8), np.arange(1.0, 9.0))]
    asam = ff.make("fedasam", rho=rho / eta, eta=eta, tensors="all")
    runs = [train_point(m, Point(w, b), client, local_epochs=3) for m in (asam, ff.make("fedsam", rho=rho))]
    assert_close(runs[0].vector, runs[1].vector, rel=1e-6)


def test_where_all_tensors_are_weights_both_scales_are_the_same() -> None:
    client = [bowl(np.ones(4), np.arange(1.0, 5.0))]
    runs = [
        train_point(ff.make("fedasam", tensors=tensors), Point(np.arange(1.0, 5.0)), client, local_epochs=3)
        for tensors in ("weights", "all")
    ]
    assert torch.equal(runs[0].vector, runs[1].vector)


class ReluPair(nn.Module):
    def __init__(self, first: Vector, second: Vector) -> None:
        super().__init__()
        self.first_weight = nn.Parameter(torch.tensor(first))
        self.second_weight = nn.Parameter(torch.tensor(second))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.first_weight.T) @ self.second_weight.T


@pytest.mark.parametrize(("method", "invariant"), [("fedasam", True), ("fedsam", False)])
def test_only_asam_ignores_the_rescaling_of_two_layers(method: str, invariant: bool) -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(2, 4))
    client = [(rng.normal(size=(8, 3)), rng.normal(size=(8, 2)))]
    params = {"rho": 0.5, "eta": 0.0} if method == "fedasam" else {"rho": 0.5}

    def descent(a: float) -> Vector:
        """The perturbed gradient, brought back to the scale of a = 1."""
        start = np.concatenate([(first * a).ravel(), (second / a).ravel()])
        run = train_point(ff.make(method, **params), ReluPair(first * a, second / a), client, lr=0.1)
        return (start - array(run.vector)) / 0.1 * np.repeat([a, 1 / a], [first.size, second.size])

    assert (distance(descent(1.0), descent(3.0)) < 1e-9) == invariant


@each_opt
def test_weights_are_restored_bit_for_bit_after_the_perturbation(opt: str) -> None:
    setup = plain_setup(lr=1e-300, schedule=((0,), (1,), (3,)))
    method = ff.make("fedavg", client_opt=opt_named(opt))
    np.testing.assert_array_equal(array(train_network(method, setup).vector), setup.w0)


@pytest.mark.parametrize("method", ["fedsam", "fedasam"])
def test_the_first_gradient_at_zero_perturbs_nothing(method: str) -> None:
    w = np.array([1.0, -2.0])
    local = {"lr": 0.1, "weight_decay": 0.3, "local_epochs": 2}
    run = train_point(ff.make(method, rho=0.5), Point(w), [slope(np.zeros(2))], loss=linear, **local)
    assert_close(run.vector, w * (1 - 0.03) ** 2, rel=1e-15)


def test_one_client_and_one_step_is_centralised_sam() -> None:
    setup = plain_setup(schedule=((3,),) * 4, local_epochs=1)
    w = setup.w0
    for _ in range(4):
        w = w - setup.lr * setup.g(3, w + 0.3 * unit(setup.g(3, w)))
    assert_close(vector("fedsam", setup, rho=0.3), w)


@pytest.mark.parametrize(("method", "opt"), [("fedsam", "sam"), ("fedasam", "asam"), ("fedasam", "asam-all")])
def test_the_named_methods_are_fedavg_with_the_client_optimiser(method: str, opt: str) -> None:
    setup, o = network_setup(), CLIENT_OPTS[opt].opt
    named = vector(method, setup, rho=o.rho, **o.more)
    np.testing.assert_array_equal(named, vector("fedavg", setup, client_opt=opt_named(opt)))
