"""Torchvision's ResNet-18 and MobileNetV2: the names of their tensors, and what flatfed's networks call the same.

A file of `safetensors.torch.save_file(torchvision_model.state_dict(), ...)` is known by its names. BatchNorm's scales
and shifts become GroupNorm's where a network has that, and its statistics are left out.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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
        names: dict[str, str] = {}
        for theirs, ours in self.convolutions.items():
            names |= _parts(theirs, ours, ("weight",))
        for theirs, ours in self.norms.items():
            names |= _parts(theirs, ours, AFFINE + STATISTICS)
        theirs, ours = self.head
        return names | _parts(theirs, ours, AFFINE)


def _parts(theirs: str, ours: str, parts: tuple[str, ...]) -> dict[str, str]:
    return {f"{theirs}.{part}": f"{ours}.{part}" for part in parts}


def _resnet18() -> Architecture:
    convolutions, norms = {"conv1": "conv1"}, {"bn1": "norm1"}
    for stage, block in itertools.product((1, 2, 3, 4), (0, 1)):
        theirs, ours = f"layer{stage}.{block}", f"stages.stage{stage}.{block}"
        convolutions |= {f"{theirs}.conv1": f"{ours}.conv1", f"{theirs}.conv2": f"{ours}.conv2"}
        norms |= {f"{theirs}.bn1": f"{ours}.norm1", f"{theirs}.bn2": f"{ours}.norm2"}
        if _changes_shape(stage, block):
            convolutions[f"{theirs}.downsample.0"] = f"{ours}.shortcut.conv"
            norms[f"{theirs}.downsample.1"] = f"{ours}.shortcut.norm"
    takers = ("resnet18-bn", "resnet18-gn")
    return Architecture("ResNet-18", "layer1.0.conv1.weight", takers, convolutions, norms, ("fc", "head"))


def _changes_shape(stage: int, block: int) -> bool:
    """Say whether a block of ResNet-18 changes the shape, so that its shortcut has a convolution of its own."""
    return stage > 1 and block == 0


def _layers_with_activation(block: int) -> tuple[str, ...]:
    if block == 0:
        return ("depthwise",)  # the first block does not expand
    return ("expand", "depthwise")


def _mobilenetv2() -> Architecture:
    convolutions = {"features.0.0": "stem.conv", "features.18.0": "last.conv"}
    norms = {"features.0.1": "stem.norm", "features.18.1": "last.norm"}
    for number in range(17):
        theirs, ours = f"features.{number + 1}.conv", f"blocks.{number}.layers"
        active = _layers_with_activation(number)
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

BLOCK = re.compile(r"layer(\d+)\.\d+\.conv1\.weight")
"""The tensor that every block has once; its number is that of the stage."""


def recognise(names: Collection[str]) -> Architecture | None:
    """Return the architecture whose tensors a file holds, by their names."""
    for known in ARCHITECTURES:
        if known.mark in names:
            return known
    return None


def translate(
    known: Architecture, tensors: Mapping[str, Tensor], id: str, own: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], str]:
    """Return a file's tensors under the names of the model `id`, whose own are `own`, and what the user should know.

    A network without BatchNorm takes no statistics.
    """
    _check_architecture(known, tensors, id)
    names = known.tensors
    # Counters of the file, where it has any, go before the model's own.
    translated = _counters(own) | {names[theirs]: tensor for theirs, tensor in tensors.items()}
    taken = _without_statistics(translated, own)
    if len(taken) == len(translated):
        return translated, ""
    remark = (
        f"{id} has GroupNorm: of BatchNorm in torchvision's {known.name} it takes scales and shifts, and leaves the "
        "running means and variances out"
    )
    return taken, remark


def _without_statistics(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors but for the statistics that the model has no place for."""
    return {name: tensor for name, tensor in tensors.items() if name in own or not name.endswith(STATISTICS)}


def _counters(own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the model's own counters, for files that have none."""
    return {name: tensor for name, tensor in own.items() if name.endswith(COUNTER)}


def _check_architecture(known: Architecture, tensors: Mapping[str, Tensor], id: str) -> None:
    """Refuse the weights of a larger relative, those with unknown tensors, and those that the model cannot take."""
    # First, because larger ResNets bear the mark of ResNet-18 too.
    if known is RESNET18:
        _check_resnet18(tensors, id)
    if id not in known.takers:
        takers = " or ".join(known.takers)
        raise ConfigError(f"they are those of torchvision's {known.name}, for the model {takers}")
    _check_known(known, tensors)


def _check_known(known: Architecture, tensors: Mapping[str, Tensor]) -> None:
    unknown = sorted(tensors.keys() - known.tensors.keys())
    if unknown:
        raise ConfigError(f"they hold {_listed(unknown)}, which torchvision's {known.name} does not have")


def _check_resnet18(tensors: Mapping[str, Tensor], id: str) -> None:
    """Refuse the weights of a larger ResNet, whose tensors have names like those of ResNet-18."""
    actual = resnet_of(tensors)
    if actual != RESNET18.name:
        raise ConfigError(f"they are those of torchvision's {actual}; {id} takes {_taken(id)}")


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(names[:MANY])
    if len(names) > MANY:
        return f"{listed}, ... ({len(names)} in all)"
    return listed


def _taken(id: str) -> str:
    for known in ARCHITECTURES:
        if id in known.takers:
            return f"those of its {known.name}"
    return "none of torchvision's"


def resnet_of(names: Collection[str]) -> str:
    """Return which ResNet a file is of, by its blocks and the convolutions of a block."""
    stages = _blocks_per_stage(names)
    # ResNet-50 and larger have blocks of three convolutions.
    deep = 3 if "layer1.0.conv3.weight" in names else 2
    return RESNETS.get((stages, deep), f"ResNets, with {', '.join(map(str, stages))} blocks")


def _blocks_per_stage(names: Collection[str]) -> tuple[int, ...]:
    matches = filter(None, map(BLOCK.match, names))
    counts = Counter(int(match[1]) for match in matches)
    return tuple(counts[stage] for stage in range(1, 5))
