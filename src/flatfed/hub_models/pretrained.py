"""Models, tokenizers and image processors: at hand, from a folder, or by a name on the hub where that is asked for."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.hub_models.hub_libraries import quietly, transformers
from flatfed.hub_models.model_tasks import Kind, kind_of_classes

CONFIG = "config.json"
HASHED = ("*.json", "*.safetensors", "*.txt", "*.model")
"""Files of a folder that decide what is loaded from it."""
BLOCK = 2**20


def base_of(model: nn.Module) -> nn.Module:
    """Return the model of `transformers` itself, without adapters around it."""
    inner = getattr(model, "get_base_model", None)
    return inner() if callable(inner) else model


def loaded_model(model: nn.Module | str | Path, kind: Kind | None, download: bool, **changes: Any) -> nn.Module:
    """Return a model: a copy of the one at hand, or one that is loaded from a folder or by name."""
    if isinstance(model, nn.Module):
        return _for_training(copy.deepcopy(model))
    place = found(model, download)
    if isinstance(place, Path) and (place / "adapter_config.json").is_file():
        raise ConfigError(f"{place} holds adapters alone; load them with peft, and pass the model itself")
    kind = kind or folder_kind(place, download)
    auto = getattr(transformers(), kind.auto)
    return _for_training(_load(auto, place, download, **changes))


def loaded_tokenizer(tokenizer: Any, model: Any, download: bool, kind: str = "AutoTokenizer") -> Any:
    """Return a tokenizer or processor: the one at hand, or the one of this folder or name, or that of the model's."""
    source = model if tokenizer is None and isinstance(model, str | Path) else tokenizer
    if not isinstance(source, str | Path):
        return source
    return _load(getattr(transformers(), kind), found(source, download), download, safely=False)


def found(name: str | Path, download: bool) -> Path | str:
    """Return the folder that is meant, or a name on the hub where it may be asked."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / CONFIG).is_file() and not (folder / "tokenizer_config.json").is_file():
            raise ConfigError(f"{folder} has no {CONFIG}; write the model there with save_pretrained")
        return folder
    if folder.is_absolute() or str(name).startswith((".", "~")) or str(name).count("/") > 1:
        raise ConfigError(f"there is no folder {folder}; write a model there with save_pretrained")
    if not download:
        raise ConfigError(
            f"there is no folder {name}, and nothing is fetched unless asked for; for the model of that name on the "
            "hub say download=True (on the command line: --set model.download=true)"
        )
    return str(name)


def folder_kind(place: Path | str, download: bool) -> Kind:
    """Return what the model of a folder learns, by the class that its configuration names."""
    config = configuration(place, download)
    kind = kind_of_classes(list(getattr(config, "architectures", None) or []))
    if kind is None:
        raise ConfigError(f"the configuration of {place} names no head that is known; say task='causal-lm', say")
    return kind


def configuration(place: Path | str, download: bool) -> Any:
    """Return the configuration of a model."""
    return _load(transformers().AutoConfig, place, download, safely=False)


def fingerprint(name: str | Path) -> str:
    """Return a hash of the files of a folder that decide what is loaded from it; empty for a name on the hub."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for file in sorted({file for pattern in HASHED for file in folder.glob(pattern) if file.is_file()}):
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _load(auto: Any, place: Path | str, download: bool, safely: bool = True, **changes: Any) -> Any:
    # Numbers alone, and no code that lies beside them: a folder may come from somebody else.
    rules = {"local_files_only": isinstance(place, Path) or not download, "trust_remote_code": False}
    if safely:
        rules["use_safetensors"] = True
    try:
        with quietly():
            return auto.from_pretrained(str(place), **rules, **changes)
    except Exception as error:  # the library raises its own, and those of files and the network
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ConfigError(f"{place} cannot be loaded: {reason}") from error


def _for_training(model: nn.Module) -> nn.Module:
    """Return the model as it is trained: its outputs by name, and nothing kept for generating."""
    config = getattr(base_of(model), "config", None)
    if config is None:
        raise ConfigError(f"{type(model).__name__} is no model of transformers; build an ff.Task of it")
    if hasattr(config, "use_cache"):
        config.use_cache = False
    config.return_dict = True
    return model
