"""A configuration is a frozen dataclass that checks itself against its annotations and turns into JSON and back.

Algorithms, client optimisers, averages and samplers derive from `Config`: the class *is* the configuration.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform, get_type_hints

from flatfed.core.configuration.checking import Varying, checked
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import ConfigError, nearest

C = TypeVar("C", bound="Config")

PLAIN = (bool, int, float, str, type(None))
"""Values that JSON holds as they are."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Config:
    """Base of everything that is configured: a subclass is a frozen dataclass, checked when it is made.

    A *family* (algorithms, client optimisers, averages) is a direct subclass with its own `registry`; a member
    is entered there under its id: `class SAM(ClientOptimiser, id="sam")`.
    """

    id: ClassVar[str] = ""
    registry: ClassVar[Registry[Any]]

    schedules: ClassVar[bool | frozenset[str]] = False
    """Which real parameters may follow a schedule over the rounds: all, none, or those named."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Parameters by the names that they had in earlier versions; `build` still takes those."""

    def __init_subclass__(cls, id: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True)(cls)
        cls.id = ""  # not the parent's: a subclass is another thing until it has an id of its own
        if id is not None:
            cls.registry.register(cls, id)

    def __new__(cls, *args: Any, **values: Any) -> Self:
        """Refuse a parameter that the class does not have, naming the nearest that it has."""
        _refuse_unknown(cls, values)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, hint in parameters(type(self)).items():
            label = f"{self.id}: {name}" if self.id else name
            value = checked(hint, getattr(self, name), label, self.may_vary(name))
            # A frozen dataclass leaves no other way to put the checked value in place of the given one.
            object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed."""
        return build(type(self), self._values() | changes)

    def at(self, round: int) -> Self:
        """Return the configuration of one round: every schedule, here and inside, replaced by its number."""
        if not self.varying:
            return self
        return self.replace(**{name: _value_at(getattr(self, name), round) for name in self.varying})

    # A cached property writes to `__dict__` directly, which a frozen dataclass does not prevent.
    @functools.cached_property
    def varying(self) -> tuple[str, ...]:
        """The parameters that change over the rounds, or hold something that does."""
        return tuple(name for name, value in self._values().items() if _varies(value))

    @classmethod
    def may_vary(cls, name: str) -> bool:
        """Say whether a parameter may follow a schedule."""
        return cls.schedules if isinstance(cls.schedules, bool) else name in cls.schedules

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in parameters(type(self))}

    def to_dict(self) -> dict[str, Any]:
        """Return `{"id": ..., parameter: value, ...}`, ready for JSON; a schedule is written as text."""
        return {"id": self.id} | {name: _plain(value) for name, value in self._values().items()}

    def recorded(self) -> Any:
        """Return it as it stands in another configuration's record: as `to_dict`, or as a text."""
        return self.to_dict()


def _varies(value: Any) -> bool:
    """Say whether a value is a schedule, or a configuration that holds one."""
    return isinstance(value, Varying) or (isinstance(value, Config) and bool(value.varying))


def _value_at(value: Varying | Config, round: int) -> Any:
    return value.value(round) if isinstance(value, Varying) else value.at(round)


def _plain(value: Any) -> Any:
    if isinstance(value, Varying):
        return str(value)
    return value.recorded() if isinstance(value, Config) else value


def parameters(cls: type[Config]) -> dict[str, Any]:
    """Return the parameters of a configuration class: name to annotated type."""
    return _parameters(cast(Any, cls))


# Type hints are slow to resolve, and a configuration with a schedule is made anew for every round.
@functools.cache
def _parameters(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    in_order = sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only))  # as they are called
    return {field.name: hints[field.name] for field in in_order}


def build(cls: type[C], values: Mapping[str, Any]) -> C:
    """Make a `cls` from named values; an unknown name is an error that names the nearest valid ones."""
    given: dict[str, Any] = {}
    for name, value in values.items():
        today = cls.renamed.get(name, name)
        if today in given:
            raise ConfigError(f"{today} is given twice, once by an earlier name; give {today} alone")
        given[today] = value
    return cls(**given)


def _refuse_unknown(cls: type[Config], values: Mapping[str, Any]) -> None:
    known = parameters(cls)
    unknown = [name for name in values if name not in known]
    if unknown:
        title = cls.id or cls.__name__
        takes = ", ".join(known) or "no parameters"
        raise ConfigError(f"{title}: {nearest(unknown[0], known, 'parameter')} ({title} takes {takes})")
