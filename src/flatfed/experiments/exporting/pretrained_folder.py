"""Models of Hugging Face, known by what they can do: a folder that `from_pretrained` loads."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.experiments.exporting.processor_files import copy_processor
from flatfed.hub_models.hub_libraries import quietly

SAVES, LOADS = "save_pretrained", "from_pretrained"


def write_pretrained(exported: ExportedModel, folder: Path) -> list[Path]:
    """Write the folder, loaded again and compared first, and return its files."""
    part = pretrained_part(exported.model)
    _name_classes(part, exported.class_names)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as temporary, _quiet(part):
        part.save_pretrained(temporary)
        Path(temporary, "README.md").unlink(missing_ok=True)  # an empty card of the library's; ours is written instead
        _check_loaded(part, temporary)
        copy_processor(exported, Path(temporary))
        return [_moved(file, folder) for file in sorted(Path(temporary).iterdir())]


def pretrained_part(model: nn.Module) -> Any:
    """Return the one part of a model that can be saved so; it must hold all parameters of the model."""
    parts = list(_outermost(model))
    if not parts:
        raise ConfigError(
            f"{type(model).__name__} is no model of Hugging Face (it has no {SAVES}); take --format safetensors, torch "
            "or onnx"
        )
    if len(parts) > 1:
        raise ConfigError(f"the model holds {len(parts)} models of Hugging Face; take --format safetensors")
    held = {id(parameter) for parameter in parts[0].parameters()}
    others = [name for name, parameter in model.named_parameters() if id(parameter) not in held]
    if others:
        raise ConfigError(
            f"{SAVES} would leave out {len(others)} parameters beside the Hugging Face model, such as {others[0]}; "
            "take --format safetensors"
        )
    return parts[0]


def _outermost(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules that can be saved and lie in no other such module."""
    if callable(getattr(module, SAVES, None)):
        yield module
        return
    for child in module.children():
        yield from _outermost(child)


def _name_classes(part: Any, names: list[str]) -> None:
    """Let the configuration say the names of the classes, where it has room for as many."""
    config: Any = getattr(part, "config", None)
    if names and getattr(config, "num_labels", None) == len(names):
        config.id2label = dict(enumerate(names))
        config.label2id = {name: number for number, name in enumerate(names)}


def _is_of_library(part: Any) -> bool:
    library = sys.modules.get("transformers")
    return library is not None and isinstance(part, library.PreTrainedModel)


def _quiet(part: Any) -> AbstractContextManager[None]:
    return quietly() if _is_of_library(part) or has_adapters(part) else nullcontext()


def has_adapters(part: Any) -> bool:
    """Return whether a model has adapters of peft, which are saved without the model that they belong to."""
    return hasattr(part, "peft_config") and hasattr(part, "get_base_model")


def _check_loaded(part: Any, folder: str) -> None:
    """Load what was written and compare it; another class than the library's own may load in another way."""
    if not _is_of_library(part):
        return
    loaded = type(part).from_pretrained(folder, local_files_only=True)
    again = loaded.state_dict()
    for name, tensor in part.state_dict().items():
        if name not in again or not torch.equal(again[name].to(tensor.dtype), tensor):
            raise ConfigError(f"{LOADS} does not give back {name!r} as it was; take --format safetensors")


def _moved(file: Path, folder: Path) -> Path:
    target = folder / file.name
    if target.is_dir():
        shutil.rmtree(target)
    file.replace(target)
    return target
