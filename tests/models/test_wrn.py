"""Wide ResNet 28-4."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.models import build
from models.samples import parameters


def count(classes: int, channels: int, depth: int = 28, width: int = 4) -> int:
    """The number of parameters by arithmetic, after the paper's table 1."""
    blocks, inputs, total = (depth - 4) // 6, 16, channels * 16 * 9
    for outputs in (16 * width, 32 * width, 64 * width):
        total += 9 * inputs * outputs + (2 * blocks - 1) * 9 * outputs**2 + inputs * outputs
        total += 2 * inputs + 2 * outputs * (2 * blocks - 1)
        inputs = outputs
    return total + 2 * inputs + inputs * classes + classes


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_numbers_of_parameters(norm: str) -> None:
    for classes, channels in ((10, 3), (100, 3), (10, 1)):
        assert parameters(build("wrn-28-4", classes, channels, options={"norm": norm})) == count(classes, channels)
    assert (count(10, 3), count(100, 3)) == (5_849_050, 5_872_180)
    assert count(10, 3, 28, 10) == 36_479_194  # the well-known number of the larger one


@pytest.mark.parametrize(("options", "groups"), [({}, 2), ({"groups": 16}, 16)])
def test_group_norm(options: dict[str, object], groups: int) -> None:
    made = build("wrn-28-4", 10, 3, options=options)
    norms = [module for module in made.modules() if isinstance(module, nn.GroupNorm)]
    assert len(norms) == 25 and {norm.num_groups for norm in norms} == {groups}
    assert not any(isinstance(module, nn.BatchNorm2d) for module in made.modules())


def test_batch_norm() -> None:
    made = build("wrn-28-4", 10, 3, options={"norm": "batch"})
    assert sum(isinstance(module, nn.BatchNorm2d) for module in made.modules()) == 25
    assert not any(isinstance(module, nn.GroupNorm) for module in made.modules())


def by_hand(w: dict[str, Tensor], x: Tensor, groups: int) -> Tensor:
    """The network once more, layer by layer: normalisation and ReLU come before each convolution."""

    def active(name: str, y: Tensor) -> Tensor:
        return F.group_norm(y, groups, w[f"{name}.weight"], w[f"{name}.bias"]).relu()

    x = F.conv2d(x, w["conv.weight"], padding=1)
    for number in range(12):
        at, stride = f"blocks.{number}", 2 if number in (4, 8) else 1
        ready = active(f"{at}.norm1", x)
        y = F.conv2d(ready, w[f"{at}.conv1.weight"], stride=stride, padding=1)
        y = F.conv2d(active(f"{at}.norm2", y), w[f"{at}.conv2.weight"], padding=1)
        if number in (0, 4, 8):
            x = F.conv2d(ready, w[f"{at}.shortcut.weight"], stride=stride)
        x = x + y
    return F.linear(active("norm", x).mean((2, 3)), w["head.weight"], w["head.bias"])


def test_the_network_is_the_one_of_the_paper() -> None:
    made = build("wrn-28-4", 10, 3, options={"groups": 4}).double()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    images = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(made(images), by_hand(dict(made.named_parameters()), images, 4))


def test_initialisation() -> None:
    for init, spread in (("kaiming", math.sqrt(2 / (9 * 256))), ("default", 1 / math.sqrt(3 * 9 * 256))):
        weight = build("wrn-28-4", 10, 3, options={"init": init}).blocks[11].conv2.weight
        assert float(weight.detach().std()) == pytest.approx(spread, rel=0.01)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="wrn-28-4: unknown norm 'layer'; known: batch, group"):
        build("wrn-28-4", 10, 3, options={"norm": "layer"})
    with pytest.raises(ConfigError, match="wrn-28-4: groups must divide the 16 channels of a layer; 32 does not"):
        build("wrn-28-4", 10, 3, options={"groups": 32})
