"""Data sets of tensors or arrays: rows of numbers, or images; what a model must know is read off their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError, nearest
from flatfed.core.task.examples import TensorExamples
from flatfed.data.storage.pool import Normalise, Pool

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
MORE = ("classes", "class_names", "client")

SMALLEST = {16: "cnn", 4: "cnn-small"}
"""Networks for images, each with the smallest side that it takes."""


def pool_of(name: str, data: Any) -> Pool:
    """Return a data set as a pool: a pool as it is, four arrays, or a dictionary of them.

    Args:
        name: the data set's name, for errors.
        data: a `Pool`; or `(x_train, y_train, x_test, y_test)`, tensors, arrays or lists; or a dictionary with these
            keys and, where they are known, `classes`, `class_names`, and `client`, the owner of each training
            example as a whole number. Inputs are N x features or N x channels x side x side, targets whole numbers.
    """
    if isinstance(data, Pool):
        return data
    parts = _parts(name, data)
    x_train, x_test = (_inputs(name, part, parts[part]) for part in ("x_train", "x_test"))
    y_train, y_test = (_whole_numbers(name, part, parts[part]) for part in ("y_train", "y_test"))
    _check_shapes(name, x_train, x_test)
    _check_counts(name, {"train": (x_train, y_train), "test": (x_test, y_test)})
    class_names = [str(entry) for entry in parts.get("class_names") or ()]
    classes = _classes(name, parts.get("classes"), class_names, torch.cat([y_train, y_test]))
    facts = _facts(x_train)
    return Pool(
        name=name,
        train=TensorExamples(x_train, y_train),
        labels=y_train,
        test=TensorExamples(x_test, y_test),
        classes=classes,
        facts=facts,
        default_model=_default_model(facts),
        prepare=_prepare(x_train),
        groups=_groups(name, parts.get("client")),
        class_names=class_names,
    )


def _parts(name: str, data: Any) -> Mapping[str, Any]:
    """Return the arrays by name."""
    if isinstance(data, Mapping):
        _check_keys(name, list(map(str, data)))
        return data
    if isinstance(data, tuple | list) and len(data) == len(ARRAYS):
        return dict(zip(ARRAYS, data, strict=True))
    kind = type(data).__name__
    if isinstance(data, tuple | list):
        kind = f"{kind} of {len(data)}"
    raise ConfigError(f"{name} returns a {kind}, not a Pool, ({', '.join(ARRAYS)}), or a dictionary of these")


def _check_keys(name: str, keys: Sequence[str]) -> None:
    for key in keys:
        if key not in (*ARRAYS, *MORE):
            raise ConfigError(f"{name} returns a dictionary: {nearest(key[:40], (*ARRAYS, *MORE), 'key')}")
    lacking = [key for key in ARRAYS if key not in keys]
    if lacking:
        raise ConfigError(f"{name} returns a dictionary without {', '.join(lacking)}")


def _tensor(name: str, part: str, values: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{name}: {part} is no array of numbers: {error}") from None
    # A copy: the caller may go on to change its array.
    return tensor.detach().cpu().clone()


def _inputs(name: str, part: str, values: Any) -> Tensor:
    """Return inputs: images of bytes as they are, all else as float32."""
    inputs = _tensor(name, part, values)
    if inputs.is_complex():
        raise ConfigError(f"{name}: {part} holds complex numbers")
    if inputs.dtype == torch.uint8 and inputs.ndim == 4:
        return inputs
    inputs = inputs.to(torch.float32)
    if not bool(torch.isfinite(inputs).all()):
        raise ConfigError(f"{name}: {part} holds numbers that are not finite in float32")
    return inputs


def _whole_numbers(name: str, part: str, values: Any) -> Tensor:
    numbers = _tensor(name, part, values)
    if numbers.is_floating_point() or numbers.is_complex():
        raise ConfigError(f"{name}: {part} must be whole numbers, not {_kind(numbers)}; a regression needs a Pool")
    if numbers.ndim != 1:
        raise ConfigError(f"{name}: {part} must be one number per example, not of shape {_by(numbers)}")
    return numbers.to(torch.int64)


def _check_shapes(name: str, train: Tensor, test: Tensor) -> None:
    if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise ConfigError(
            f"{name}: x_train is {_by(train)} {_kind(train)}, x_test {_by(test)} {_kind(test)}; but for the number of "
            "examples they must be alike"
        )
    is_square = train.ndim == 4 and train.shape[2] == train.shape[3]
    if (train.ndim != 2 and not is_square) or 0 in train.shape[1:]:
        raise ConfigError(
            f"{name}: x_train must be N x features or N x channels x side x side, not {_by(train)}; return a Pool for "
            "other data"
        )


def _check_counts(name: str, parts: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    for part, (inputs, targets) in parts.items():
        if len(inputs) != len(targets):
            raise ConfigError(f"{name}: x_{part} has {len(inputs)} examples, y_{part} {len(targets)}")
        if not len(inputs):
            raise ConfigError(f"{name}: x_{part} has no examples")


def _classes(name: str, given: Any, class_names: Sequence[str], targets: Tensor) -> int:
    """Return the number of classes: as it is given, or one more than the largest target."""
    largest = int(targets.max())
    classes = given if given is not None else len(class_names) or largest + 1
    if isinstance(classes, bool) or not isinstance(classes, int):
        raise ConfigError(f"{name}: classes must be a whole number, not {classes!r:.40}")
    if int(targets.min()) < 0 or largest >= classes:
        raise ConfigError(f"{name}: y_train and y_test must be from 0 to {classes - 1}, the number of classes less one")
    return classes


def _facts(inputs: Tensor) -> dict[str, int]:
    if inputs.ndim == 2:
        return {"in_features": inputs.shape[1]}
    return {"in_channels": inputs.shape[1], "image_size": inputs.shape[2]}


def _default_model(facts: Mapping[str, int]) -> str:
    side = facts.get("image_size", 0)
    for smallest, model in SMALLEST.items():
        if side >= smallest:
            return model
    return "mlp"


def _prepare(inputs: Tensor) -> Normalise | None:
    """Return what brings images of bytes to 0 to 1."""
    if inputs.dtype != torch.uint8:
        return None
    channels = inputs.shape[1]
    return Normalise((0.0,) * channels, (1.0,) * channels)


def _groups(name: str, owners: Any) -> dict[str, Tensor]:
    if owners is None:
        return {}
    return {"client": _whole_numbers(name, "client", owners)}


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _by(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"
