"""The convolution through frequencies is the direct one, in values and derivatives of both orders."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.models import build
from flatfed.models.fourier_convolution import FourierConv2d

SIZES = [(14, 5), (9, 3), (8, 8), (6, 1), (1, 1)]
"""Sides of images, even and odd, and of kernels, down to one pixel and up to the whole image."""


def layer(kernel: int) -> FourierConv2d:
    torch.manual_seed(kernel)
    return FourierConv2d(3, 4, kernel).double()


def images(side: int, samples: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(side)
    return torch.randn(samples, 3, side, side, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize(("side", "kernel"), SIZES)
def test_it_is_the_direct_convolution(side: int, kernel: int) -> None:
    conv, x = layer(kernel), images(side).requires_grad_()
    ours, direct = conv(x), F.conv2d(x, conv.weight, conv.bias)
    assert ours.shape == direct.shape
    assert torch.allclose(ours, direct, atol=1e-13, rtol=0)
    weights = torch.randn(direct.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wanted = torch.autograd.grad(direct, [x, conv.weight, conv.bias], weights)
    found = torch.autograd.grad(ours, [x, conv.weight, conv.bias], weights)
    assert all(torch.allclose(a, b, atol=1e-12, rtol=0) for a, b in zip(found, wanted, strict=True))


def test_an_empty_batch_has_an_empty_output() -> None:
    assert layer(5)(images(14, samples=0)).shape == (0, 4, 10, 10)


def test_models_in_rows_go_through_at_once() -> None:
    conv, x = layer(3), images(9)
    stacked = {name: torch.stack([value.detach(), 2 * value.detach()]) for name, value in conv.named_parameters()}
    rows = torch.func.vmap(lambda values: torch.func.functional_call(conv, values, (x,)))(stacked)
    assert torch.allclose(rows[0], conv(x), atol=1e-13, rtol=0)
    assert torch.allclose(rows[1], 2 * conv(x), atol=1e-13, rtol=0)


def test_the_output_has_the_type_and_layout_of_the_direct_one() -> None:
    conv = FourierConv2d(3, 4, 5)
    x = torch.zeros(2, 3, 14, 14).contiguous(memory_format=torch.channels_last)
    assert conv(x).is_contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        assert conv(x).dtype == torch.bfloat16


@pytest.mark.parametrize("at_first", ["inference", "export"])
def test_a_use_without_gradients_does_not_spoil_the_next_one(at_first: str) -> None:
    conv, x = layer(7), images(11)
    if at_first == "inference":
        with torch.inference_mode():
            conv(x)
    else:
        torch.export.export(conv, (x,))
    conv(x).sum().backward()
    assert conv.weight.grad is not None
    assert bool(conv.weight.grad.any())


def test_the_papers_network_is_the_same_function() -> None:
    cnn, fourier = (build(id, 10, 3, 32, seed=3).double() for id in ("cnn", "cnn-fourier"))
    assert list(cnn.state_dict()) == list(fourier.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(cnn.parameters(), fourier.parameters(), strict=True))
    x, targets = images(32, samples=5), torch.arange(5)
    assert torch.allclose(fourier(x), cnn(x), atol=1e-12, rtol=0)
    for model in (cnn, fourier):
        F.cross_entropy(model(x), targets).backward()
    pairs = zip(cnn.parameters(), fourier.parameters(), strict=True)
    assert all(torch.allclose(a.grad, b.grad, atol=1e-12, rtol=0) for a, b in pairs if a.grad is not None)


def test_products_with_the_hessian_are_the_same() -> None:
    conv, x = layer(5), images(14)
    direction = torch.randn(conv.weight.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def along(convolution: torch.nn.Conv2d) -> Tensor:
        loss = convolution(x).sin().sum()
        (gradient,) = torch.autograd.grad(loss, convolution.weight, create_graph=True)
        return torch.autograd.grad((gradient * direction).sum(), convolution.weight)[0]

    direct = torch.nn.Conv2d(3, 4, 5).double()
    direct.load_state_dict(copy.deepcopy(conv.state_dict()))
    assert torch.allclose(along(conv), along(direct), atol=1e-11, rtol=0)


def test_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"a kernel of 5x5 does not fit images of 4x4"):
        layer(5)(images(4))
    with pytest.raises(ConfigError, match=r"FourierConv2d takes square images, not 8x9; use nn.Conv2d for these"):
        layer(3)(torch.zeros(1, 3, 8, 9, dtype=torch.float64))
