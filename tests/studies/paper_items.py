"""The tables and figures of the five papers, by the ids that presets have."""

from __future__ import annotations

COUNTS = {"fedgloss": (13, 20), "fedsam": (17, 16), "fedwmsam": (6, 6), "fedvssam": (5, 9), "fedgf": (5, 7)}
"""How many tables and figures each paper has."""

SKETCHES = {"fedgloss/fig-3", "fedwmsam/fig-1", "fedwmsam/fig-2", "fedgf/fig-3"}
"""Figures that are drawn by hand: nothing can be run for them."""


def items_of(paper: str) -> list[str]:
    """Return the items of a paper, its tables first."""
    tables, figures = COUNTS[paper]
    names = [f"table-{number}" for number in range(1, tables + 1)]
    return names + [f"fig-{number}" for number in range(1, figures + 1)]
