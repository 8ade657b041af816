"""The words of figures: numbers, names of axes and notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

NO_BREAK = "\xa0"
APART = "; "
LETTERS = 119
"""Letters of a type of one point that fit into an inch, about; of a type n times as large, n times fewer."""


def short(value: float) -> str:
    """Return a number in three digits."""
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.3g}"


def plain(value: float) -> str:
    """Return the number of a tick: as it is, or as a power of ten where it would have many digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    digits, exponent = f"{value:.2e}".split("e")
    # 1 · 10^5 is written as 10^5.
    factor = {1.0: "", -1.0: "-"}.get(float(digits), f"{float(digits):g}\\cdot ")
    return f"${factor}10^{{{int(exponent)}}}$"


def named(name: str, log: bool) -> str:
    """Return the name of an axis, which tells of a logarithmic scale."""
    if not log:
        return name
    return f"{name} (log scale)"


def fold(text: str, width: float, size: float = 7.0) -> str:
    """Break text of a size (points) into lines of at most `width` inches."""
    letters = max(int(LETTERS / size * width), 8)
    # Only up to here do these spaces keep words on one line.
    return textwrap.fill(text, letters, break_on_hyphens=False).replace(NO_BREAK, " ")


def together(text: str) -> str:
    """Return words that a legend leaves on one line."""
    return text.replace(" ", NO_BREAK)


def one_note(items: Iterable[Any]) -> str:
    """Return the note of all that is drawn: what is the same said once, the rest by label."""
    labels = _labels_by_note(items)
    if len(labels) == 1:
        return next(iter(labels))
    common = _common_parts(list(labels))
    parts = []
    for note, names in labels.items():
        rest = _without(note, common)
        if rest:
            parts.append(f"{', '.join(names)}: {rest}")
    return APART.join([*parts, *common])


def _labels_by_note(items: Iterable[Any]) -> dict[str, list[str]]:
    """Return for each note the labels of what it belongs to; a panel stands for all in it."""
    labels: dict[str, list[str]] = {}
    for item in items:
        label = getattr(item, "panel", "") or item.label
        names = labels.setdefault(item.note, [])
        if label not in names:
            names.append(label)
    return labels


def _common_parts(notes: Sequence[str]) -> list[str]:
    """Return the parts that all notes have."""
    first, *others = [note.split(APART) for note in notes]
    return [part for part in first if part and _in_all(part, others)]


def _in_all(part: str, notes: Sequence[Sequence[str]]) -> bool:
    return all(part in note for note in notes)


def _without(note: str, common: Sequence[str]) -> str:
    return APART.join(part for part in note.split(APART) if part not in common)
