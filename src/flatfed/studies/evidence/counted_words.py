"""Numbers with their words, as several pages have them."""

from __future__ import annotations


def counted_words(count: int, word: str) -> str:
    """Return a number with its word: `1 seed`, `3 seeds`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
