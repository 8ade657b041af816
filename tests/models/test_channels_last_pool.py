"""The pool on channels-last pixels is PyTorch's own, to the bit: in values, gradients and ties."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from flatfed.models import build
from flatfed.models.layers import ChannelsLastMaxPool2d


def with_ties(samples: int = 3, side: int = 9) -> Tensor:
    """Return pixels of five values only, so that most windows have their largest value twice; one is no number."""
    generator = torch.Generator().manual_seed(side)
    pixels = torch.randint(-2, 3, (samples, 4, side, side), generator=generator).float()
    pixels[0, 1, 2, 3] = torch.nan
    return pixels


@pytest.mark.parametrize("side", [2, 8, 9])
def test_it_is_the_ordinary_pool(side: int) -> None:
    x = with_ties(side=max(side, 4))[..., :side, :side].clone().requires_grad_()
    ours, ordinary = ChannelsLastMaxPool2d(2)(x), F.max_pool2d(x, 2)
    assert torch.equal(ours.nan_to_num(9), ordinary.nan_to_num(9))
    weights = torch.randn(ordinary.shape, generator=torch.Generator().manual_seed(0))
    found, wanted = (torch.autograd.grad(pooled, x, weights)[0] for pooled in (ours, ordinary))
    assert torch.equal(found, wanted)


def test_it_can_be_mapped_over_clients() -> None:
    x = torch.stack([with_ties(), with_ties().flip(0)]).nan_to_num(0)
    assert torch.equal(torch.vmap(ChannelsLastMaxPool2d(2))(x), torch.stack([F.max_pool2d(each, 2) for each in x]))


def test_the_papers_network_keeps_its_bits() -> None:
    model, ordinary = (build("cnn-fourier", 10, 3, 32, seed=3) for _ in range(2))
    ordinary.pool1, ordinary.pool2 = (torch.nn.MaxPool2d(2) for _ in range(2))
    assert isinstance(model.pool1, ChannelsLastMaxPool2d)
    x, targets = torch.randn(64, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 10
    # A border of equal pixels, as a padded crop has: ties in every window there.
    x[..., :4] = 0
    for network in (model, ordinary):
        F.cross_entropy(network(x), targets).backward()
    for ours, theirs in zip(model.parameters(), ordinary.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.equal(ours.grad, theirs.grad)
