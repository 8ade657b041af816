"""A browser draws the page, without the network and without an error."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb

from flatfed.reports.figures.drawing.style import COLOURS
from flatfed.reports.figures.interactive import write_surface_page
from reports.figures.inputs import LONG, bowl

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = "--headless --no-sandbox --window-size=1200,900 --virtual-time-budget=8000 --use-gl=swiftshader"
FLAGS += " --enable-unsafe-swiftshader --enable-logging=stderr"

pytest.importorskip("plotly")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no browser")


def browse(page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [BROWSER, *FLAGS.split(), profile, *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    losses = bowl().losses.copy()
    losses[0, 0] = np.nan
    write_surface_page([bowl(LONG, 0.9), replace(bowl(), losses=losses)], tmp_path / "a.html", "Loss around models")
    return tmp_path / "a.html"


def test_the_page_draws_without_an_error(page: Path) -> None:
    actual = browse(page, "--dump-dom")
    said = [line for line in actual.stderr.splitlines() if "CONSOLE" in line]
    assert not [line for line in said if re.search(r"Uncaught|Refused|violates|ERR_|Error:", line)]
    assert re.search(r'<div id="scene".*?<canvas', actual.stdout, re.DOTALL)
    assert '<svg class="main-svg"' in actual.stdout
    legend = re.findall(r'class="legendtext"[^>]*>([^<]*)<', actual.stdout)
    assert legend == [f"{LONG}: loss 0.4 at the centre", "fedavg: loss 0.4 at the centre"]
    assert "WebGL is not supported" not in re.sub(r"<script.*?</script>", "", actual.stdout, flags=re.DOTALL)


def test_both_surfaces_are_seen(page: Path) -> None:
    picture = page.parent / "a.png"
    browse(page, f"--screenshot={picture}")
    pixels = rgb_to_hsv(matplotlib.image.imread(picture)[100:, :, :3])  # below the legend
    coloured = pixels[pixels[..., 1] > 0.5]
    for colour in COLOURS[:2]:
        hue = rgb_to_hsv(to_rgb(colour))[0]
        assert np.count_nonzero(np.abs(coloured[:, 0] - hue) < 0.03) > 1000
