"""The kinds of values that options take: numbers, whole numbers, lists of them, augmentations."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import click


class Number(click.ParamType[float | str]):
    """A number, or a schedule over the rounds where there may be one; anything else that a file may hold is refused."""

    name = "X"

    def __init__(self, may_vary: bool = False) -> None:
        self.may_vary = may_vary

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return "X|SCHEDULE" if self.may_vary else "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number, or the schedule as it was written."""
        if self._is_schedule(value):
            return str(value)
        try:
            return _real(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number", param, ctx)

    def _is_schedule(self, value: Any) -> bool:
        return self.may_vary and isinstance(value, str) and "(" in value


def _real(value: Any) -> float:
    # YAML reads `yes` as a truth value, which Python would take for 1.
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")
    return float(value)


class Whole(click.ParamType[int | str]):
    """A whole number of at least `least`, or one word, such as `auto`."""

    def __init__(self, least: int, word: str | None = None) -> None:
        self.least, self.word, self.name = least, word, "N"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return f"N|{self.word}" if self.word else "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or the word."""
        if self.word is not None and value == self.word:
            return self.word
        try:
            number = int(str(value))  # through text, for a truth value of a file is no number
        except ValueError:
            self._refuse(value, param, ctx)
        if number < self.least:
            self._refuse(value, param, ctx)
        return number

    def _refuse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        either = f"neither {self.word!r} nor" if self.word else "not"
        self.fail(f"{value!r} is {either} a whole number of at least {self.least}", param, ctx)


class Augmentation(click.ParamType[bool | str]):
    """The data set's own augmentation (True), none (False), or names; a file may hold a truth value."""

    name = "NAME,..."

    words: ClassVar[dict[Any, bool]] = {True: True, "default": True, False: False, "none": False}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | str:
        """Return which it is."""
        # By type first, because 1 equals True and would count as a word.
        if isinstance(value, bool | str) and value in self.words:
            return self.words[value]
        names = self._names(value)
        if not any(names):
            self.fail(f"{value!r} is not a list of augmentations such as crop-flip,cutout(8)", param, ctx)
        for word in {"none", "default"}.intersection(names):
            self.fail(f"{value!r}: {word!r} stands alone; give either it or names", param, ctx)
        return str(value)

    def _names(self, value: Any) -> list[str]:
        if not isinstance(value, str):
            return []
        return list(map(str.strip, value.split(",")))


class WholeNumbers(click.ParamType[list[int]]):
    """Whole numbers of at least 0 with commas between them: seeds, rounds, clients."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers; none may come twice."""
        numbers = list_of_whole(value)
        if not numbers:
            self.fail(f"{value!r} is not a list of whole numbers such as 0,1,2", param, ctx)
        if min(numbers) < 0:
            self.fail(f"{value!r} holds {min(numbers)}; each number must be at least 0", param, ctx)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{value!r} names a number twice", param, ctx)
        return numbers


def parts_of(value: Any) -> list[Any]:
    """Return the parts of a list as a command line or a file gives it."""
    return value if isinstance(value, list) else str(value).split(",")


def list_of_whole(value: Any) -> list[int]:
    """Return a list of whole numbers as a command line or a file gives it; empty where it is none."""
    try:
        # Through text: a truth value or a fraction of a file is no whole number.
        return [int(str(part)) for part in parts_of(value)]
    except ValueError:
        return []
