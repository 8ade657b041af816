"""The kinds of values that options take: typed, from a file, or from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from flatfed.core.configuration.checking import LARGEST, TextRule, shown
from flatfed.core.configuration.config import Config
from flatfed.core.errors import ConfigError
from flatfed.tracking.tracker import Tracker, chosen


class OptionKind:
    """What an option's value may be."""

    def read(self, value: Any) -> Any:
        """Return the value in Python's type for it; a `ConfigError` says what it is not, without the option's name."""
        raise NotImplementedError


@dataclass(frozen=True)
class NumberKind(OptionKind):
    """A number, or a schedule over the rounds where it `may_vary`; anything else that a file may hold is refused."""

    may_vary: bool = False

    def read(self, value: Any) -> float | str:
        """Return the number, or the schedule as it was written."""
        if self._is_schedule(value):
            return str(value)
        try:
            return _real(value)
        except (TypeError, ValueError, OverflowError):  # OverflowError: a file may hold 400 digits
            raise ConfigError(f"{shown(value)} is not a number") from None

    def _is_schedule(self, value: Any) -> bool:
        return self.may_vary and isinstance(value, str) and "(" in value


def _real(value: Any) -> float:
    # YAML reads `yes` as a truth value, which Python would take for 1.
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")
    return float(value)


@dataclass(frozen=True)
class WholeKind(OptionKind):
    """A whole number of at least `least`, or one word, such as `auto`."""

    least: int
    word: str | None = None
    most: int = LARGEST

    def read(self, value: Any) -> int | str:
        """Return the number or the word."""
        if self.word is not None and value == self.word:
            return self.word
        try:
            number = int(str(value))  # through text, for a truth value of a file is no number
        except ValueError:
            self._refuse(value)
        if number < self.least:
            self._refuse(value)
        if number > self.most:
            raise ConfigError(f"{shown(value)} is too large; at most {self.most:,} can be asked for")
        return number

    def _refuse(self, value: Any) -> NoReturn:
        either = f"neither {self.word!r} nor" if self.word else "not"
        raise ConfigError(f"{shown(value)} is {either} a whole number of at least {self.least}") from None


class WholeNumbersKind(OptionKind):
    """Whole numbers of at least 0, as a list or with commas between them: seeds, rounds, clients."""

    def read(self, value: Any) -> list[int]:
        """Return the numbers; none may come twice."""
        numbers = list_of_whole(value)
        if not numbers:
            raise ConfigError(f"{shown(value)} is not a list of whole numbers such as 0,1,2")
        if min(numbers) < 0:
            raise ConfigError(f"{shown(value)} holds {min(numbers)}; each number must be at least 0")
        if max(numbers) > LARGEST:
            raise ConfigError(f"{shown(value)} holds a number above {LARGEST:,}")
        if len(set(numbers)) < len(numbers):
            raise ConfigError(f"{shown(value)} names a number twice")
        return numbers


AUGMENTATIONS: Mapping[Any, bool] = {True: True, "default": True, False: False, "none": False}
"""What is no name of an augmentation."""


class AugmentationKind(OptionKind):
    """The data set's own augmentation (True), none (False), or names; a file may hold a truth value."""

    def read(self, value: Any) -> bool | str:
        """Return which it is."""
        # By type first, because 1 equals True and would count as a word.
        if isinstance(value, bool | str) and value in AUGMENTATIONS:
            return AUGMENTATIONS[value]
        names = _names(value)
        if not any(names):
            raise ConfigError(f"{shown(value)} is not a list of augmentations such as crop-flip,cutout(8)")
        for word in {"none", "default"}.intersection(names):
            raise ConfigError(f"{value!r}: {word!r} stands alone; give either it or names")
        return str(value)


def _names(value: Any) -> list[str]:
    if not isinstance(value, str):
        return []
    return list(map(str.strip, value.split(",")))


@dataclass(frozen=True)
class ChoiceKind(OptionKind):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, value: Any) -> str:
        """Return the word."""
        if not isinstance(value, str) or value not in self.words:
            raise ConfigError(f"{shown(value)} is not one of {', '.join(map(repr, self.words))}")
        return value


class TextKind(OptionKind):
    """A text."""

    def read(self, value: Any) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise ConfigError(f"{shown(value)} is not text")
        return value


@dataclass(frozen=True)
class WrittenKind(OptionKind):
    """A text that stands for something else, such as an amount of memory."""

    rule: TextRule

    def read(self, value: Any) -> str:
        """Return the text."""
        return self.rule.read(value)


@dataclass(frozen=True)
class MemberKind(OptionKind):
    """A member of a family as it is written, such as adamw(beta2=0.99); Python may give the configuration itself."""

    kind: str

    def read(self, value: Any) -> str:
        """Return the text."""
        if isinstance(value, Config) and type(value).registry.kind == self.kind:
            return str(value.recorded())
        if not isinstance(value, str):
            raise ConfigError(f"{shown(value)} is not a {self.kind} as it is written, such as name(parameter=value)")
        return value


class TrackKind(OptionKind):
    """Trackers: ids, perhaps with parameters in brackets, several with commas; a file may hold a list or a mapping."""

    def read(self, value: Any) -> tuple[Tracker, ...]:
        """Return the trackers."""
        return chosen(value)


class PathKind(OptionKind):
    """A file or a folder."""

    def read(self, value: Any) -> str:
        """Return it as text."""
        if not isinstance(value, str | os.PathLike):
            raise ConfigError(f"{shown(value)} is not a path")
        return os.fsdecode(value)


class TruthKind(OptionKind):
    """Yes or no."""

    def read(self, value: Any) -> bool:
        """Return the truth value; no number is one."""
        if not isinstance(value, bool):
            raise ConfigError(f"{shown(value)} is neither true nor false")
        return value


def parts_of(value: Any) -> list[Any]:
    """Return the parts of a list as a command line, a file or Python gives it."""
    if isinstance(value, list | tuple):
        return list(value)
    return str(value).split(",")


def list_of_whole(value: Any) -> list[int]:
    """Return a list of whole numbers; empty where it is none."""
    try:
        # Through text: a truth value or a fraction of a file is no whole number.
        return [int(str(part)) for part in parts_of(value)]
    except ValueError:
        return []


def at_most(samples: int | str) -> int | None:
    """Return at most how many examples are taken: a number, or None for `all`."""
    if isinstance(samples, str):
        return None
    return samples
