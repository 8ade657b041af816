"""The state of a federation in a checkpoint: the server's tensors, and what is kept per client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flatfed.core.errors import CheckpointError
from flatfed.core.method.state import ClientStore, State
from flatfed.core.round.federation import Federation


def tensors_of(federation: Federation) -> dict[str, Tensor]:
    """Return the server's tensors for a checkpoint."""
    server = federation.server
    return {
        "w": server.w,
        **_prefixed("buffers", server.buffers),
        **_prefixed("server", server.kept.tensors()),
        **_prefixed("average", federation.average_kept.tensors()),
    }


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def restore(federation: Federation, round: int, tensors: dict[str, Tensor], states: dict[str, Any]) -> None:
    """Put a checkpoint's contents into a fresh federation."""
    # All are checked before the first is put in place, so that no federation is restored by half.
    for name, expected in tensors_of(federation).items():
        _check_fits(name, tensors.get(name), expected)
    server = federation.server
    server.w = tensors["w"]
    server.buffers = {name: tensors[f"buffers/{name}"] for name in server.buffers}
    _fill("server", server.kept, tensors)
    _fill("average", federation.average_kept, tensors)
    for name, store in stores_of(federation).items():
        for client, entries in states.get(name, {}).items():
            store.write(client, State(entries))
        store.take_changed()  # they are in the checkpoint: only what changes from now on is saved again
    federation.round = round


def _check_fits(name: str, tensor: Tensor | None, expected: Tensor) -> None:
    if tensor is None or tensor.shape != expected.shape or tensor.dtype != expected.dtype:
        raise CheckpointError(f"the checkpoint's {name!r} does not fit this task; was the model changed?")


def _fill(prefix: str, state: State, tensors: Mapping[str, Tensor]) -> None:
    for name in state:
        setattr(state, name, tensors[f"{prefix}/{name}"])


def stores_of(federation: Federation) -> dict[str, ClientStore]:
    """Return the stores whose clients' states go into a checkpoint."""
    return {"clients": federation.clients, "records": federation.records}
