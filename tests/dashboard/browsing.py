"""A dashboard in a real browser: what it shows, complains about and asks for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from reports.page.test_page_browser import BROWSER, FLAGS

MILLISECONDS = 60_000
"""A bound for a broken page, never a pace."""
NO_SERVER = "ERR_CONNECTION_REFUSED"
"""What a browser says of a server that is not there."""
CUT_OFF = ("ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", NO_SERVER)


@dataclass
class Shown:
    """A page of the dashboard."""

    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def hear(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def check(self) -> None:
        """Check that nothing went wrong, and that nobody but the server was asked."""
        assert self.errors == []
        foreign = [url for url in self.requests if not url.startswith((self.address, "data:", "blob:"))]
        assert foreign == []
        assert self.page.evaluate("window.pwned") is None

    def wait(self, condition: str, argument: Any = None) -> None:
        """Wait until something is so on the page, whose policy forbids the browser to evaluate texts by itself."""
        end = time.monotonic() + MILLISECONDS / 1000
        while not self.page.evaluate(condition, argument):
            assert time.monotonic() < end, f"it does not come to pass: {condition}"
            self.page.wait_for_timeout(20)

    def rows(self) -> list[str]:
        """Return the names of the runs that the list shows."""
        names: list[str] = self.page.locator("#runs tbody tr[data-run] th").evaluate_all(
            "heads => heads.map(head => head.firstChild.textContent)"
        )
        return names

    def row(self, name: str) -> Any:
        """Return the line of a run."""
        return self.page.locator(f"#runs tr[data-run]:has(input[aria-label='pick {name}'])")

    def pick(self, *names: str) -> None:
        """Pick runs, and wait for their curves."""
        for name in names:
            self.row(name).locator("input").check()
        self.wait("count => Picked.drawn().length === count", len(names))
        self.page.locator("#curves .main-svg").first.wait_for(state="attached")

    def rounds(self, name: str) -> int:
        """Return how many rounds the list shows of a run."""
        return int(self.row(name).locator(".progress").inner_text().partition("/")[0] or 0)

    def wait_for_more(self, name: str, than: int) -> int:
        """Wait until a run has more rounds, and return how many."""
        entries = "Array.from(Board.entries.values())"
        self.wait(f"([name, than]) => {entries}.some(e => e.name === name && e.rounds > than)", [name, than])
        return self.rounds(name)

    def wait_for_status(self, name: str, status: str) -> None:
        self.row(name).locator(f".status[data-status={status}]").wait_for()


def opened(browser: Any, address: str, width: int = 1280, **context: Any) -> Shown:
    """Open the dashboard, and wait for its list."""
    tab = browser.new_context(viewport={"width": width, "height": 900}, **context).new_page()
    tab.set_default_timeout(MILLISECONDS)
    shown = Shown(tab, address.partition("?")[0])
    tab.on("console", shown.hear)
    tab.on("pageerror", lambda error: shown.errors.append(str(error)))
    tab.on("dialog", lambda dialog: shown.errors.append(dialog.message))
    tab.on("request", lambda request: shown.requests.append(request.url))
    tab.goto(address)
    shown.wait("Board.state.isComplete")
    return shown


__all__ = ["BROWSER", "CUT_OFF", "FLAGS", "Shown", "opened"]
