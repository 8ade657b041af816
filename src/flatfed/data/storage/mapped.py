"""Room for many examples: in memory, or in a memory-mapped file where they are large.

All processes on a machine share the pages of such a file, and the system may let them go under pressure and read them
again. The file has no name once it is mapped, so that it cannot be left behind; it lies in the temporary directory.
"""

from __future__ import annotations

import math
import mmap
import tempfile

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.machine import reserve

LARGE = 256 * 2**20
"""Bytes from which on examples lie in a mapped file."""


def room_for(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor of this shape."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return torch.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile() as file:
        try:
            # Reserved now: on a disk that is full a write into the mapping would end the process.
            reserve(file.fileno(), size)
            mapping = mmap.mmap(file.fileno(), size)
        except OSError as error:
            where = tempfile.gettempdir()
            raise ConfigError(
                f"there is no room for {size / 2**30:.1f} GB of decoded images in {where}: {error.strerror}; set "
                "TMPDIR to a folder with room, or use smaller images (data.size) or less memory (data.memory)"
            ) from None
    return torch.frombuffer(mapping, dtype=dtype).view(shape)
