"""The words of figures: numbers, names of axes and notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import Any

NO_BREAK = "\xa0"
APART = "; "
LETTERS = 119
"""Letters of one point on an inch, about: so many times fewer of a larger type."""


def short(value: float) -> str:
    """Return a number in three digits."""
    return f"{value:.3g}" if math.isfinite(value) else "not finite"


def plain(value: float) -> str:
    """Return the number of a tick: as it is, or as a power of ten where it would have many digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    digits, exponent = f"{value:.2e}".split("e")
    factor = {1.0: "", -1.0: "-"}.get(float(digits), f"{float(digits):g}\\cdot ")
    return f"${factor}10^{{{int(exponent)}}}$"


def named(name: str, log: bool) -> str:
    """Return the name of an axis, which tells of a logarithmic scale."""
    return f"{name} (log scale)" if log else name


def fold(text: str, width: float, size: float = 7.0) -> str:
    """Break text of a size into lines of so many inches at most."""
    letters = max(int(LETTERS / size * width), 8)
    return textwrap.fill(text, letters, break_on_hyphens=False).replace(NO_BREAK, " ")


def together(text: str) -> str:
    """Return words that a legend leaves on one line."""
    return text.replace(" ", NO_BREAK)


def one_note(items: Iterable[Any]) -> str:
    """Return the note of all that is drawn: what is the same said once, the rest by label."""
    said: dict[str, list[str]] = {}
    for item in items:
        label = getattr(item, "panel", "") or item.label
        if label not in said.setdefault(item.note, []):
            said[item.note].append(label)
    if len(said) == 1:
        return next(iter(said))
    parts = [note.split(APART) for note in said]
    common = [part for part in parts[0] if part and all(part in others for others in parts)]
    own = [APART.join(part for part in each if part not in common) for each in parts]
    by_label = [f"{', '.join(labels)}: {rest}" for rest, labels in zip(own, said.values(), strict=True) if rest]
    return APART.join([*by_label, *common])
