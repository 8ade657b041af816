"""MobileNetV2 with GroupNorm."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.models import build
from models.samples import parameters

BLOCKS = [  # inputs, expansion, outputs, stride of each of the 17 blocks
    *((32, 1, 16, 1), (16, 6, 24, 2), (24, 6, 24, 1), (24, 6, 32, 2), (32, 6, 32, 1), (32, 6, 32, 1)),
    *((32, 6, 64, 2), (64, 6, 64, 1), (64, 6, 64, 1), (64, 6, 64, 1), (64, 6, 96, 1), (96, 6, 96, 1)),
    *((96, 6, 96, 1), (96, 6, 160, 2), (160, 6, 160, 1), (160, 6, 160, 1), (160, 6, 320, 1)),
]


def count(classes: int, channels: int) -> int:
    """The number of parameters by arithmetic: each convolution has a scale and a shift per output."""
    total = channels * 32 * 9 + 64 + 320 * 1280 + 2560 + 1281 * classes
    for inputs, expansion, outputs, _ in BLOCKS:
        hidden = inputs * expansion
        total += (inputs * hidden + 2 * hidden) * (expansion > 1) + 9 * hidden + 2 * hidden
        total += hidden * outputs + 2 * outputs
    return total


def test_numbers_of_parameters() -> None:
    for classes, channels in ((1000, 3), (2028, 3), (10, 1)):
        assert parameters(build("mobilenetv2-gn", classes, channels)) == count(classes, channels)
    assert (count(1000, 3), count(2028, 3)) == (3_504_872, 4_821_740)


@pytest.mark.parametrize(("options", "groups"), [({}, 8), ({"groups": 4}, 4)])
def test_group_norm(options: dict[str, object], groups: int) -> None:
    made = build("mobilenetv2-gn", 10, 3, options=options)
    norms = [module for module in made.modules() if isinstance(module, nn.GroupNorm)]
    assert len(norms) == 52 and {norm.num_groups for norm in norms} == {groups}
    assert not list(made.buffers())


@pytest.mark.parametrize(("size", "last"), [(64, 2), (96, 3), (32, 1), (33, 2)])
def test_the_image_becomes_smaller_by_32(size: int, last: int) -> None:
    made, seen = build("mobilenetv2-gn", 7, 3), list[torch.Size]()
    made.last.register_forward_hook(lambda module, given, features: seen.append(features.shape))
    assert made(torch.zeros(2, 3, size, size)).shape == (2, 7)
    assert seen == [(2, 1280, last, last)]


def by_hand(w: dict[str, Tensor], x: Tensor) -> Tensor:
    """The network once more, layer by layer."""

    def layer(name: str, y: Tensor, stride: int = 1, each: bool = False) -> Tensor:
        weight = w[f"{name}.conv.weight"]
        y = F.conv2d(y, weight, stride=stride, padding=weight.shape[2] // 2, groups=len(weight) if each else 1)
        return F.group_norm(y, 8, w[f"{name}.norm.weight"], w[f"{name}.norm.bias"])

    x = F.relu6(layer("stem", x, 2))
    for number, (inputs, expansion, outputs, stride) in enumerate(BLOCKS):
        at = f"blocks.{number}.layers"
        y = F.relu6(layer(f"{at}.expand", x)) if expansion > 1 else x
        y = layer(f"{at}.project", F.relu6(layer(f"{at}.depthwise", y, stride, each=True)))
        x = x + y if (inputs, stride) == (outputs, 1) else y
    return F.linear(F.relu6(layer("last", x)).mean((2, 3)), w["head.weight"], w["head.bias"])


def test_the_network_is_the_one_of_the_paper() -> None:
    made = build("mobilenetv2-gn", 10, 3).double()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    images = torch.randn(2, 3, 40, 40, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(made(images), by_hand(dict(made.named_parameters()), images))


def test_dropout_acts_in_training_only() -> None:
    made = build("mobilenetv2-gn", 10, 3, options={"dropout": 0.5})
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(made(images), made(images))
    assert torch.equal(made.eval()(images), made(images))
    plain = build("mobilenetv2-gn", 10, 3)
    assert torch.equal(plain(images), plain(images))


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="mobilenetv2-gn: groups must divide the 16 channels of a layer; 32"):
        build("mobilenetv2-gn", 10, 3, options={"groups": 32})
    for dropout in (1, -0.1, "half", True):
        with pytest.raises(ConfigError, match="mobilenetv2-gn: dropout must be at least 0 and less than 1, not"):
            build("mobilenetv2-gn", 10, 3, options={"dropout": dropout})
