"""Classes by id. Every module of a package is imported, so that a new file enters what it holds."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from flatfed.core.errors import ConfigError, nearest


def import_all(package: str, path: Iterable[str], kind: str) -> None:
    """Import the modules of a package; one that fails is an error that names it and what is wrong with it."""
    for name in module_names(package, path):
        import_one(name, kind)


def module_names(package: str, path: Iterable[str]) -> list[str]:
    """Return the names of all modules below a package, none of them imported yet but for the packages."""
    names: list[str] = []
    for module in pkgutil.iter_modules(path, f"{package}."):
        names.append(module.name)
        if module.ispkg:
            names += _names_within(module.name)
    return names


def _names_within(package: str) -> list[str]:
    """Return the names of the modules of an inner package; of one that cannot be imported there are none."""
    try:
        inner = importlib.import_module(package)
    except Exception:  # a package may fail in any way; `import_one` says how, as it is itself one of the names
        return []
    return module_names(package, inner.__path__)


def import_one(name: str, kind: str) -> None:
    """Import a module; where it fails, the error names it and what is wrong with it."""
    try:
        importlib.import_module(name)
    except Exception as error:  # a module may fail in any way
        why = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {why}" if why else type(error).__name__
        raise ConfigError(f"the {kind} module {name} cannot be imported ({reason}); mend or remove it") from error


ID = re.compile(r"[^\W\d][\w.-]*")
"""What can be written where a name is read, also beside a `+` or with brackets after it."""

C = TypeVar("C")

FAMILIES: dict[str, Registry[Any]] = {}
"""Every family that there is, by what a member of it is called."""


class Registry(dict[str, type[C]]):
    """Configuration classes by id."""

    def __init__(self, kind: str, old_ids: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.kind = kind
        FAMILIES[kind] = self
        self.old_ids = dict(old_ids or {})
        """Ids of earlier versions, which run directories may still hold."""

    def register(self, cls: Any, id: str) -> None:
        """Enter `cls` under `id`; two classes may not share one."""
        if not ID.fullmatch(id):
            raise ConfigError(
                f"{cls.__module__}.{cls.__qualname__}: {id!r:.60} cannot be an id; it begins with a letter, and has "
                "letters, digits, - and _"
            )
        other: Any = self.get(id)
        # A class of the same module and name is the same one, defined again: a reloaded module or a cell of a notebook.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(
                f"{cls.__module__}.{cls.__qualname__}: the {self.kind} id {id!r} is taken by "
                f"{other.__module__}.{other.__qualname__}; give it another id"
            )
        cls.id = id
        self[id] = cls

    def is_member(self, thing: Any) -> bool:
        """Say whether something is a class of this family, and not the family itself."""
        if not isinstance(thing, type):
            return False
        return getattr(thing, "registry", None) is self and "registry" not in vars(thing)

    def find(self, id: str) -> type[C]:
        """Return the class registered under `id`, or an error that names the nearest ones."""
        id = self.old_ids.get(id, id)
        if id not in self:
            raise ConfigError(nearest(id, self, self.kind))
        return self[id]

    def make(self, id: str, **values: Any) -> C:
        """Return the configuration `id` with these parameters."""
        return self.made(self.find(id), **values)

    def made(self, cls: type[C], **values: Any) -> C:
        """Return a configuration of this class; a parameter without a default that is not given is an error."""
        missing = [name for name in required_parameters(cls) if name not in values]
        if missing:
            raise ConfigError(f"{self.kind} {getattr(cls, 'id', cls.__name__)} needs {', '.join(missing)}")
        return cls(**values)

    def from_dict(self, data: Mapping[str, Any]) -> C:
        """Undo `Config.to_dict`; a nested configuration is made by the family that its parameter names."""
        values = {name: value for name, value in data.items() if name != "id"}
        return self.make(str(data["id"]), **values)


def required_parameters(cls: Any) -> list[str]:
    """Return the parameters of a configuration that have no default."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    nothing = dataclasses.MISSING
    return [field.name for field in fields if field.default is nothing and field.default_factory is nothing]
