"""A model is one vector: parameters and gradients as views of flat tensors, whatever the module.

Order inside the vector: first what is shared with the server, then what stays on the client. Convolution
weights are stored channels-last, which is how the convolutions want them. Both are private to this file:
`to_public` and `from_public` translate to `model.parameters()` order.

Tied parameters appear once (they are one `Parameter`), frozen ones (`requires_grad=False`) not at all.
Buffers (BatchNorm statistics) are small vectors that are copied in and out: real ones, and whole numbers.
"""

from __future__ import annotations

import fnmatch
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from flatfed.core.errors import ConfigError, nearest

BUFFERS, COUNTERS = "buffers", "counters"
"""Names of the shared buffers in messages: real ones, which are averaged, and whole numbers, which are copied."""

LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS = "local_parameters", "local_buffers", "local_counters"
"""Names of the local parts in a client's state."""


@dataclass(frozen=True)
class Local:
    """Parts that stay on the client: all inside modules of some type, or by name pattern (`head.*`).

    With `buffers_only` just their buffers stay.
    """

    types: tuple[type[nn.Module], ...] = ()
    names: tuple[str, ...] = ()
    buffers_only: bool = False

    def matches(self, name: str, owners: Sequence[nn.Module], is_buffer: bool) -> bool:
        """Say whether the tensor `name`, inside the modules `owners`, stays on the client."""
        if self.buffers_only and not is_buffer:
            return False
        return any(isinstance(o, self.types) for o in owners) or any(fnmatch.fnmatchcase(name, p) for p in self.names)

    @staticmethod
    def named(name: str, model: nn.Module) -> Local:
        """Return the parts called `bn` (FedBN: BatchNorm layers) or `bn-stats` (SiLoBN: their statistics alone)."""
        if name not in LOCAL_PARTS:
            raise ConfigError(nearest(name, LOCAL_PARTS, "kind of local parts"))
        if not any(isinstance(module, LOCAL_PARTS[name].types) for module in model.modules()):
            warnings.warn(
                f"local parts {name!r}: the model has no BatchNorm layer, so all of it is shared", stacklevel=4
            )
        return LOCAL_PARTS[name]


LOCAL_PARTS = {"bn": Local(types=(_BatchNorm,)), "bn-stats": Local(types=(_BatchNorm,), buffers_only=True)}


@dataclass(frozen=True)
class Piece:
    """One tensor of the model and where it lies in its vector."""

    name: str
    shape: tuple[int, ...]
    offset: int
    local: bool
    channels_last: bool = False

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def view(self, flat: Tensor) -> Tensor:
        """Return this tensor as a view of the vector."""
        part = flat[self.offset : self.offset + self.size]
        if not self.channels_last:
            return part.view(self.shape)
        out, channels, height, width = self.shape
        return part.view(out, height, width, channels).permute(0, 3, 1, 2)


class Layout:
    """Where each parameter and buffer of `model` lies in the flat vectors."""

    def __init__(self, model: nn.Module, local: Local | None = None) -> None:
        local = local or Local()
        trainable = [(n, o, p) for n, o, p in _named(model, "parameters") if p.requires_grad]
        if not trainable:
            raise ConfigError("the model has no trainable parameter; set requires_grad=True on some of them")
        for name, _, tensor in trainable:
            if not tensor.is_floating_point():
                raise ConfigError(f"parameter {name!r} has type {tensor.dtype}; only real floating point is supported")
        buffers = _named(model, "buffers")
        moving = [(n, o, b) for n, o, b in buffers if _moves(n, o, b)]
        self.order = tuple(name for name, _, _ in trainable)
        modules = dict(model.named_modules())
        self.parameters = _pieces(trainable, local, modules, is_buffer=False)
        self.buffers = _pieces([m for m in moving if m[2].is_floating_point()], local, modules, is_buffer=True)
        self.counters = _pieces([m for m in moving if not m[2].is_floating_point()], local, modules, is_buffer=True)
        self.size = sum(p.size for p in self.parameters)
        self.shared = sum(p.size for p in self.parameters if not p.local)
        self.shared_buffers = sum(p.size for p in self.buffers if not p.local)
        self.shared_counters = sum(p.size for p in self.counters if not p.local)
        _refuse_idle(local, [name for name, _, _ in trainable + buffers])
        if self.shared == 0:
            raise ConfigError("every trainable parameter is declared local; nothing is left to share")

    def bind(self, model: nn.Module) -> Tensor:
        """Move the parameters of `model` into one new vector, make them views of it, and return it."""
        flat, tensors = self.read(model), _tensors(model, "parameters")
        for piece in self.parameters:
            tensors[piece.name].data = piece.view(flat)
        return flat

    def read(self, model: nn.Module) -> Tensor:
        """Return the parameters of `model` as a new vector, the model left as it is."""
        modules = _tensors(model, "parameters")
        first = modules[self.parameters[0].name]
        flat = torch.empty(self.size, dtype=first.dtype, device=first.device)
        for piece in self.parameters:
            piece.view(flat).copy_(modules[piece.name].detach())
        return flat

    def write(self, flat: Tensor, model: nn.Module) -> None:
        """Copy a vector into the parameters of `model`."""
        modules = _tensors(model, "parameters")
        for piece in self.parameters:
            modules[piece.name].data.copy_(piece.view(flat))

    def read_buffers(self, model: nn.Module, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the moving buffers of `model` as new vectors: the real ones, and the counters."""
        tensors = _tensors(model, "buffers") if self.buffers or self.counters else {}
        return _gather(self.buffers, tensors, dtype), _gather(self.counters, tensors, torch.int64)

    def write_buffers(self, buffers: Tensor, counters: Tensor, model: nn.Module) -> None:
        """Copy such vectors into the moving buffers of `model`."""
        tensors = _tensors(model, "buffers") if self.buffers or self.counters else {}
        for pieces, flat in ((self.buffers, buffers), (self.counters, counters)):
            for piece in pieces:
                tensors[piece.name].copy_(piece.view(flat))

    def weight_mask(self) -> Tensor:
        """Return True on entries of tensors whose name contains `weight`."""
        mask = torch.zeros(self.size, dtype=torch.bool)
        for piece in self.parameters:
            mask[piece.offset : piece.offset + piece.size] = "weight" in piece.name
        return mask

    def to_public(self, flat: Tensor) -> Tensor:
        """Return a vector of this layout, or of its shared part, in `model.parameters()` order."""
        return torch.cat([p.view(flat).reshape(-1) for p in self._public() if p.offset + p.size <= flat.numel()])

    def local_to_public(self, flat: Tensor) -> Tensor:
        """Return a vector of the local part alone in `model.parameters()` order."""
        whole = torch.cat([flat.new_zeros(self.shared), flat])
        return torch.cat([p.view(whole).reshape(-1) for p in self._public() if p.local])

    def from_public(self, vector: Tensor) -> Tensor:
        """Undo `to_public` for a full vector."""
        if vector.numel() != self.size:
            raise ConfigError(f"the model has {self.size} trainable parameters, the vector {vector.numel()}")
        flat, offset = torch.empty_like(vector), 0
        for piece in self._public():
            piece.view(flat).copy_(vector[offset : offset + piece.size].view(piece.shape))
            offset += piece.size
        return flat

    def _public(self) -> list[Piece]:
        by_name = {piece.name: piece for piece in self.parameters}
        return [by_name[name] for name in self.order]


def _moves(name: str, owner: nn.Module, buffer: Tensor) -> bool:
    """Say whether a buffer takes part in the federation: transient ones and constants such as -inf masks do not."""
    transient = name.rpartition(".")[2] in owner._non_persistent_buffers_set
    return not transient and not buffer.is_complex() and bool(torch.isfinite(buffer).all())


def _gather(pieces: Sequence[Piece], tensors: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    flat = torch.empty(sum(p.size for p in pieces), dtype=dtype)
    for piece in pieces:
        piece.view(flat).copy_(tensors[piece.name])
    return flat


def _named(model: nn.Module, kind: str) -> list[tuple[str, nn.Module, Tensor]]:
    """Return (name, owning module, tensor) of each distinct parameter or buffer, in model order."""
    found: list[tuple[str, nn.Module, Tensor]] = []
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        own: Iterable[tuple[str, Tensor | None]] = getattr(module, f"_{kind}").items()
        for name, tensor in own:
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                found.append((f"{prefix}.{name}" if prefix else name, module, tensor))
    return found


def _tensors(model: nn.Module, kind: str) -> dict[str, Tensor]:
    return {name: tensor for name, _, tensor in _named(model, kind)}


def _pieces(
    named: Sequence[tuple[str, nn.Module, Tensor]], local: Local, modules: dict[str, nn.Module], is_buffer: bool
) -> tuple[Piece, ...]:
    """Lay the tensors out: shared ones first, then local ones, each group in model order."""
    marked = [(n, o, t, local.matches(n, _around(n, modules), is_buffer)) for n, o, t in named]
    pieces, offset = [], 0
    for name, owner, tensor, is_local in sorted(marked, key=lambda entry: entry[3]):
        last = not is_buffer and tensor.ndim == 4 and isinstance(owner, nn.Conv2d)
        pieces.append(Piece(name, tuple(tensor.shape), offset, is_local, last))
        offset += tensor.numel()
    return tuple(pieces)


def _around(name: str, modules: dict[str, nn.Module]) -> list[nn.Module]:
    """Return the modules that a tensor lies in, from the model to its owner."""
    parts = name.split(".")[:-1]
    return [modules[".".join(parts[:depth])] for depth in range(len(parts) + 1)]


def _refuse_idle(local: Local, names: Sequence[str]) -> None:
    """Refuse a name pattern that matches nothing: most likely it is misspelt."""
    for pattern in local.names:
        if not fnmatch.filter(names, pattern):
            raise ConfigError(f"no parameter or buffer is called {pattern!r}; there are {', '.join(names[:6])} ...")
