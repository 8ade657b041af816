"""Torchvision's ResNet-18 and MobileNetV2: the names of their tensors, and what flatfed's networks call the same.

A file of `safetensors.torch.save_file(torchvision_model.state_dict(), ...)` is known by its names. BatchNorm's scales
and shifts become GroupNorm's where a network has that, and its statistics are left out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import Tensor

from flatfed.core.errors import MANY, ConfigError

AFFINE = ("weight", "bias")
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
COUNTER = "num_batches_tracked"
"""Files that older versions wrote have no counters; these do not matter to what a network computes."""


@dataclass(frozen=True)
class Architecture:
    """A network of torchvision's.

    Attributes:
        name: what people call it.
        mark: a tensor by whose name its files are known.
        takers: the models that take its weights.
        convolutions: the modules that hold one weight: torchvision's name, and ours.
        norms: likewise the normalisations.
        head: likewise the last layer.
    """

    name: str
    mark: str
    takers: tuple[str, ...]
    convolutions: Mapping[str, str]
    norms: Mapping[str, str]
    head: tuple[str, str]

    @property
    def tensors(self) -> dict[str, str]:
        """Every tensor: torchvision's name, and ours."""
        found = {f"{theirs}.weight": f"{ours}.weight" for theirs, ours in self.convolutions.items()}
        for theirs, ours in self.norms.items():
            found |= {f"{theirs}.{part}": f"{ours}.{part}" for part in AFFINE + STATISTICS}
        theirs, ours = self.head
        return found | {f"{theirs}.{part}": f"{ours}.{part}" for part in AFFINE}


def _resnet18() -> Architecture:
    convolutions, norms = {"conv1": "conv1"}, {"bn1": "norm1"}
    for stage, block in itertools.product((1, 2, 3, 4), (0, 1)):
        theirs, ours = f"layer{stage}.{block}", f"stages.stage{stage}.{block}"
        convolutions |= {f"{theirs}.conv{n}": f"{ours}.conv{n}" for n in (1, 2)}
        norms |= {f"{theirs}.bn{n}": f"{ours}.norm{n}" for n in (1, 2)}
        if stage > 1 and block == 0:
            convolutions[f"{theirs}.downsample.0"] = f"{ours}.shortcut.conv"
            norms[f"{theirs}.downsample.1"] = f"{ours}.shortcut.norm"
    takers = ("resnet18-bn", "resnet18-gn")
    return Architecture("ResNet-18", "layer1.0.conv1.weight", takers, convolutions, norms, ("fc", "head"))


def _mobilenetv2() -> Architecture:
    convolutions = {"features.0.0": "stem.conv", "features.18.0": "last.conv"}
    norms = {"features.0.1": "stem.norm", "features.18.1": "last.norm"}
    for number in range(17):
        theirs, ours = f"features.{number + 1}.conv", f"blocks.{number}.layers"
        active = ("expand", "depthwise") if number > 0 else ("depthwise",)  # the first block does not expand
        for place, layer in enumerate(active):
            convolutions[f"{theirs}.{place}.0"] = f"{ours}.{layer}.conv"
            norms[f"{theirs}.{place}.1"] = f"{ours}.{layer}.norm"
        convolutions[f"{theirs}.{len(active)}"] = f"{ours}.project.conv"
        norms[f"{theirs}.{len(active) + 1}"] = f"{ours}.project.norm"
    head = ("classifier.1", "head")
    return Architecture("MobileNetV2", "features.1.conv.0.0.weight", ("mobilenetv2-gn",), convolutions, norms, head)


RESNET18, MOBILENETV2 = _resnet18(), _mobilenetv2()
ARCHITECTURES = (RESNET18, MOBILENETV2)

RESNETS: dict[tuple[tuple[int, ...], int], str] = {
    ((2, 2, 2, 2), 2): "ResNet-18",
    ((3, 4, 6, 3), 2): "ResNet-34",
    ((3, 4, 6, 3), 3): "ResNet-50",
    ((3, 4, 23, 3), 3): "ResNet-101",
    ((3, 8, 36, 3), 3): "ResNet-152",
}
"""Blocks of the four stages, convolutions of a block."""


def recognise(names: Collection[str]) -> Architecture | None:
    """Return the architecture whose tensors a file holds, by their names."""
    return next((known for known in ARCHITECTURES if known.mark in names), None)


def translate(
    known: Architecture, tensors: Mapping[str, Tensor], id: str, own: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], str]:
    """Return a file's tensors under the names of the model `id`, whose own are `own`, and what the user should know.

    A network without BatchNorm takes no statistics.
    """
    _check_architecture(known, tensors, id)
    names = known.tensors
    found = {names[theirs]: tensor for theirs, tensor in tensors.items()}
    found |= {name: own[name] for name in own if name.endswith(COUNTER) and name not in found}
    statistics = [name for name in found if name not in own and name.endswith(STATISTICS)]
    if not statistics:
        return found, ""
    remark = (
        f"{id} has GroupNorm: of BatchNorm in torchvision's {known.name} it takes scales and shifts, and leaves the "
        "running means and variances out"
    )
    return {name: tensor for name, tensor in found.items() if name not in statistics}, remark


def _check_architecture(known: Architecture, tensors: Mapping[str, Tensor], id: str) -> None:
    """Refuse the weights of a larger relative, those with unknown tensors, and those that the model cannot take."""
    really = resnet_of(tensors) if known is RESNET18 else known.name
    if really != known.name:
        raise ConfigError(f"they are those of torchvision's {really}; {id} takes {_taken(id)}")
    if id not in known.takers:
        raise ConfigError(f"they are those of torchvision's {known.name}, for --model {' or '.join(known.takers)}")
    unknown = sorted(tensors.keys() - known.tensors.keys())
    if unknown:
        listed = ", ".join(unknown[:MANY]) + (f", ... ({len(unknown)} in all)" if len(unknown) > MANY else "")
        raise ConfigError(f"they hold {listed}, which torchvision's {known.name} has not")


def _taken(id: str) -> str:
    return next(
        (f"those of its {known.name}" for known in ARCHITECTURES if id in known.takers), "none of torchvision's"
    )


def resnet_of(names: Collection[str]) -> str:
    """Return which ResNet a file is of, by its blocks and the convolutions of a block."""
    blocks = {(int(m[1]), int(m[2])) for name in names if (m := re.match(r"layer(\d+)\.(\d+)\.conv1\.weight", name))}
    stages = tuple(sum(stage == s for stage, _ in blocks) for s in range(1, 5))
    deep = 3 if "layer1.0.conv3.weight" in names else 2
    return RESNETS.get((stages, deep), f"ResNets, with {', '.join(map(str, stages))} blocks")
