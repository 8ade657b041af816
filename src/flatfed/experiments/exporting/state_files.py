"""A model's parameters and buffers under the names of its `state_dict`: safetensors, or PyTorch's own file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.runs.records.files import replace_file

SIZE = 8
"""Bytes in which a safetensors file says how long its header is."""


def write_safetensors(exported: ExportedModel, path: Path) -> None:
    """Write a safetensors file, with the facts of the run and the names of the classes in its header."""
    names = {"class_names": json.dumps(exported.class_names)} if exported.class_names else {}
    header = {"format": "pt", **exported.facts(), **names}
    replace_file(path, _in_order(safetensors.torch.save(exported.tensors(), metadata=header)))


def _in_order(data: bytes) -> bytes:
    """Return a safetensors file with its facts in order: the library writes them in another one each time."""
    end = SIZE + int.from_bytes(data[:SIZE], "little")
    header = json.loads(data[SIZE:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % SIZE)  # tensors begin where eight divides
    return len(text).to_bytes(SIZE, "little") + text + data[end:]


def write_torch(exported: ExportedModel, path: Path) -> None:
    """Write a state_dict that `torch.load(path, weights_only=True)` reads."""
    memory = io.BytesIO()
    # A plain dictionary: what is more than tensors by name would not be read with `weights_only`.
    state: dict[str, Any] = exported.tensors()
    torch.save(state, memory)
    replace_file(path, memory.getvalue())
