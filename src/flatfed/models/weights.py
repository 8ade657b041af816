"""Pretrained weights: a safetensors file into a model."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
from torch import nn

from flatfed.core.errors import ConfigError


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file into a model; names and shapes must be the model's own."""
    if path.is_dir():
        raise ConfigError(f"the weights {path} are a folder, not a safetensors file{_of_a_run(path)}")
    try:
        tensors = safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise ConfigError(f"the weights {path} are missing") from None
    except Exception as error:
        raise ConfigError(f"the weights {path} cannot be read: {_why(path, error)}") from None
    own = model.state_dict()
    missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or extra:
        parts = [f"lack {', '.join(missing[:4])}"] if missing else []
        parts += [f"hold {', '.join(extra[:4])}, which the model has not"] if extra else []
        raise ConfigError(f"the weights {path} do not fit the model: they {' and '.join(parts)}")
    for name, tensor in tensors.items():
        if tensor.shape != own[name].shape:
            shapes = f"{tuple(tensor.shape)}, the model's {tuple(own[name].shape)}"
            raise ConfigError(f"the weights {path} do not fit the model: their {name} has shape {shapes}")
    model.load_state_dict(tensors)


def _of_a_run(path: Path) -> str:
    """Return how to get the weights of a run, if the folder is one."""
    if not (path / "config.json").is_file():
        return ""
    return f"; write one from this run: {_saved(f'ff.load_run({str(path)!r}).model()')}"


def _why(path: Path, error: Exception) -> str:
    """Return why a file cannot be read: one of torch.save says so by its first bytes."""
    try:
        with path.open("rb") as file:
            first = file.read(4)
    except OSError as unreadable:
        return str(unreadable.strerror)
    if first.startswith((b"PK\3\4", b"\x80\2")):
        return f"it is not a safetensors file but one of torch.save; convert it with {_saved('model')}"
    return f"it is not a whole safetensors file ({error}); write one with {_saved('model')}"


def _saved(model: str) -> str:
    return f'safetensors.torch.save_file({model}.state_dict(), "w.safetensors")'
