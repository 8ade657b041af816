"""Errors that are meant for people: each says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Self

MANY = 12
"""A message lists at most this many names."""

PARAMETER = "{parameter}"
"""Where a message names the parameter that it is about, which is called otherwise on the command line."""

OTHER = "{other}"
"""Where a message names a second parameter, which contradicts the first."""


class FlatfedError(Exception):
    """Base of every error that flatfed raises on purpose; the command line shows it without a traceback."""


class AboutParameter(Exception):
    """A message that may be about one parameter, or about two that contradict each other.

    Args:
        message: what is wrong, what was expected and what to do; `PARAMETER` stands for the parameter's name, `OTHER`
            for that of the second.
        parameter: the parameter by its name in Python: `lr`, or `fedsam: rho` with its owner.
        other: the second parameter, where there is one.
    """

    def __init__(self, message: str = "", parameter: str = "", other: str = "") -> None:
        super().__init__(message.replace(PARAMETER, parameter).replace(OTHER, other))
        self.parameter, self.other, self._template = parameter, other, message

    def within(self, where: str) -> Self:
        """Return the same error with a word before it on where it struck."""
        return type(self)(f"{where}: {self._template}", parameter=self.parameter, other=self.other)

    def about(self, parameter: str) -> Self:
        """Return the same error about a parameter that is called otherwise here: `alpha` for `dirichlet: alpha`."""
        return type(self)(self._template, parameter=parameter, other=self.other)

    def worded(self, name: str, other: str = "") -> str:
        """Return the message with other names for its parameters: `--lr` for `lr`."""
        return self._template.replace(PARAMETER, name).replace(OTHER, other or self.other)


class ConfigError(AboutParameter, FlatfedError, ValueError):
    """A value, name or combination that cannot be used."""


class ConfigWarning(AboutParameter, UserWarning):
    """A value that is used in part only."""


class CheckpointError(AboutParameter, FlatfedError):
    """A checkpoint or run directory that cannot be read."""


class EngineError(FlatfedError):
    """A client could not be run."""


class DiskFullError(FlatfedError, OSError):
    """A run could not be written because the disk is full; what was saved before is good."""


class Interrupted(FlatfedError):
    """The user asked to stop; raised only where no server state is half-changed."""


def nearest(name: str, known: Iterable[str], kind: str) -> str:
    """Return `unknown KIND 'NAME'; did you mean ...?` with the closest of the `known` names."""
    known = sorted(known)
    unknown = f"unknown {kind} {name!r}"
    if not known:
        return unknown
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    if close:
        return f"{unknown}; did you mean {' or '.join(map(repr, close))}?"
    return f"{unknown}; known: {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them; of very many, the first ones and how many there are."""
    if len(names) <= MANY:
        return ", ".join(names)
    return f"{', '.join(names[:MANY])}, ... ({len(names)} in all)"
