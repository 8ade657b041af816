"""What is written of a history's columns: conditions that end a run, the column that is monitored, a plateau's rule.

`test_accuracy>0.9` is a condition. Several stand with commas between them, and the first that holds counts. A monitored
column is written by its name, with `:min` or `:max` behind it where it is not known which is better.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from flatfed.core.configuration.checking import Count, NonNegative, Range, TextRule, shown
from flatfed.core.configuration.config import Config, build, parameters
from flatfed.core.configuration.grammar import parse_call
from flatfed.core.errors import ConfigError

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COLUMN = r"[A-Za-z_][\w.-]*"
_CONDITION = re.compile(rf"\s*(?P<column>{COLUMN})\s*(?P<sign><=|>=|<|>)\s*(?P<number>[^\s<>=]+)\s*")
_MONITORED = re.compile(rf"\s*(?P<column>{COLUMN})\s*(?::\s*(?P<direction>min|max))?\s*")


@dataclass(frozen=True)
class Condition:
    """A column, a comparison and a number: `test_accuracy>0.9`."""

    column: str
    sign: str
    number: float

    def holds(self, value: float) -> bool:
        """Say whether a value meets it."""
        return COMPARISONS[self.sign](value, self.number)

    def __str__(self) -> str:
        return f"{self.column}{self.sign}{self.number!r}"


def conditions(text: str) -> tuple[Condition, ...]:
    """Read conditions with commas between them."""
    return tuple(map(_condition, text.split(",")))


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    number = _finite(match["number"]) if match else None
    if match is None or number is None:
        raise ConfigError(f"{shown(text.strip())} is not a column, one of < <= > >=, and a number: test_accuracy>0.9")
    return Condition(match["column"], match["sign"], number)


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _written_conditions(value: Any) -> str:
    """Return conditions as they are recorded; Python and files may give a list of them."""
    texts = list(value) if isinstance(value, list | tuple) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{shown(value)} is not a condition such as test_accuracy>0.9")
    return ", ".join(str(condition) for text in texts for condition in conditions(text))


@dataclass(frozen=True)
class MonitoredName:
    """A column by its name, and which of its values are better where that is said."""

    column: str
    higher_is_better: bool | None = None


def monitored_name(text: str) -> MonitoredName:
    """Read a column: `validation_loss`, `watch.lambda_max:min`."""
    match = _MONITORED.fullmatch(text)
    if match is None:
        raise ConfigError(f"{shown(text)} is not a column such as validation_loss, or one with :min or :max behind it")
    direction = match["direction"]
    return MonitoredName(match["column"], None if direction is None else direction == "max")


def _written_column(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{shown(value)} is not a column such as validation_loss")
    name = monitored_name(value)
    if name.higher_is_better is None:
        return name.column
    return f"{name.column}:{'max' if name.higher_is_better else 'min'}"


Conditions = Annotated[str, TextRule(_written_conditions)]
MonitoredColumn = Annotated[str, TextRule(_written_column)]
Shrinking = Annotated[float, Range(low=0.0, high=1.0, open_low=True, open_high=True)]


class Plateau(Config):
    """Lower the learning rate when a column has stopped improving: `rate = max(rate * factor, min_lr)`.

    Args:
        factor: on the rate, between 0 and 1.
        patience: values of the column, one after the other, that bring no improvement.
        min_lr: the rate is not lowered below this.
        min_delta: how much better a value must be to count as an improvement.
        monitor: the column; empty for the one that the run monitors.
    """

    renamed: ClassVar[Mapping[str, str]] = {}

    factor: Shrinking = 0.5
    patience: Count = 10
    min_lr: NonNegative = 0.0
    min_delta: NonNegative = 0.0
    monitor: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.monitor:
            object.__setattr__(self, "monitor", _written_column(self.monitor))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the rule as it is written: `factor=0.5, patience=5`, or `plateau(0.5, 5)`."""
        call = parse_call(text if text.strip().startswith("plateau(") else f"plateau({text})")
        try:
            if call is None or not call.arguments:
                raise ValueError("nothing is given")
            given = call.by_name(list(parameters(cls)))
            values = {name: value if name == "monitor" else float(value) for name, value in given.items()}
        except ConfigError:
            raise
        except ValueError:
            raise ConfigError(f"{shown(text)} is not a rule such as factor=0.5, patience=10, min_lr=0.001") from None
        return build(cls, values)

    def __str__(self) -> str:
        values = {name: getattr(self, name) for name in parameters(type(self))}
        return ", ".join(f"{name}={value}" for name, value in values.items() if value != "")


def _written_plateau(value: Any) -> str:
    """Return the rule as it is recorded; Python may give `Plateau(...)`, a file a mapping."""
    if isinstance(value, Plateau):
        return str(value)
    if isinstance(value, Mapping):
        return str(build(Plateau, {str(name): entry for name, entry in value.items()}))
    if not isinstance(value, str):
        raise ConfigError(f"{shown(value)} is not a rule such as factor=0.5, patience=10, min_lr=0.001")
    return str(Plateau.parse(value))


PlateauRule = Annotated[str, TextRule(_written_plateau)]
