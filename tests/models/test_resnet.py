"""ResNet-18 with GroupNorm, with BatchNorm and without normalisation; LeNet."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.models import build
from models.samples import parameters


def count(classes: int, channels: int, kernel: int, norm: bool) -> int:
    """The number of parameters by arithmetic: convolutions, normalised channels, head."""
    weights, normalised = channels * 64 * kernel**2, 64
    for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, 512)):
        weights += 9 * (inputs * outputs + 3 * outputs * outputs) + (inputs * outputs if inputs != outputs else 0)
        normalised += 4 * outputs + (outputs if inputs != outputs else 0)
    return weights + 2 * normalised * norm + 512 * classes + classes


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("channels", [1, 3])
def test_numbers_of_parameters(classes: int, channels: int) -> None:
    for stem, kernel in (("imagenet", 7), ("cifar", 3)):
        for id in ("resnet18-gn", "resnet18-bn"):
            made = build(id, classes, channels, options={"stem": stem})
            assert parameters(made) == count(classes, channels, kernel, norm=True)
    assert parameters(build("resnet18", classes, channels)) == count(classes, channels, 3, norm=False)


def test_published_numbers() -> None:
    for id in ("resnet18-gn", "resnet18-bn"):
        assert parameters(build(id, 10, 3)) == 11_181_642
        assert parameters(build(id, 10, 3, options={"stem": "cifar"})) == 11_173_962
    assert parameters(build("resnet18", 10, 3)) == 11_164_362


@pytest.mark.parametrize("groups", [1, 2, 32])
def test_every_norm_has_the_groups_asked_for(groups: int) -> None:
    made = build("resnet18-gn", 10, 3, options={"groups": groups})
    norms = [module for module in made.modules() if isinstance(module, nn.GroupNorm)]
    assert len(norms) == 20 and {norm.num_groups for norm in norms} == {groups}
    assert not list(made.buffers())


def test_two_groups_by_default_and_none_without_norm() -> None:
    assert {m.num_groups for m in build("resnet18-gn", 10, 3).modules() if isinstance(m, nn.GroupNorm)} == {2}
    plain = build("resnet18", 10, 3)
    assert {type(m) for m in plain.modules() if list(m.parameters(recurse=False))} == {nn.Conv2d, nn.Linear}
    assert [name for name, _ in plain.named_parameters() if "bias" in name] == ["head.bias"]


@pytest.mark.parametrize(("stem", "size", "last"), [("imagenet", 64, 2), ("imagenet", 32, 1), ("cifar", 32, 4)])
def test_the_stem_decides_the_size_at_the_end(stem: str, size: int, last: int) -> None:
    made, seen = build("resnet18-gn", 10, 3, options={"stem": stem}), list[torch.Size]()
    made.stages.register_forward_hook(lambda module, given, features: seen.append(features.shape))
    assert made(torch.zeros(2, 3, size, size)).shape == (2, 10)
    assert seen == [(2, 512, last, last)]


def by_hand(w: dict[str, Tensor], x: Tensor, large: bool, groups: int) -> Tensor:
    """ResNet-18 once more, layer by layer."""

    def normed(name: str, y: Tensor) -> Tensor:
        return F.group_norm(y, groups, w[f"{name}.weight"], w[f"{name}.bias"]) if f"{name}.weight" in w else y

    x = normed("norm1", F.conv2d(x, w["conv1.weight"], stride=2 if large else 1, padding=3 if large else 1)).relu()
    x = F.max_pool2d(x, 3, 2, 1) if large else x
    for stage in range(1, 5):
        for block in range(2):
            at, stride = f"stages.stage{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = normed(f"{at}.norm1", F.conv2d(x, w[f"{at}.conv1.weight"], stride=stride, padding=1)).relu()
            y = normed(f"{at}.norm2", F.conv2d(y, w[f"{at}.conv2.weight"], padding=1))
            if stride == 2:
                x = normed(f"{at}.shortcut.norm", F.conv2d(x, w[f"{at}.shortcut.conv.weight"], stride=2))
            x = (x + y).relu()
    return F.linear(x.mean((2, 3)), w["head.weight"], w["head.bias"])


@pytest.mark.parametrize(
    ("id", "options", "groups"),
    [("resnet18-gn", {}, 2), ("resnet18-gn", {"stem": "cifar", "groups": 8}, 8), ("resnet18", {}, 1)],
)
def test_the_network_is_the_one_of_the_paper(id: str, options: dict[str, object], groups: int) -> None:
    made = build(id, 10, 3, options=options).double()
    with torch.no_grad():
        for p in made.parameters():  # scales and shifts other than 1 and 0
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    images = torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(0)).double()
    large = id == "resnet18-gn" and "stem" not in options
    torch.testing.assert_close(made(images), by_hand(dict(made.named_parameters()), images, large, groups))


def test_initialisation() -> None:
    length = math.sqrt(sum(float(p.detach().square().sum()) for p in build("resnet18-gn", 10, 3).parameters()))
    assert 111 < length < 113  # torchvision's
    weight = build("resnet18-gn", 10, 3).stages.stage3[0].conv1.weight
    assert float(weight.detach().std()) == pytest.approx(math.sqrt(2 / (256 * 9)), rel=0.01)
    for made in (build("resnet18-gn", 10, 3, options={"init": "default"}), build("resnet18", 10, 3)):
        weight = made.stages.stage3[0].conv1.weight
        assert float(weight.detach().abs().max()) <= 1 / math.sqrt(128 * 9)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match=r"resnet18-gn: unknown stem 'cifr'; did you mean 'cifar'"):
        build("resnet18-gn", 10, 3, options={"stem": "cifr"})
    with pytest.raises(ConfigError, match=r"unknown option of the model 'groups'.*\(resnet18-bn takes stem, init\)"):
        build("resnet18-bn", 10, 3, options={"groups": 2})
    with pytest.raises(ConfigError, match="resnet18-bn: unknown init 'zero'; known: default, kaiming"):
        build("resnet18-bn", 10, 3, options={"init": "zero"})
    with pytest.raises(ConfigError, match="resnet18: unknown stem '7'"):
        build("resnet18", 10, 3, options={"stem": 7})
    with pytest.raises(ConfigError, match="groups must divide the 64 channels of a layer; 3 does not"):
        build("resnet18-gn", 10, 3, options={"groups": 3})
    for groups in (0, 2.0, True, "two"):
        with pytest.raises(ConfigError, match="resnet18-gn: groups must be a whole number of at least 1, not"):
            build("resnet18-gn", 10, 3, options={"groups": groups})
    with pytest.raises(ConfigError, match="resnet18-gn: unknown init 'zero'; known: default, kaiming"):
        build("resnet18-gn", 10, 3, options={"init": "zero"})


def test_lenet_is_the_cnn_by_another_name() -> None:
    lenet, cnn = build("lenet", 10, 3, 32, seed=3), build("cnn", 10, 3, 32, seed=3)
    assert parameters(lenet) == 64 * (3 * 25 + 1) + 64 * (64 * 25 + 1) + 384 * 1601 + 192 * 385 + 10 * 193 == 797_962
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(lenet(images), cnn(images))
    with pytest.raises(ConfigError, match="lenet needs images of at least 16x16 pixels, not 8x8"):
        build("lenet", 10, 1, 8)
