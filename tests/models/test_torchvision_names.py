"""Weights with torchvision's names: a bijection onto our tensors, and the same function."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.models import build
from flatfed.models.torchvision_names import MOBILENETV2, RESNET18, Architecture
from models.torchvision_networks import (
    MobileNetV2,
    ResNet18,
    mobilenetv2_shapes,
    random_tensors,
    resnet18_shapes,
    with_group_norm,
)

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
CASES = {
    "resnet18-bn": (RESNET18, resnet18_shapes, ResNet18, None),
    "resnet18-gn": (RESNET18, resnet18_shapes, ResNet18, 2),
    "mobilenetv2-gn": (MOBILENETV2, mobilenetv2_shapes, MobileNetV2, 8),
}
LARGE = {"classes": 6, "in_channels": 3}


def saved(path: Path, tensors: dict[str, Tensor]) -> Path:
    safetensors.torch.save_file(tensors, path)
    return path


def loaded(id: str, path: Path, **given: Any) -> nn.Module:
    """The model with the file's weights, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(id, **LARGE, weights=path, **given)


@pytest.mark.parametrize(
    ("network", "shapes", "count"),
    [(ResNet18, resnet18_shapes, 11_689_512), (MobileNetV2, mobilenetv2_shapes, 3_504_872)],
)
def test_the_reference_has_the_tensors_written_down(network: Any, shapes: Any, count: int) -> None:
    made = network()
    assert {name: tuple(t.shape) for name, t in made.state_dict().items()} == shapes()
    assert sum(p.numel() for p in made.parameters()) == count  # as torchvision documents them


@pytest.mark.parametrize("id", CASES)
def test_the_map_is_a_bijection_of_equal_shapes(id: str) -> None:
    known, shapes, _, groups = CASES[id]
    ours, theirs = build(id, **LARGE).state_dict(), shapes(6)
    assert known.tensors.keys() == theirs.keys()
    assert len(set(known.tensors.values())) == len(theirs)
    taken = [name for name in theirs if groups is None or not name.endswith(STATISTICS)]
    assert {known.tensors[name] for name in taken} == ours.keys()
    assert all(tuple(ours[known.tensors[name]].shape) == theirs[name] for name in taken)


@pytest.mark.parametrize("id", CASES)
def test_the_same_function(id: str, tmp_path: Path) -> None:
    _, shapes, network, groups = CASES[id]
    reference = network(6)
    reference.load_state_dict(random_tensors(shapes(6)))
    path = saved(tmp_path / "w.safetensors", reference.state_dict())
    if groups is not None:
        reference = with_group_norm(reference, groups)
    images = torch.randn(3, 3, 70, 62, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = reference.double().eval()(images.double())
        given = loaded(id, path).double().eval()(images.double())
    assert expected.std() > 1e-3
    torch.testing.assert_close(given, expected, rtol=1e-6, atol=1e-6)


def test_statistics_and_counters_are_taken(tmp_path: Path) -> None:
    tensors = random_tensors(resnet18_shapes(6))
    made = build("resnet18-bn", **LARGE, weights=saved(tmp_path / "w.safetensors", tensors))
    assert torch.equal(made.norm1.running_mean, tensors["bn1.running_mean"])
    assert torch.equal(made.stages.stage3[0].shortcut.norm.running_var, tensors["layer3.0.downsample.1.running_var"])
    assert int(made.norm1.num_batches_tracked) == 17


def test_files_without_counters_are_taken(tmp_path: Path) -> None:
    tensors = random_tensors(resnet18_shapes(6))
    fewer = {name: t for name, t in tensors.items() if not name.endswith("num_batches_tracked")}
    made = build("resnet18-bn", **LARGE, weights=saved(tmp_path / "w.safetensors", fewer))
    assert torch.equal(made.conv1.weight, tensors["conv1.weight"])
    assert int(made.norm1.num_batches_tracked) == 0


@pytest.mark.parametrize("id", ["resnet18-gn", "mobilenetv2-gn"])
def test_group_norm_takes_no_statistics_and_says_so(id: str, tmp_path: Path) -> None:
    known, shapes, _, _ = CASES[id]
    path = saved(tmp_path / "w.safetensors", random_tensors(shapes(6)))
    words = f"{id} has GroupNorm: of BatchNorm in torchvision's {known.name} it takes scales and shifts"
    with pytest.warns(UserWarning, match=words):
        build(id, **LARGE, weights=path)


@pytest.mark.parametrize("id", CASES)
def test_a_new_head_for_other_classes(id: str, tmp_path: Path) -> None:
    known, shapes, _, _ = CASES[id]
    tensors = random_tensors(shapes(1000))
    path = saved(tmp_path / "w.safetensors", tensors)
    with pytest.raises(ConfigError, match=r"their head.\w+ has shape \(1000.*the model's \(6.*; new_head starts"):
        build(id, **LARGE, weights=path)
    made, fresh = (loaded(id, path, seed=3, new_head=True).state_dict(), build(id, **LARGE, seed=3).state_dict())
    for theirs, ours in known.tensors.items():
        if ours in made:
            assert torch.equal(made[ours], fresh[ours] if ours.startswith("head.") else tensors[theirs]), ours
    without = {name: t for name, t in tensors.items() if not known.tensors[name].startswith("head.")}
    again = loaded(id, saved(tmp_path / "b.safetensors", without), seed=3, new_head=True).state_dict()
    assert all(torch.equal(made[name], again[name]) for name in made)


def test_the_user_s_own_network_with_these_names_is_loaded_as_it_is(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", random_tensors(resnet18_shapes(6)))
    made = build("models.torchvision_networks:ResNet18", 6, 3, weights=path)
    assert torch.equal(made.fc.weight, safetensors.torch.load_file(path)["fc.weight"])


# --- refused ----------------------------------------------------------------------------------------------


def refused(path: Path, id: str, match: str, **options: Any) -> None:
    with pytest.raises(ConfigError, match=f"the weights .* do not fit the model: {match}") as caught:
        build(id, **LARGE, weights=path, options=options)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("id", ["mobilenetv2-gn", "resnet18", "wrn-28-4"])
def test_another_model(id: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", random_tensors(resnet18_shapes(6)))
    refused(path, id, r"they are those of torchvision's ResNet-18, for the model resnet18-bn or resnet18-gn$")


def test_the_other_architecture(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", random_tensors(mobilenetv2_shapes(6)))
    refused(path, "resnet18-bn", "they are those of torchvision's MobileNetV2, for the model mobilenetv2-gn$")


def resnet(blocks: tuple[int, ...], convolutions: int) -> dict[str, Tensor]:
    """A few tensors of another ResNet."""
    names = ["conv1.weight", "bn1.weight", "fc.weight"]
    for stage, count in enumerate(blocks, 1):
        names += [f"layer{stage}.{b}.conv{c + 1}.weight" for b in range(count) for c in range(convolutions)]
    return {name: torch.zeros(1) for name in names}


@pytest.mark.parametrize(
    ("blocks", "convolutions", "name"),
    [
        ((3, 4, 6, 3), 2, "ResNet-34"),
        ((3, 4, 6, 3), 3, "ResNet-50"),
        ((3, 4, 23, 3), 3, "ResNet-101"),
        ((3, 8, 36, 3), 3, "ResNet-152"),
        ((1, 1, 1, 1), 2, "ResNets, with 1, 1, 1, 1 blocks"),
    ],
)
def test_other_resnets_are_named(blocks: tuple[int, ...], convolutions: int, name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", resnet(blocks, convolutions))
    refused(path, "resnet18-bn", f"they are those of torchvision's {name}; resnet18-bn takes those of its ResNet-18$")
    refused(path, "wrn-28-4", f"they are those of torchvision's {name}; wrn-28-4 takes none of torchvision's$")


@pytest.mark.parametrize(("known", "shapes"), [(RESNET18, resnet18_shapes), (MOBILENETV2, mobilenetv2_shapes)])
def test_tensors_that_are_unknown_are_listed(known: Architecture, shapes: Any, tmp_path: Path) -> None:
    more = {name: torch.zeros(1) for name in ("aux.weight", "se.bias")}
    path = saved(tmp_path / "w.safetensors", random_tensors(shapes(6)) | more)
    words = rf"they hold aux.weight, se.bias, which torchvision's {known.name} does not have$"
    refused(path, known.takers[-1], words)


def test_tensors_that_are_missing_are_listed(tmp_path: Path) -> None:
    tensors = random_tensors(resnet18_shapes(6))
    del tensors["layer2.0.downsample.0.weight"]
    refused(
        saved(tmp_path / "w.safetensors", tensors), "resnet18-bn", r"they lack stages.stage2.0.shortcut.conv.weight$"
    )


def test_another_stem(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", random_tensors(resnet18_shapes(6)))
    refused(
        path, "resnet18-bn", r"their conv1.weight has shape \(64, 3, 7, 7\), the model's \(64, 3, 3, 3\)$", stem="cifar"
    )
