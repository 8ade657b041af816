"""Configuration classes by id: what a new file enters itself into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from flatfed.core.errors import ConfigError, nearest

C = TypeVar("C")


class Registry(dict[str, type[C]]):
    """Configuration classes by id."""

    def __init__(self, kind: str, old_ids: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.kind = kind
        self.old_ids = dict(old_ids or {})
        """Ids of earlier versions, which run directories may still hold."""

    def register(self, cls: Any, id: str) -> None:
        """Enter `cls` under `id`; two classes may not share one."""
        other: Any = self.get(id)
        # A class of the same module and name is the same one, defined again: a reloaded module or a cell of a notebook.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"the {self.kind} id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        cls.id = id
        self[id] = cls

    def find(self, id: str) -> type[C]:
        """Return the class registered under `id`, or an error that names the nearest ones."""
        id = self.old_ids.get(id, id)
        if id not in self:
            raise ConfigError(nearest(id, self, self.kind))
        return self[id]

    def make(self, id: str, **values: Any) -> C:
        """Return the configuration `id` with these parameters."""
        return self.find(id)(**values)

    def from_dict(self, data: Mapping[str, Any]) -> C:
        """Undo `Config.to_dict`; a nested configuration is made by the family that its parameter names."""
        values = {name: value for name, value in data.items() if name != "id"}
        return self.make(str(data["id"]), **values)
