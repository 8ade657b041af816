"""A configuration is a frozen dataclass that checks itself against its annotations and turns into JSON and back.

Algorithms, client optimisers, averages and samplers derive from `Config`: the class *is* the configuration.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from flatfed.core.errors import ConfigError, nearest

C = TypeVar("C", bound="Config")


@dataclass(frozen=True)
class Range:
    """The interval a number must lie in; an end marked open is excluded."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Say whether `value` lies inside."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        parts = []
        if self.low > -math.inf:
            parts.append(f"{'greater than' if self.open_low else 'at least'} {self.low:g}")
        if self.high < math.inf:
            parts.append(f"{'less than' if self.open_high else 'at most'} {self.high:g}")
        return " and ".join(parts) or "a number"


NonNegative = Annotated[float, Range(low=0.0)]
Positive = Annotated[float, Range(low=0.0, open_low=True)]
Fraction = Annotated[float, Range(low=0.0, high=1.0)]
Momentum = Annotated[float, Range(low=0.0, high=1.0, open_high=True)]
Count = Annotated[int, Range(low=1)]
Index = Annotated[int, Range(low=0)]


@dataclass_transform(frozen_default=True)
class Config:
    """Base of everything that is configured: a subclass is a frozen dataclass, checked when it is made.

    A *family* (algorithms, client optimisers, averages) is a direct subclass with its own `registry`; a member
    is entered there under its id: `class SAM(ClientOptimiser, id="sam")`.
    """

    id: ClassVar[str] = ""
    registry: ClassVar[Registry[Any]]

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
            object.__setattr__(self, name, checked(hint, getattr(self, name), label))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed."""
        return build(type(self), {name: getattr(self, name) for name in parameters(type(self))} | changes)

    def to_dict(self) -> dict[str, Any]:
        """Return `{"id": ..., parameter: value, ...}`, ready for JSON."""
        values = {name: getattr(self, name) for name in parameters(type(self))}
        return {"id": self.id} | {k: v.to_dict() if isinstance(v, Config) else v for k, v in values.items()}


def parameters(cls: type[Config]) -> dict[str, Any]:
    """Return the parameters of a configuration class: name to annotated type."""
    return _parameters(cast(Any, cls))


@functools.cache
def _parameters(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def build(cls: type[C], values: Mapping[str, Any]) -> C:
    """Make a `cls` from named values; an unknown name is an error that names the nearest valid ones."""
    return cls(**values)


def _refuse_unknown(cls: type[Config], values: Mapping[str, Any]) -> None:
    known, title = parameters(cls), cls.id or cls.__name__
    for name in values:
        if name not in known:
            takes = ", ".join(known) or "no parameters"
            raise ConfigError(f"{title}: {nearest(name, known, 'parameter')} ({title} takes {takes})")


def checked(hint: Any, value: Any, label: str) -> Any:
    """Return `value` as the annotation `hint` asks for it, or say in one sentence why it cannot be."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _in_range(args[1], checked(args[0], value, label), label)
    if origin is Literal:
        return _one_of(args, value, label)
    if origin in (Union, types.UnionType):
        return _any_of(args, value, label)
    if hint is float:
        return _number(value, label)
    if hint is int:
        return _whole(value, label)
    if isinstance(value, str | Mapping) and isinstance(hint, type) and issubclass(hint, Config):
        if "id" not in value and not isinstance(value, str):
            raise ConfigError(f"{label} needs an id, such as {next(iter(hint.registry), '')!r}, not {dict(value)!r}")
        return hint.registry.from_dict({"id": value} if isinstance(value, str) else value)
    if not isinstance(value, hint):
        raise ConfigError(f"{label} must be {_name(hint)}, not {value!r}")
    return value


def _in_range(allowed: Range, value: float, label: str) -> float:
    if not allowed.holds(value):
        raise ConfigError(f"{label} must be {allowed}, not {value!r}")
    return value


def _one_of(choices: tuple[Any, ...], value: Any, label: str) -> Any:
    if value not in choices:
        raise ConfigError(f"{label} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def _any_of(hints: tuple[Any, ...], value: Any, label: str) -> Any:
    if value is None and type(None) in hints:
        return None
    hint = next(h for h in hints if h is not type(None))
    return checked(hint, value, label)


def _number(value: Any, label: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, numbers.Real) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"{label} must be a finite number, not {value!r:.40}")
    return number


def _whole(value: Any, label: str) -> int:
    whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        raise ConfigError(f"{label} must be a whole number, not {value!r}")
    return int(value)


def _name(hint: Any) -> str:
    return {bool: "true or false", str: "text"}.get(hint, getattr(hint, "__name__", str(hint)))


class Registry(dict[str, type[C]]):
    """Configuration classes by id."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, cls: type[C], id: str) -> None:
        """Enter `cls` under `id`; two classes may not share one."""
        other = self.get(id)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"the {self.kind} id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        cls.id = id
        self[id] = cls

    def find(self, id: str) -> type[C]:
        """Return the class registered under `id`, or an error that names the nearest ones."""
        if id not in self:
            raise ConfigError(nearest(id, self, self.kind))
        return self[id]

    def make(self, id: str, **values: Any) -> C:
        """Return the configuration `id` with these parameters."""
        return build(self.find(id), values)

    def from_dict(self, data: Mapping[str, Any]) -> C:
        """Undo `Config.to_dict`; a nested configuration is made by the family that its parameter names."""
        values = {k: v for k, v in data.items() if k != "id"}
        return self.make(str(data["id"]), **values)
