"""Data sets that a test declares: a new module among the sources, or another declaration for one that is there."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flatfed.data import datasets, sources
from flatfed.data.catalogue import find, registry


def add_source(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str = "toy") -> None:
    """Add a module to the sources, as one adds a data set."""
    (folder / f"{name}.py").write_text(text)
    datasets()
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(folder)])
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    monkeypatch.delitem(sys.modules, f"{sources.__name__}.{name}", raising=False)
    # Another cache, so that what is broken here is forgotten with the test.
    monkeypatch.setattr(registry, "_discover", functools.cache(registry._discover.__wrapped__))


def declare(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Change what a data set declares: `official`, `expected`."""
    monkeypatch.setitem(registry._sources, name, replace(find(name), **changes))
