"""Pretrained weights: a safetensors file into a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.models.torchvision_names import recognise, translate

Tensors = dict[str, Tensor]


def load_weights(
    model: nn.Module,
    path: Path,
    id: str = "the model",
    head: Callable[[], set[str]] = set,
    new_head: bool = False,
) -> None:
    """Load a safetensors file into a model; names and shapes must be the model's own, or torchvision's for the same.

    Args:
        model: changed only where all of the file fits.
        path: the file.
        id: what the model is called.
        head: returns the names of the head's tensors, or raises a `ConfigError` where it is not clear which they are.
        new_head: whether the head stays as it is, whatever the file holds of it.
    """
    tensors, own, remark = _read(path), model.state_dict(), ""
    try:
        known = recognise(tensors)
        if known is not None and known.mark not in own:
            tensors, remark = translate(known, tensors, id, own)
        kept = _kept(model, head()) if new_head else set[str]()
        tensors, own = ({n: t for n, t in part.items() if n not in kept} for part in (tensors, own))
        _check_names(tensors, own, head)
        _check_shapes(tensors, own, head)
    except ConfigError as error:
        raise ConfigError(f"the weights {path} do not fit the model: {error}") from None
    model.load_state_dict(tensors, strict=not kept)
    if remark:
        warnings.warn(remark, stacklevel=2)


def _read(path: Path) -> Tensors:
    if path.is_dir():
        raise ConfigError(f"the weights {path} are a folder, not a safetensors file{_of_a_run(path)}")
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise ConfigError(f"the weights {path} are missing") from None
    except Exception as error:
        raise ConfigError(f"the weights {path} cannot be read: {_why(path, error)}") from None


def _kept(model: nn.Module, head: set[str]) -> set[str]:
    """Return the tensors that a new head keeps; one that is also used elsewhere cannot stay and be loaded at once."""
    every = dict(model.named_parameters(remove_duplicate=False))
    shared = [n for n, p in every.items() if n not in head and any(p is every[h] for h in head if h in every)]
    if shared:
        raise ConfigError(f"the head shares its weights with {shared[0]}, so --new-head cannot leave them out")
    return head


def _check_names(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], head: Callable[[], set[str]]) -> None:
    missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or extra:
        parts = [f"lack {', '.join(missing[:4])}"] if missing else []
        parts += [f"hold {', '.join(extra[:4])}, which the model has not"] if extra else []
        raise ConfigError(f"they {' and '.join(parts)}{_hint({*missing, *extra}, head)}")


def _check_shapes(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], head: Callable[[], set[str]]) -> None:
    """Refuse tensors of another shape; what is wrong outside of the head is told first."""
    other = [name for name, tensor in tensors.items() if tensor.shape != own[name].shape]
    if other:
        name = next((name for name in other if not _hint({name}, head)), other[0])
        shapes = f"{tuple(tensors[name].shape)}, the model's {tuple(own[name].shape)}"
        raise ConfigError(f"their {name} has shape {shapes}{_hint(set(other), head)}")


def _hint(names: set[str], head: Callable[[], set[str]]) -> str:
    """Return that the head can be started anew, where nothing else is wrong and it is clear which it is."""
    try:
        return "; --new-head starts with a new head" if names <= head() else ""
    except ConfigError:
        return ""


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
