"""Torchvision's ResNet-18 and MobileNetV2 for tests: their tensors written down, and small networks with those names.

Nothing here knows how flatfed's networks are built or what they call their tensors.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Shapes = dict[str, tuple[int, ...]]


def norm(name: str, channels: int) -> Shapes:
    """What BatchNorm of a name holds."""
    parts = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{part}": (channels,) for part in parts} | {f"{name}.num_batches_tracked": ()}


def resnet18_shapes(classes: int = 1000) -> Shapes:
    """Every tensor of torchvision's ResNet-18."""
    actual: Shapes = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64)
    inputs = 64
    for layer, width in (("layer1", 64), ("layer2", 128), ("layer3", 256), ("layer4", 512)):
        for block in ("0", "1"):
            at = f"{layer}.{block}"
            actual |= {f"{at}.conv1.weight": (width, inputs, 3, 3)} | norm(f"{at}.bn1", width)
            actual |= {f"{at}.conv2.weight": (width, width, 3, 3)} | norm(f"{at}.bn2", width)
            if inputs != width:
                actual |= {f"{at}.downsample.0.weight": (width, inputs, 1, 1)} | norm(f"{at}.downsample.1", width)
            inputs = width
    return actual | {"fc.weight": (classes, 512), "fc.bias": (classes,)}


WIDTHS = (16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320)
"""Outputs of features.1 to features.17."""
HALVING = (2, 4, 7, 14)
"""The features of stride 2, besides the first convolution."""


def mobilenetv2_shapes(classes: int = 1000) -> Shapes:
    """Every tensor of torchvision's MobileNetV2."""
    actual: Shapes = {"features.0.0.weight": (32, 3, 3, 3)} | norm("features.0.1", 32)
    actual |= {"features.1.conv.0.0.weight": (32, 1, 3, 3)} | norm("features.1.conv.0.1", 32)
    actual |= {"features.1.conv.1.weight": (16, 32, 1, 1)} | norm("features.1.conv.2", 16)
    for number, width in enumerate(WIDTHS[1:], 2):
        at, inputs = f"features.{number}.conv", WIDTHS[number - 2]
        actual |= {f"{at}.0.0.weight": (6 * inputs, inputs, 1, 1)} | norm(f"{at}.0.1", 6 * inputs)
        actual |= {f"{at}.1.0.weight": (6 * inputs, 1, 3, 3)} | norm(f"{at}.1.1", 6 * inputs)
        actual |= {f"{at}.2.weight": (width, 6 * inputs, 1, 1)} | norm(f"{at}.3", width)
    actual |= {"features.18.0.weight": (1280, 320, 1, 1)} | norm("features.18.1", 1280)
    return actual | {"classifier.1.weight": (classes, 1280), "classifier.1.bias": (classes,)}


def random_tensors(shapes: Shapes, seed: int = 0) -> dict[str, Tensor]:
    """Numbers for every tensor, none of them a start value: variances positive, convolutions of a moderate gain."""
    generator, actual = torch.Generator().manual_seed(seed), dict[str, Tensor]()
    for name, shape in shapes.items():
        draw = torch.randn(shape, generator=generator)
        if name.endswith("num_batches_tracked"):
            actual[name] = torch.tensor(17)
        elif name.endswith("running_var") or (len(shape) == 1 and name.endswith("weight")):
            actual[name] = 0.5 + draw.abs()
        else:
            actual[name] = draw * (2 / draw[0].numel()) ** 0.5 if len(shape) > 1 else 0.1 * draw
    return actual


class Block(nn.Module):
    """A residual block of ResNet-18."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        beside = self.downsample(x) if hasattr(self, "downsample") else x
        return F.relu(beside + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class ResNet18(nn.Module):
    """ResNet-18 with torchvision's names."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), kernel_size=3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def activated(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, BatchNorm, ReLU6."""
    padding = (kernel - 1) // 2
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6())


class Inverted(nn.Module):
    """An inverted residual of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inputs * expand
        first = [activated(inputs, hidden, 1)] if expand != 1 else []
        last = [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*first, activated(hidden, hidden, 3, stride, hidden), *last)
        self.beside = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.beside else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 with torchvision's names."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [activated(3, 32, 3, 2), Inverted(32, 16, 1, 1)]
        for number, width in enumerate(WIDTHS[1:], 2):
            layers.append(Inverted(WIDTHS[number - 2], width, 2 if number in HALVING else 1, 6))
        self.features = nn.Sequential(*layers, activated(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


def with_group_norm(network: nn.Module, groups: int) -> nn.Module:
    """Put GroupNorm with the same scales and shifts in the place of each BatchNorm."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                replaced = nn.GroupNorm(groups, child.num_features)
                replaced.load_state_dict({"weight": child.weight.detach(), "bias": child.bias.detach()})
                setattr(parent, name, replaced)
    return network
