"""Models of which a part stays on the clients: there is no one model to write."""

from __future__ import annotations

from flatfed.core.errors import PARAMETER, ConfigError, listed
from flatfed.core.task.task import Task


def local_names(task: Task) -> list[str]:
    """Return the names of the parameters and buffers that stay on the clients."""
    layout = task.layout()
    return [piece.name for piece in (*layout.parameters, *layout.buffers, *layout.counters) if piece.local]


def refuse_local_layers(task: Task) -> None:
    """Refuse a model that nobody has as a whole: name a client, and it is that client's."""
    names = local_names(task)
    if names:
        raise ConfigError(
            f"{len(names)} tensors of the model stay on the clients ({listed(names[:3])} ...), and the server has "
            f"none; take the model of one client with {PARAMETER} K",
            parameter="client",
        )
