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
"""Names of the local layers in a client's state."""

Named = tuple[str, nn.Module, Tensor]
"""A tensor of a model: its name, the module that it belongs to, and the tensor itself."""


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
        inside = any(isinstance(owner, self.types) for owner in owners)
        return inside or self._is_named(name)

    def _is_named(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.names)

    @staticmethod
    def named(name: str, model: nn.Module) -> Local:
        """Return the parts called `bn` (FedBN: BatchNorm layers) or `bn-stats` (SiLoBN: their statistics alone)."""
        if name not in LOCAL_LAYERS:
            raise ConfigError(nearest(name, LOCAL_LAYERS, "kind of local layers"))
        if not any(isinstance(module, LOCAL_LAYERS[name].types) for module in model.modules()):
            warnings.warn(
                f"local layers {name!r}: the model has no BatchNorm layer, so all of it is shared", stacklevel=4
            )
        return LOCAL_LAYERS[name]


LOCAL_LAYERS = {"bn": Local(types=(_BatchNorm,)), "bn-stats": Local(types=(_BatchNorm,), buffers_only=True)}


@dataclass(frozen=True)
class Segment:
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

    @property
    def end(self) -> int:
        """Where the next tensor begins."""
        return self.offset + self.size

    def view(self, flat: Tensor) -> Tensor:
        """Return this tensor as a view of the vector."""
        part = flat[self.offset : self.end]
        if not self.channels_last:
            return part.view(self.shape)
        out, channels, height, width = self.shape
        return part.view(out, height, width, channels).permute(0, 3, 1, 2)


class Layout:
    """Where each parameter and buffer of `model` lies in the flat vectors."""

    def __init__(self, model: nn.Module, local: Local | None = None) -> None:
        local = local or Local()
        trainable = _trainable(model)
        buffers = _named(model, "buffers")
        real, whole = _moving(buffers)
        self.order = tuple(name for name, _, _ in trainable)
        modules = dict(model.named_modules())
        self.parameters = _segments(trainable, local, modules, is_buffer=False)
        self.buffers = _segments(real, local, modules, is_buffer=True)
        self.counters = _segments(whole, local, modules, is_buffer=True)
        self.size = _size(self.parameters)
        self.shared = _size(_shared(self.parameters))
        self.shared_tensors = len(_shared(self.parameters))
        self.shared_buffers = _size(_shared(self.buffers))
        self.shared_counters = _size(_shared(self.counters))
        _refuse_idle(local, [name for name, _, _ in trainable + buffers])
        if self.shared == 0:
            raise ConfigError("every trainable parameter is declared local; nothing is left to share")

    def bind(self, model: nn.Module) -> Tensor:
        """Move the parameters of `model` into one new vector, make them views of it, and return it."""
        flat, tensors = self.read(model), _tensors(model, "parameters")
        for segment in self.parameters:
            # Through `.data`: the Parameter stays the same object, so that all modules that share it see the vector.
            tensors[segment.name].data = segment.view(flat)
        return flat

    def read(self, model: nn.Module) -> Tensor:
        """Return the parameters of `model` as a new vector, the model left as it is."""
        modules = _tensors(model, "parameters")
        first = modules[self.parameters[0].name]
        flat = torch.empty(self.size, dtype=first.dtype, device=first.device)
        for segment in self.parameters:
            segment.view(flat).copy_(modules[segment.name].detach())
        return flat

    def write(self, flat: Tensor, model: nn.Module) -> None:
        """Copy a vector into the parameters of `model`."""
        modules = _tensors(model, "parameters")
        for segment in self.parameters:
            modules[segment.name].data.copy_(segment.view(flat))

    def read_buffers(self, model: nn.Module, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the moving buffers of `model` as new vectors: the real ones, and the counters."""
        tensors = self._buffer_tensors(model)
        return _gather(self.buffers, tensors, dtype), _gather(self.counters, tensors, torch.int64)

    def write_buffers(self, buffers: Tensor, counters: Tensor, model: nn.Module) -> None:
        """Copy such vectors into the moving buffers of `model`."""
        tensors = self._buffer_tensors(model)
        _scatter(self.buffers, buffers, tensors)
        _scatter(self.counters, counters, tensors)

    def _buffer_tensors(self, model: nn.Module) -> dict[str, Tensor]:
        # Most models have no moving buffer: walking through their modules in every round would cost time.
        return _tensors(model, "buffers") if self.buffers or self.counters else {}

    def weight_mask(self) -> Tensor:
        """Return True on entries of tensors whose name contains `weight`."""
        mask = torch.zeros(self.size, dtype=torch.bool)
        for segment in self.parameters:
            mask[segment.offset : segment.end] = "weight" in segment.name
        return mask

    def to_public(self, flat: Tensor) -> Tensor:
        """Return a vector of this layout, or of its shared part, in `model.parameters()` order."""
        # Shared segments lie first, so a vector of the shared part holds exactly those that end within it.
        inside = [segment for segment in self._public() if segment.end <= flat.numel()]
        return torch.cat([segment.view(flat).reshape(-1) for segment in inside])

    def local_to_public(self, flat: Tensor) -> Tensor:
        """Return a vector of the local part alone in `model.parameters()` order."""
        # Offsets are those of the whole vector, so the local part must lie where it does there.
        whole = torch.cat([flat.new_zeros(self.shared), flat])
        return torch.cat([segment.view(whole).reshape(-1) for segment in self._public() if segment.local])

    def from_public(self, vector: Tensor) -> Tensor:
        """Undo `to_public` for a full vector."""
        if vector.numel() != self.size:
            raise ConfigError(f"the model has {self.size} trainable parameters, the vector {vector.numel()}")
        flat, offset = torch.empty_like(vector), 0
        for segment in self._public():
            segment.view(flat).copy_(vector[offset : offset + segment.size].view(segment.shape))
            offset += segment.size
        return flat

    def _public(self) -> list[Segment]:
        by_name = {segment.name: segment for segment in self.parameters}
        return [by_name[name] for name in self.order]


def _moves(name: str, owner: nn.Module, buffer: Tensor) -> bool:
    """Say whether a buffer takes part in the federation: transient ones and constants such as -inf masks do not."""
    transient = name.rpartition(".")[2] in owner._non_persistent_buffers_set
    return not transient and not buffer.is_complex() and bool(torch.isfinite(buffer).all())


def _trainable(model: nn.Module) -> list[Named]:
    """Return the parameters that are trained; a model without any, or with one that is not real, is refused."""
    trainable = [entry for entry in _named(model, "parameters") if entry[2].requires_grad]
    if not trainable:
        raise ConfigError("the model has no trainable parameter; set requires_grad=True on some of them")
    for name, _, tensor in trainable:
        if not tensor.is_floating_point():
            raise ConfigError(f"parameter {name!r} has type {tensor.dtype}; only real floating point is supported")
    return trainable


def _moving(buffers: Sequence[Named]) -> tuple[list[Named], list[Named]]:
    """Return the buffers that take part: those of real numbers, and those of whole ones."""
    moving = [entry for entry in buffers if _moves(*entry)]
    real = [entry for entry in moving if entry[2].is_floating_point()]
    whole = [entry for entry in moving if not entry[2].is_floating_point()]
    return real, whole


def _size(segments: Sequence[Segment]) -> int:
    return sum(segment.size for segment in segments)


def _shared(segments: Sequence[Segment]) -> list[Segment]:
    return [segment for segment in segments if not segment.local]


def _gather(segments: Sequence[Segment], tensors: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    flat = torch.empty(_size(segments), dtype=dtype)
    for segment in segments:
        segment.view(flat).copy_(tensors[segment.name])
    return flat


def _scatter(segments: Sequence[Segment], flat: Tensor, tensors: dict[str, Tensor]) -> None:
    for segment in segments:
        tensors[segment.name].copy_(segment.view(flat))


def _named(model: nn.Module, kind: str) -> list[Named]:
    """Return (name, owning module, tensor) of each distinct parameter or buffer, in model order."""
    entries: list[Named] = []
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        own: Iterable[tuple[str, Tensor | None]] = getattr(module, f"_{kind}").items()
        for name, tensor in own:
            if tensor is None or id(tensor) in seen:  # a tied one lies where it came first
                continue
            seen.add(id(tensor))
            path = f"{prefix}.{name}" if prefix else name
            entries.append((path, module, tensor))
    return entries


def _tensors(model: nn.Module, kind: str) -> dict[str, Tensor]:
    return {name: tensor for name, _, tensor in _named(model, kind)}


def _segments(
    named: Sequence[Named], local: Local, modules: dict[str, nn.Module], is_buffer: bool
) -> tuple[Segment, ...]:
    """Lay the tensors out: shared ones first, then local ones, each group in model order."""
    is_local = {name: local.matches(name, _around(name, modules), is_buffer) for name, _, _ in named}
    segments: list[Segment] = []
    offset = 0
    # What is shared then is a slice from the front, and the stable sort leaves both groups in model order.
    for name, owner, tensor in sorted(named, key=lambda entry: is_local[entry[0]]):
        # Four dimensions alone say nothing: those of another module need not be channels and pixels.
        channels_last = not is_buffer and tensor.ndim == 4 and isinstance(owner, nn.Conv2d)
        segments.append(Segment(name, tuple(tensor.shape), offset, is_local[name], channels_last))
        offset += tensor.numel()
    return tuple(segments)


def _around(name: str, modules: dict[str, nn.Module]) -> list[nn.Module]:
    """Return the modules that a tensor lies in, from the model to its owner."""
    parts = name.split(".")[:-1]
    return [modules[".".join(parts[:depth])] for depth in range(len(parts) + 1)]


def _refuse_idle(local: Local, names: Sequence[str]) -> None:
    """Refuse a name pattern that matches nothing: most likely it is misspelt."""
    for pattern in local.names:
        if not fnmatch.filter(names, pattern):
            raise ConfigError(f"no parameter or buffer is called {pattern!r}; there are {', '.join(names[:6])} ...")
