"""Make the pictures of the report and the dashboard for the docs: trains a little, and takes them with Chromium.

python docs/write_screenshots.py                 # trains in screenshots/, some minutes
python docs/write_screenshots.py --from FOLDER   # what was trained before
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
MOST_BYTES = 300_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]

DEMO = (
    "compare digits fedavg fedsam fedasam+swa scaffold feddyn+sam fedgloss+sam fedgmt --config examples/demo.yaml "
    "--seeds 0,1 --flatness --out"
)
"""What `make demo` runs."""
LIVE = "run digits fedgloss+sam --config examples/demo.yaml --rounds 100000 --seed 2 --workers 0 --out"
STUDY: dict[str, Any] = {
    "title": "one class per client, and mixed",
    "dataset": "digits",
    "rounds": 6,
    "clients": 10,
    "per_round": 4,
    "model": "logreg",
    "lr": 0.1,
    "evaluate_every": 1,
    "methods": {"fedavg": None, "fedsam": None, "too far": "fedavg(server_lr=1e30)"},
    "settings": {"alpha 0": {"alpha": 0}, "alpha 100": {"alpha": 100}},
    "seeds": [0, 1, 2],
}


@dataclass(frozen=True)
class Shot:
    """A picture: its file, the colours, and the size of the window."""

    file: str
    colours: str
    width: int = 1280
    height: int = 960


REPORTS = [Shot("report-light.png", "light"), Shot("report-dark.png", "dark")]
BOARDS = [Shot("dashboard-light.png", "light", height=1160), Shot("dashboard-dark.png", "dark", height=1160)]


def flatfed(arguments: str, *more: Path) -> list[str]:
    """Return a command of flatfed."""
    return [sys.executable, "-m", "flatfed", *shlex.split(arguments), *map(str, more)]


def train(folder: Path) -> None:
    """Train a comparison and a study."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    demo, file = folder / "demo", folder / "study.yaml"
    file.write_text(json.dumps(STUDY))  # JSON is YAML
    commands = [
        flatfed(DEMO, demo),
        flatfed("study run", file, Path("--out"), folder / "study"),
    ]
    for command in commands:
        subprocess.run(command, cwd=HERE.parent, check=True)


@contextlib.contextmanager
def background(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command meanwhile."""
    with subprocess.Popen(
        command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def opened(browser: Any, address: str, shot: Shot) -> Any:
    """Open a page in a window of a picture's size."""
    size = {"width": shot.width, "height": shot.height}
    page = browser.new_context(viewport=size, color_scheme=shot.colours).new_page()
    page.goto(address, timeout=120_000)
    return page


def keep(page: Any, shot: Shot) -> None:
    """Save a picture."""
    file = PICTURES / shot.file
    page.wait_for_timeout(500)  # until nothing moves any more
    taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    # 256 colours are as many as a page has, but for shades of letters; colours of lines have to stay what they are.
    few = taken.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    assert file.stat().st_size < MOST_BYTES, f"{file} is too large"
    print(file, file.stat().st_size)


def shoot_report(browser: Any, folder: Path) -> None:
    """Take the pictures of the report."""
    page_file = folder / "report.html"
    subprocess.run(flatfed("report --out", page_file, folder / "demo"), cwd=HERE.parent, check=True)
    for shot in REPORTS:
        page = opened(browser, page_file.resolve().as_uri(), shot)
        curves = page.locator("[data-figure=curves]")
        curves.scroll_into_view_if_needed()
        curves.locator(".main-svg").first.wait_for(state="attached")
        page.locator("h2", has_text="Results").evaluate("head => head.scrollIntoView({ behavior: 'instant' })")
        keep(page, shot)
        page.close()


def shoot_board(browser: Any, folder: Path, address: str) -> None:
    """Take the pictures of the dashboard, while a run trains."""
    for shot in BOARDS:
        page = opened(browser, address, shot)
        page.locator("#runs tr", has_text="live").locator(".status[data-status=running]").wait_for(timeout=120_000)
        page.locator("#grids table.grid").wait_for(timeout=120_000)
        for name in ("fedavg/seed-0", "fedavg/seed-1", "feddyn+sam/seed-0", "feddyn+sam/seed-1", "fedgmt/seed-0"):
            page.locator(f"#runs input[aria-label='pick demo/{name}']").check()
        page.locator("#curves .main-svg").first.wait_for(state="attached")
        page.locator("#list .scroll").evaluate("box => { box.style.maxHeight = '20rem'; box.scrollTo(0, 0); }")
        # Where the pictures were taken says nothing to a reader.
        page.locator("#folder").evaluate("place => { place.textContent = 'runs'; }")
        page.evaluate("window.scrollTo(0, 0)")
        keep(page, shot)
        page.close()


def main() -> None:
    """Train where nothing was trained, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="folder", type=Path)
    options = parser.parse_args()
    folder = (options.folder or HERE.parent / "screenshots").resolve()
    if options.folder is None:
        train(folder)
    # What only this script needs is imported here.
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        shoot_report(browser, folder)
        shutil.rmtree(folder / "live", ignore_errors=True)
        with background(flatfed(LIVE, folder / "live")), background(flatfed("dashboard --port 0", folder)) as server:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            shoot_board(browser, folder, found[0])
        browser.close()


if __name__ == "__main__":
    main()
