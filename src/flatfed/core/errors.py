"""Errors that are meant for people: each says what is wrong and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MANY = 12
"""A message lists so many names at most."""


class FlatfedError(Exception):
    """Base of every error that flatfed raises on purpose; the command line shows it without a traceback."""


class ConfigError(FlatfedError, ValueError):
    """A value, name or combination that cannot be used."""


class CheckpointError(FlatfedError):
    """A checkpoint or run directory that cannot be read."""


class EngineError(FlatfedError):
    """A client could not be run."""


class Interrupted(FlatfedError):
    """The user asked to stop; raised only where no server state is half-changed."""


def nearest(name: str, known: Iterable[str], kind: str) -> str:
    """Return `unknown KIND 'NAME'; did you mean ...?` with the closest of the `known` names."""
    known = sorted(known)
    if not known:
        return f"unknown {kind} {name!r}"
    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    listed = ", ".join(known[:MANY]) + (f", ... ({len(known)} in all)" if len(known) > MANY else "")
    hint = f"did you mean {' or '.join(repr(k) for k in close)}?" if close else f"known: {listed}"
    return f"unknown {kind} {name!r}; {hint}"
