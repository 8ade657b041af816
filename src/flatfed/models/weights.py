"""Pretrained weights: a safetensors file into a model."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
from torch import nn

from flatfed.core.errors import ConfigError


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a safetensors file into a model; names and shapes must be the model's own."""
    try:
        tensors = safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise ConfigError(f"the weights {path} are missing") from None
    except Exception as error:
        raise ConfigError(f"the weights {path} cannot be read: {error}") from None
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
