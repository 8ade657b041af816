"""The task on its way to the nodes: its tensors lie once in each node's object store, and are only read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

Parts = tuple[np.ndarray[Any, Any], str, tuple[int, ...]]


@contextmanager
def tensors_as_arrays() -> Iterator[None]:
    """Let Ray send tensors as arrays, which all processes of a node read in place where pickles would be copied."""
    from ray.util import deregister_serializer

    keep_tensors_as_arrays()
    try:
        yield
    finally:
        deregister_serializer(Tensor)


def keep_tensors_as_arrays() -> None:
    """Do the same for the rest of this process: what a function returns is sent when it has ended."""
    from ray.util import register_serializer

    register_serializer(Tensor, serializer=_to_array, deserializer=_from_array)


def _to_array(tensor: Tensor) -> Parts:
    """Return a tensor as bytes, its type and its shape: NumPy does not know all types of torch."""
    plain = tensor.detach().cpu().contiguous()
    name = str(plain.dtype).removeprefix("torch.")
    return plain.reshape(-1).view(torch.uint8).numpy(), name, tuple(plain.shape)


def _from_array(parts: Parts) -> Tensor:
    array, name, shape = parts
    if not array.size:
        return torch.empty(shape, dtype=getattr(torch, name))
    with warnings.catch_warnings():
        # The memory is the object store's and cannot be written: examples never are.
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(array)
    return tensor.view(getattr(torch, name)).reshape(shape)


def as_array(data: bytes) -> np.ndarray[Any, Any]:
    """Return bytes as an array: Ray then keeps them outside of its pickle, and copies them once."""
    return np.frombuffer(data, dtype=np.uint8)
