"""Pretrained weights: a safetensors file into a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from torch import Tensor, nn

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.models.torchvision_names import recognise, translate

Tensors = dict[str, Tensor]
Head = Callable[[], set[str]]
"""Returns the names of the head's tensors, or raises a `ConfigError` where it is not clear which they are."""

NAMED = 4
"""A message names at most this number of tensors."""


def load_weights(
    model: nn.Module,
    path: Path,
    id: str = "the model",
    head: Head = set,
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
    tensors = _read(path)
    try:
        fitting = _fitting(tensors, model, id, head, new_head)
    except ConfigError as error:
        raise ConfigError(f"the weights {path} do not fit the model: {error}") from None
    # All names were compared: those that the file does not have are the new head's.
    model.load_state_dict(fitting.tensors, strict=not new_head)
    if fitting.remark:
        warnings.warn(fitting.remark, stacklevel=2)


@dataclass(frozen=True)
class _Fitting:
    """Tensors under the names and in the shapes of a model, and what the user should know about them."""

    tensors: Tensors
    remark: str


def _fitting(tensors: Tensors, model: nn.Module, id: str, head: Head, new_head: bool) -> _Fitting:
    own = model.state_dict()
    fitting = _translated(tensors, id, own)
    kept = _kept(model, head()) if new_head else set[str]()
    taken, needed = _without(kept, fitting.tensors), _without(kept, own)
    _check_names(taken, needed, head)
    _check_shapes(taken, needed, head)
    _check_types(taken, needed)
    return _Fitting(taken, fitting.remark)


def _translated(tensors: Tensors, id: str, own: Mapping[str, Tensor]) -> _Fitting:
    """Return a file's tensors under the model's names, where they have torchvision's."""
    known = recognise(tensors)
    # A network of the user's own may have torchvision's names: nothing is to be translated there.
    if known is None or known.mark in own:
        return _Fitting(tensors, "")
    return _Fitting(*translate(known, tensors, id, own))


def _without(names: set[str], tensors: Mapping[str, Tensor]) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name not in names}


def _read(path: Path) -> Tensors:
    _check_file(path)
    try:
        # Such a file holds numbers alone: reading it runs nothing.
        return safetensors.torch.load_file(path)
    except Exception as error:
        raise ConfigError(f"the weights {path} cannot be read: {_why(path, error)}") from None


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ConfigError(f"the weights {path} are a folder, not a safetensors file{_of_a_run(path)}")
    if not path.exists():
        raise ConfigError(f"the weights {path} are missing")
    if not path.is_file():  # whoever reads a pipe may wait for ever
        raise ConfigError(f"the weights {path} are a pipe or a device, not a safetensors file")


def _kept(model: nn.Module, head: set[str]) -> set[str]:
    """Return the tensors that a new head keeps; one that is used elsewhere too cannot stay and be loaded at once."""
    shared = _shared_with(head, dict(model.named_parameters(remove_duplicate=False)))
    if shared:
        raise ConfigError(
            f"the head shares its weights with {shared[0]}, so {PARAMETER} cannot leave them out", parameter="new_head"
        )
    return head


def _shared_with(head: set[str], parameters: Mapping[str, Tensor]) -> list[str]:
    """Return the names outside of the head for parameters that are in it too."""
    others = _without(head, parameters)
    of_head = list(_without(set(others), parameters).values())
    return [name for name, parameter in others.items() if _is_among(parameter, of_head)]


def _is_among(parameter: Tensor, parameters: Sequence[Tensor]) -> bool:
    # By identity: tied weights are one tensor under two names, and `==` would compare their values.
    return any(parameter is other for other in parameters)


def _check_names(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], head: Head) -> None:
    missing = sorted(own.keys() - tensors.keys())
    extra = sorted(tensors.keys() - own.keys())
    differences = _differences(missing, extra)
    if differences:
        raise ConfigError(f"they {differences}{_hint([*missing, *extra], head)}")


def _differences(missing: Sequence[str], extra: Sequence[str]) -> str:
    differences = []
    if missing:
        differences.append(f"lack {', '.join(missing[:NAMED])}")
    if extra:
        differences.append(f"hold {', '.join(extra[:NAMED])}, which the model does not have")
    return " and ".join(differences)


def _check_shapes(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor], head: Head) -> None:
    """Refuse tensors of another shape."""
    names = _of_other_shape(tensors, own)
    if names:
        name = _most_telling(names, head)
        shapes = f"{tuple(tensors[name].shape)}, the model's {tuple(own[name].shape)}"
        raise ConfigError(f"their {name} has shape {shapes}{_hint(names, head)}")


def _check_types(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Refuse whole and complex numbers where the model has real ones: they would be rounded, or lose a part."""
    # Real numbers of another precision are converted; counters, such as BatchNorm's, are whole in the model too.
    for name, tensor in tensors.items():
        if own[name].is_floating_point() and not tensor.is_floating_point():
            raise ConfigError(f"their {name} is of type {_type(tensor)}, the model's {_type(own[name])}")


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _of_other_shape(tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> list[str]:
    return [name for name, tensor in tensors.items() if tensor.shape != own[name].shape]


def _most_telling(names: Sequence[str], head: Head) -> str:
    """Return the first tensor outside of the head, if any: with other classes the head differs in any case."""
    # False comes before True.
    return min(names, key=lambda name: _in_head([name], head))


def _hint(names: Sequence[str], head: Head) -> str:
    """Return that the head can be started anew, where nothing else is wrong."""
    if _in_head(names, head):
        return "; new_head starts with a new head"
    return ""


def _in_head(names: Sequence[str], head: Head) -> bool:
    """Say whether all tensors belong to the head; no, where it is not clear which those are."""
    try:
        return head().issuperset(names)
    except ConfigError:
        return False


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
    # A zip archive or a bare pickle: the two formats of torch.save.
    if first.startswith((b"PK\3\4", b"\x80\2")):
        return f"it is not a safetensors file but one of torch.save; convert it with {_saved('model')}"
    return f"it is not a whole safetensors file ({error}); write one with {_saved('model')}"


def _saved(model: str) -> str:
    return f'safetensors.torch.save_file({model}.state_dict(), "w.safetensors")'
