"""A browser draws the page, without the network and without an error."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb

from browser import Tab, expect, needs_browser, new_page
from flatfed.reports.figures.drawing.style import COLOURS
from flatfed.reports.figures.interactive import write_surface_page
from reports.figures.inputs import LONG, bowl

pytest.importorskip("plotly")
pytestmark = needs_browser


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Tab:
    """Open a page with two surfaces, one of which has a gap."""
    losses = bowl().losses.copy()
    losses[0, 0] = np.nan
    write_surface_page([bowl(LONG, 0.9), replace(bowl(), losses=losses)], tmp_path / "a.html", "Loss around models")
    tab = Tab(new_page(browser, 1200, 900))
    tab.listen()
    tab.page.goto((tmp_path / "a.html").as_uri())
    return tab


def test_the_page_draws_without_an_error(shown: Tab) -> None:
    expect(shown.page.locator("#scene canvas")).not_to_have_count(0)
    expect(shown.page.locator("svg.main-svg")).not_to_have_count(0)
    legend = [f"{LONG}: loss 0.4 at the centre", "fedavg: loss 0.4 at the centre"]
    expect(shown.page.locator(".legendtext")).to_have_text(legend)
    expect(shown.page.locator("body")).not_to_contain_text("WebGL is not supported", use_inner_text=True)
    assert [url for url in shown.requests[1:] if not url.startswith(("data:", "blob:"))] == []
    shown.check_quiet()


def dots_of(picture: bytes) -> list[int]:
    """Return how many dots of a picture have the colour of each surface, below the legend."""
    pixels = rgb_to_hsv(matplotlib.image.imread(io.BytesIO(picture))[100:, :, :3])
    hues = pixels[pixels[..., 1] > 0.5][:, 0]
    colours = [rgb_to_hsv(to_rgb(colour))[0] for colour in COLOURS[:2]]
    return [int(np.count_nonzero(np.abs(hues - colour) < 0.03)) for colour in colours]


def test_both_surfaces_are_seen(shown: Tab) -> None:
    shown.until(lambda: min(dots_of(shown.page.screenshot())) > 1000, "a surface is not seen")
