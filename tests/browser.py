"""A real browser for the tests of pages: where it is, what a page complains about and asks for, how it is waited for.

A page draws when it comes to it: lists with the next frame, figures later still. So what a test reads after it has done
something, it waits for: with `expect`, or with the methods of `Tab`. What it waits for must be so afterwards alone.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
SECONDS = 180.0
"""A bound for a broken page, never a pace."""
PAUSE = 20
"""Milliseconds between two looks at a page."""

needs_browser = pytest.mark.skipif(
    BROWSER is None or importlib.util.find_spec("playwright") is None, reason="there is no browser, or no Playwright"
)


@contextmanager
def launched() -> Iterator[Any]:
    """Run a browser."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * SECONDS)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=FLAGS, timeout=1000 * SECONDS)
        yield browser
        browser.close()


def expect(shown: Any) -> Any:
    """Return Playwright's assertions on a part of a page: each waits until it holds."""
    from playwright.sync_api import expect

    return expect(shown)


@dataclass
class Tab:
    """A page in a browser, with what it and the pages that it opens complained about and asked for."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Hear of errors and requests from now on."""
        context = self.page.context
        context.on("console", self._hear)
        context.on("weberror", lambda failure: self.errors.append(str(failure.error)))
        context.on("dialog", self._refuse)
        context.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _refuse(self, dialog: Any) -> None:
        self.errors.append(dialog.message)
        dialog.dismiss()

    def check_quiet(self) -> None:
        """Check that nothing went wrong, and that no script of others was run."""
        assert self.errors == []
        assert self.page.evaluate("window.pwned") is None

    def until(self, condition: Callable[[], object], words: str = "it does not come to pass") -> None:
        """Wait until something is so."""
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, words
            self.page.wait_for_timeout(PAUSE)

    def wait(self, condition: str, argument: Any = None) -> None:
        """Wait until something is so on the page, whose policy forbids the browser to evaluate texts by itself."""
        self.until(lambda: self.page.evaluate(condition, argument), f"it does not come to pass: {condition}")

    def settle(self, read: Callable[[], Any], expected: Any) -> None:
        """Wait until what is read is as expected; where it never is, say what it was."""
        end = time.monotonic() + SECONDS
        while (actual := read()) != expected:
            assert time.monotonic() < end, (actual, expected)
            self.page.wait_for_timeout(PAUSE)

    def wait_until_within(self) -> None:
        """Wait until nothing reaches beyond the right edge."""
        self.wait("document.documentElement.scrollWidth <= innerWidth")

    def hover(self, figure: Any) -> Any:
        """Move over the last round of curves until their values are shown: what is being drawn hears of no mouse."""
        values = self.page.locator(".hoverlayer .legend").first
        area, line = figure.locator(".nsewdrag").first, figure.locator(".scatterlayer .js-line").last

        def move() -> bool:
            area.hover(force=True)
            box, end = area.bounding_box(), line.evaluate("line => line.getBoundingClientRect().right")
            self.page.mouse.move(end - 2, box["y"] + box["height"] / 2)
            is_shown: bool = values.count() > 0
            return is_shown

        self.until(move, "no values are shown")
        return values


def new_page(browser: Any, width: int, height: int, **context: Any) -> Any:
    """Return an empty page in a window of its own."""
    window = browser.new_context(viewport={"width": width, "height": height}, **context)
    window.set_default_timeout(1000 * SECONDS)
    return window.new_page()


def choose_each_number(figure: Any) -> None:
    """Choose every number of a figure, the first one last, and wait for each."""
    select = figure.locator("select")
    first, *others = select.locator("option").evaluate_all("options => options.map(o => [o.value, o.textContent])")
    for value, label in [*others, first]:
        select.select_option(value)
        expect(figure.locator(".ytitle")).to_have_text(label)
