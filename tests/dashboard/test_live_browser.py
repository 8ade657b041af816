"""A browser follows a run that trains: rounds appear, and the page recovers when run and server are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nursery
from browser import expect, needs_browser
from dashboard.board import started
from dashboard.browsing import CUT_OFF, opened
from ports import free_ports
from studies.bench import COMMAND

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("plotly")
pytestmark = [needs_browser, pytest.mark.usefixtures("signals_heard")]

# More rounds than anybody waits for: it is killed.
ENDLESS = (
    "--rounds 200000 --clients 5 --per-round 2 --workers 0 --model logreg --evaluate-every 1 --checkpoint-every 10"
)


class Training:
    """A run in a process of its own, which can be killed and resumed."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "live"
        self._process = self._start(*f"run digits fedavg {ENDLESS} --out".split(), str(self._out))

    def _start(self, *arguments: str) -> nursery.Fresh:
        return nursery.start("-c", COMMAND, *arguments)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.end()

    def resume(self) -> None:
        self._process = self._start("resume", str(self._out))


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    run = Training(tmp_path)
    yield run
    run.kill()


POINTS = "() => Math.max(0, ...(document.querySelector('#curves .plot').data || []).flatMap(line => line.x))"
"""The last round that is drawn."""


def test_a_run_is_followed_through_the_ends_of_run_and_server(browser: Any, training: Training, tmp_path: Path) -> None:
    port = ("--port", str(*free_ports(1)))
    board = started(tmp_path, *port)
    shown = opened(browser, board.address)
    # It appears by itself, and grows.
    shown.row("live").wait_for()
    shown.wait_for_more("live", shown.wait_for_more("live", 0))
    shown.wait_for_status("live", "running")
    expect(shown.row("live").locator(".left")).not_to_have_text("")
    shown.pick("live")
    drawn = shown.page.evaluate(POINTS)
    shown.wait(f"drawn => ({POINTS})() > drawn", drawn)
    shown.check()
    # Its process is killed: the page says so. It is resumed: the page goes on.
    training.kill()
    shown.wait_for_status("live", "interrupted")
    before = shown.rounds("live")
    training.resume()
    shown.wait_for_status("live", "running")
    shown.wait_for_more("live", before)
    shown.wait(f"drawn => ({POINTS})() > drawn", before)
    shown.check()
    # The server is killed: the page says so. It is started again: the page goes on by itself.
    os.killpg(board.process.pid, signal.SIGKILL)
    board.process.end()
    shown.page.locator("#connection[data-state=lost]").wait_for()
    before = shown.rounds("live")
    board = started(tmp_path, *port)
    shown.page.locator("#connection[data-state=live]").wait_for()
    shown.wait_for_more("live", before)
    shown.wait(f"drawn => ({POINTS})() > drawn", before)
    # The browser itself complains about a server that is gone; the page does not.
    shown.errors = [error for error in shown.errors if not any(words in error for words in CUT_OFF)]
    shown.check()
    shown.page.close()
    assert board.end() == 0
