"""One thing that the doctor looked at: whether it is well, and what to do if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "fault"]


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Args:
        level: ok, warning (it works, but not for long or not well) or fault.
        subject: what was looked at.
        text: what was found.
        fix: what to do about it; empty where nothing is to be done.
    """

    level: Level
    subject: str
    text: str
    fix: str = ""


def well(subject: str, text: str) -> Diagnosis:
    """Return that something is as it should be."""
    return Diagnosis("ok", subject, text)


def warning(subject: str, text: str, fix: str) -> Diagnosis:
    """Return that something works, but not for long or not well."""
    return Diagnosis("warning", subject, text, fix)


def fault(subject: str, text: str, fix: str) -> Diagnosis:
    """Return that something cannot work."""
    return Diagnosis("fault", subject, text, fix)
