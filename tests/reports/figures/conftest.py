"""Look into figures while they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flatfed.reports.figures.drawing.style as style

MODULES = ("surfaces", "contours", "lines", "spectra", "scatter", "embedding", "trends", "corruptions")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the figures that are written from now on."""
    actual: list[Any] = []

    def spying(write: Callable[..., None]) -> Callable[..., None]:
        def finish(figure: Any, *args: Any, **kwargs: Any) -> None:
            actual.append(figure)
            write(figure, *args, **kwargs)

        return finish

    for name in MODULES:
        monkeypatch.setattr(f"flatfed.reports.figures.{name}.finish", spying(style.finish))
    return actual
