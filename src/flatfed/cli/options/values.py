"""The kinds of values that options take: numbers, whole numbers, lists of them, augmentations."""

from __future__ import annotations

from typing import Any

import click


class Number(click.ParamType[float | str]):
    """A number, or a course over the rounds where there may be one; anything else that a file may hold is refused."""

    name = "X"

    def __init__(self, may_vary: bool = False) -> None:
        self.may_vary = may_vary

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return "X|COURSE" if self.may_vary else "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number, or the course as it was written."""
        if self.may_vary and isinstance(value, str) and "(" in value:
            return value
        try:
            return float("" if isinstance(value, bool | list | dict) else value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number", param, ctx)


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
            number = int(str(value))
        except ValueError:
            number = self.least - 1
        if number < self.least or isinstance(value, bool):
            either = f"neither {self.word!r} nor" if self.word else "not"
            self.fail(f"{value!r} is {either} a whole number of at least {self.least}", param, ctx)
        return number


class Augmentation(click.ParamType[bool | str]):
    """The data set's own augmentation (True), none (False), or names; a file may hold a truth value."""

    name = "NAME,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | str:
        """Return which it is."""
        if isinstance(value, bool) or value in ("default", "none"):
            return value is True or value == "default"
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{value!r} is not a list of augmentations such as crop-flip,cutout(8)", param, ctx)
        for word in ("none", "default"):
            if word in (name.strip() for name in value.split(",")):
                self.fail(f"{value!r}: {word!r} stands alone; give either it or names", param, ctx)
        return value


class Seeds(click.ParamType[list[int]]):
    """Whole numbers with commas between them."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers; none may come twice."""
        parts = value if isinstance(value, list) else str(value).split(",")
        try:
            numbers = [int(part) for part in parts]
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a list of whole numbers such as 0,1,2", param, ctx)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{value!r} names a number twice", param, ctx)
        return numbers
