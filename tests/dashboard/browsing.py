"""A dashboard in a real browser: what it shows, complains about and asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from browser import Tab, expect, new_page

CUT_OFF = (
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "ERR_CONNECTION_CLOSED",
    "ERR_CONNECTION_REFUSED",
    "ERR_CONNECTION_RESET",
    "ERR_EMPTY_RESPONSE",
    "ERR_SOCKET_NOT_CONNECTED",
)
"""What a browser says of a server that is not there any more."""


@dataclass
class Shown(Tab):
    """A page of the dashboard."""

    address: str = ""

    def check(self) -> None:
        """Check that nothing went wrong, and that nobody but the server was asked."""
        self.check_quiet()
        foreign = [url for url in self.requests if not url.startswith((self.address, "data:", "blob:"))]
        assert foreign == []

    def wait_for_list(self) -> None:
        """Wait until the list is drawn, with what the server told first."""
        self.wait("Board.state.isComplete")
        expect(self.page.locator("#count")).not_to_have_text("Looking through the folder.")

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
        self.wait_for_picked(len(names))

    def wait_for_picked(self, count: int) -> None:
        """Wait until the parts of this number of picked runs are drawn; those of each by itself come last."""
        expect(self.page.locator("#details > details")).to_have_count(count)
        self.page.locator("#curves .main-svg").first.wait_for(state="attached")

    def open_details(self, place: int = 0) -> Any:
        """Open what is told of a picked run by itself."""
        details = self.page.locator("#details > details").nth(place)
        details.locator("summary").first.click()
        expect(details.locator("> div")).to_be_visible()
        return details

    def rounds(self, name: str) -> int:
        """Return how many rounds the list shows of a run."""
        return int(self.row(name).locator(".progress").inner_text().partition("/")[0] or 0)

    def wait_for_more(self, name: str, than: int) -> int:
        """Wait until the list shows more rounds of a run, and return how many."""
        self.until(lambda: self.rounds(name) > than, f"{name} stays at round {than}")
        return self.rounds(name)

    def wait_for_status(self, name: str, status: str) -> None:
        self.row(name).locator(f".status[data-status={status}]").wait_for()


def opened(browser: Any, address: str, width: int = 1280, **context: Any) -> Shown:
    """Open the dashboard, and wait for its list."""
    shown = Shown(new_page(browser, width, 900, **context), address=address.partition("?")[0])
    shown.listen()
    shown.page.goto(address)
    shown.wait_for_list()
    return shown
