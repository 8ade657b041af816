"""What lies at the sites of these tests: a few small images each, by import path, and a gate before every batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flatfed.data.storage.pool import Pool
from sites.bench import NAMES, TRAIN, Gated, pool


def tiny(site: str, folder: str, classes: int = 3) -> Pool:
    """Return the examples of a site; no two sites have the same."""
    number = NAMES.index(site)
    own = pool(number + 1, classes, TRAIN + number)
    return replace(own, train=Gated(own.train, Path(folder)))
