"""Messages: named vectors plus a few scalars, the only way between server and client.

Bytes are counted from them, and the wire format (safetensors, never pickle) is made from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from flatfed.core.errors import FlatfedError

SCALAR_BYTES = 8


class Message:
    """Named vectors and scalars: `Message(w=server.w, c=0.5)`; read them as `message.w` and `message.scalars["c"]`."""

    __slots__ = ("scalars", "vectors")

    def __init__(self, /, **contents: Tensor | float) -> None:
        vectors: dict[str, Tensor] = {}
        self.vectors: Mapping[str, Tensor] = vectors
        self.scalars: dict[str, float] = {}
        for name, value in contents.items():
            if isinstance(value, Tensor) and value.ndim:
                vectors[name] = value
            else:
                self.scalars[name] = float(value)

    @classmethod
    def of(cls, vectors: Mapping[str, Tensor], scalars: Mapping[str, float] | None = None) -> Message:
        """Return a message of these vectors and scalars."""
        return cls(**vectors, **(scalars or {}))

    @classmethod
    def stored(cls, vectors: Mapping[str, Tensor], scalars: dict[str, float]) -> Message:
        """Return a message whose vectors lie elsewhere: each is read when it is asked for."""
        message = cls()
        message.vectors, message.scalars = vectors, scalars
        return message

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self.vectors[name]
        except KeyError:
            raise AttributeError(f"this message holds no vector {name!r}, only {sorted(self.vectors)}") from None

    def __getstate__(self) -> Any:
        raise TypeError("messages are never pickled; use to_bytes()")

    def __contains__(self, name: str) -> bool:
        return name in self.vectors or name in self.scalars

    def __or__(self, other: Message) -> Message:
        """Return both messages as one; the right one wins where names meet."""
        if not other:
            return Message(**self.contents)
        return Message(**(self.contents | other.contents))

    def copy(self) -> Message:
        """Return a message with vectors of its own."""
        return Message.of({name: vector.clone() for name, vector in self.vectors.items()}, self.scalars)

    def to(self, device: torch.device) -> Message:
        """Return the message with its vectors on a device; itself where they are there."""
        if all(vector.device.type == device.type for vector in self.vectors.values()):
            return self
        return Message.of({name: vector.to(device) for name, vector in self.vectors.items()}, self.scalars)

    def __bool__(self) -> bool:
        return bool(self.vectors or self.scalars)

    @property
    def contents(self) -> dict[str, Tensor | float]:
        """Vectors and scalars in one dictionary."""
        return {**self.vectors, **self.scalars}

    @property
    def nbytes(self) -> int:
        """Bytes that cross: every vector in full, eight for each scalar."""
        vectors = sum(v.numel() * v.element_size() for v in self.vectors.values())
        return vectors + SCALAR_BYTES * len(self.scalars)

    def to_bytes(self) -> bytes:
        """Return the wire form: one safetensors file whose metadata carries the scalars."""
        # JSON's float text is exact: it reads back to the same bits.
        return pack(self.vectors, {"scalars": json.dumps(self.scalars)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """Read the wire form; damaged or foreign bytes are an error, never code that runs."""
        try:
            metadata, vectors = metadata_of(data), unpack(data)
            scalars = {str(k): float(v) for k, v in json.loads(metadata["scalars"]).items()}
            return cls.of(vectors, scalars)
        except Exception as error:  # whatever forged bytes bring about, they are not a message
            raise FlatfedError(f"these bytes are not a flatfed message: {error}") from None


def pack(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return tensors as the bytes of a safetensors file; each is written in full, also where two share memory."""
    whole: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage().data_ptr()
        # safetensors refuses to save two tensors that share memory.
        whole[name] = (tensor.clone() if storage in storages else tensor).detach().contiguous()
        storages.add(storage)
    return safetensors.torch.save(whole, metadata=metadata)


def unpack(data: bytes) -> dict[str, Tensor]:
    """Read the bytes of a safetensors file."""
    return safetensors.torch.load(data)


def metadata_of(data: bytes, limit: int | None = None) -> dict[str, str]:
    """Return the metadata of the bytes of a safetensors file, whose header has at most `limit` bytes."""
    # The library gives no metadata of bytes: a file begins with the length of its header, which is JSON.
    size = int.from_bytes(data[:8], "little")
    if limit is not None and size > limit:
        raise FlatfedError(f"a header of {size:,} bytes, above the bound {limit:,}")
    return dict(json.loads(data[8 : 8 + size])["__metadata__"])
