"""A configuration is a frozen dataclass that checks itself against its annotations and turns into JSON and back.

Algorithms, client optimisers, averages and samplers derive from `Config`: the class *is* the configuration.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import re
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

PLAIN = (bool, int, float, str, type(None))
"""Values that JSON holds as they are."""


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


@dataclass(frozen=True)
class Alias:
    """Another spelling of a choice, put in an annotation: it is taken, and replaced by what it stands for.

    `Annotated[Literal["mean", "official"], Alias("paper", "mean")]` keeps a name that was in use before.
    """

    spelling: str
    stands_for: str


NonNegative = Annotated[float, Range(low=0.0)]
Positive = Annotated[float, Range(low=0.0, open_low=True)]
Fraction = Annotated[float, Range(low=0.0, high=1.0)]
Momentum = Annotated[float, Range(low=0.0, high=1.0, open_high=True)]
Count = Annotated[int, Range(low=1)]
Index = Annotated[int, Range(low=0)]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Config:
    """Base of everything that is configured: a subclass is a frozen dataclass, checked when it is made.

    A *family* (algorithms, client optimisers, averages) is a direct subclass with its own `registry`; a member
    is entered there under its id: `class SAM(ClientOptimiser, id="sam")`.
    """

    id: ClassVar[str] = ""
    registry: ClassVar[Registry[Any]]

    courses: ClassVar[bool | frozenset[str]] = False
    """Which real parameters may follow a course over the rounds: all, none, or those named."""

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
            object.__setattr__(self, name, checked(hint, getattr(self, name), label, self._may_vary(name)))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed."""
        return build(type(self), {name: getattr(self, name) for name in parameters(type(self))} | changes)

    def at(self, round: int) -> Self:
        """Return the configuration of one round: every course, here and inside, replaced by its number."""
        if not self.varying:
            return self
        values = {name: getattr(self, name) for name in self.varying}
        return self.replace(**{n: v.value(round) if isinstance(v, Course) else v.at(round) for n, v in values.items()})

    @functools.cached_property
    def varying(self) -> tuple[str, ...]:
        """The parameters that change over the rounds, or hold something that does."""
        values = {name: getattr(self, name) for name in parameters(type(self))}
        return tuple(n for n, v in values.items() if isinstance(v, Course) or (isinstance(v, Config) and v.varying))

    @classmethod
    def _may_vary(cls, name: str) -> bool:
        return cls.courses if isinstance(cls.courses, bool) else name in cls.courses

    def to_dict(self) -> dict[str, Any]:
        """Return `{"id": ..., parameter: value, ...}`, ready for JSON; a course is written as text."""
        return {"id": self.id} | {name: _plain(getattr(self, name)) for name in parameters(type(self))}


def _plain(value: Any) -> Any:
    if isinstance(value, Course):
        return str(value)
    return value.to_dict() if isinstance(value, Config) else value


def parameters(cls: type[Config]) -> dict[str, Any]:
    """Return the parameters of a configuration class: name to annotated type."""
    return _parameters(cast(Any, cls))


@functools.cache
def _parameters(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    in_order = sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only))  # as they are called
    return {field.name: hints[field.name] for field in in_order}


def build(cls: type[C], values: Mapping[str, Any]) -> C:
    """Make a `cls` from named values; an unknown name is an error that names the nearest valid ones."""
    return cls(**values)


def _refuse_unknown(cls: type[Config], values: Mapping[str, Any]) -> None:
    known, title = parameters(cls), cls.id or cls.__name__
    for name in values:
        if name not in known:
            takes = ", ".join(known) or "no parameters"
            raise ConfigError(f"{title}: {nearest(name, known, 'parameter')} ({title} takes {takes})")


def checked(hint: Any, value: Any, label: str, may_vary: bool = False) -> Any:
    """Return `value` as the annotation `hint` asks for it, or say in one sentence why it cannot be.

    Where it `may_vary`, a course may stand for a real number.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _by_rule(args[1], args[0], value, label, may_vary)
    if origin is Literal:
        return _one_of(args, value, label)
    if origin in (Union, types.UnionType):
        return _any_of(args, value, label, may_vary)
    if is_course(value) and hint in (float, int):
        return _course(value, label, may_vary and hint is float)
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


def _by_rule(rule: Range | Alias, hint: Any, value: Any, label: str, may_vary: bool) -> Any:
    if isinstance(rule, Alias):
        return checked(hint, rule.stands_for if value == rule.spelling else value, label, may_vary)
    return _in_range(rule, checked(hint, value, label, may_vary), label)


def _in_range(allowed: Range, value: Any, label: str) -> Any:
    if not all(map(allowed.holds, value.bounds() if isinstance(value, Course) else [value])):
        raise ConfigError(f"{label} must be {allowed}, not {value}")
    return value


def is_course(value: Any) -> bool:
    """Say whether a value is a course, or text that looks like one."""
    return isinstance(value, Course) or (isinstance(value, str) and _CALL.fullmatch(value.strip()) is not None)


def _course(value: Any, label: str, may_vary: bool) -> Course:
    if not may_vary:
        raise ConfigError(f"{label} cannot change over the rounds; it must be one number, not {value}")
    if isinstance(value, Course):
        return value
    try:
        return Course.parse(value)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from None


def _one_of(choices: tuple[Any, ...], value: Any, label: str) -> Any:
    if value not in choices:
        raise ConfigError(f"{label} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def _any_of(hints: tuple[Any, ...], value: Any, label: str, may_vary: bool) -> Any:
    if value is None and type(None) in hints:
        return None
    hint = next(h for h in hints if h is not type(None))
    return checked(hint, value, label, may_vary)


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


class Course(Config):
    """Family of courses: a number for every round. Written `ramp(0.001, 0.15, 2000)`, as Python would call it."""

    registry: ClassVar[Registry[Course]] = Registry("course")

    def value(self, round: int) -> float:
        """Return the number of a round, from 0."""
        raise NotImplementedError

    def bounds(self) -> tuple[float, ...]:
        """Return numbers that enclose all that the course takes."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.id}({', '.join(repr(getattr(self, name)) for name in parameters(type(self)))})"

    @staticmethod
    def parse(text: str) -> Course:
        """Read a course as it is written: `ramp(0.001, 0.15, 2000)`, `steps(0:0.1, 100:0.01)`."""
        match = _CALL.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"{text!r} is not a course such as ramp(0.001, 0.15, 2000)")
        cls, parts = Course.registry.find(match["id"]), match["values"].split(",")
        try:
            return build(cls, cls.read(parts))
        except ConfigError:
            raise
        except ValueError:
            raise ConfigError(f"{text!r} does not fit {cls.pattern()}, numbers with commas between them") from None

    @classmethod
    def read(cls, parts: list[str]) -> dict[str, Any]:
        """Return the parameters that are written between the brackets."""
        return dict(zip(parameters(cls), map(float, parts), strict=True))

    @classmethod
    def pattern(cls) -> str:
        """Return how the course is written."""
        return f"{cls.id}({', '.join(parameters(cls))})"


_CALL = re.compile(r"(?P<id>[a-z]+)\s*\((?P<values>[^()]*)\)")
