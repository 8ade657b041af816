"""Values as they are written: numbers, truth values, schedules and text."""

from __future__ import annotations

from typing import Any

from flatfed.core.configuration.checking import is_schedule


def parse_value(text: str) -> Any:
    """Return the number, truth value, null, schedule or text that is written, as YAML reads it; 1e-3 is a number."""
    import yaml

    if is_schedule(text):
        return text
    if _looks_real(text):
        return float(text)
    try:
        return yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return text


def _looks_real(text: str) -> bool:
    """Say whether a text is a number with a point or an exponent; YAML takes 1e-3 for a word."""
    if not set(text) & set(".eE"):
        return False
    try:
        float(text)
    except ValueError:  # a word with an e in it
        return False
    return True
