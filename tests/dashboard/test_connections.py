"""Connections: too many, silent, and unread ones cost nobody else the dashboard."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dashboard.board import Board, dashboard
from reports.disk import write_run
from studies.bench import COMMAND, until

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytestmark = pytest.mark.usefixtures("signals_heard")

SOME = 12
BOUNDS = "from flatfed.dashboard.serving import connections as c; c.IDLE_SECONDS, c.MOST_CONNECTIONS = {}, {}; "
ASKED = b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    """Run a dashboard that soon ends connections that stand still."""
    folder = tmp_path_factory.mktemp("folder")
    write_run(folder / "run")
    with dashboard(folder, command=BOUNDS.format(2, 256) + COMMAND) as started:
        yield started


def held(board: Board) -> int:
    """Return how many connections the server holds: those of its port that have an owner, but the one that listens."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    own = [field for field in fields if field[1].endswith(f":{board.port:04X}") and field[3] != "0A"]
    return sum(field[9] != "0" for field in own)


def connected(board: Board, sent: bytes) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", board.port))
    made.sendall(sent)
    return made


@pytest.mark.parametrize("sent", [b"", b"GET / HT", ASKED % b"/" + b"GET /", ASKED % b"/files/plotly.js"])
def test_who_asks_for_nothing_or_reads_nothing_is_let_go(sent: bytes, board: Board) -> None:
    with ExitStack() as stack:
        for _ in range(SOME):
            stack.enter_context(connected(board, sent))
        until(lambda: not held(board))
        assert board.ask("/").status == 200


def test_a_stream_that_is_read_stays(board: Board) -> None:
    with board.events() as events:
        assert [next(events).name, next(events).name] == ["hello", "list"]
        for _ in range(3):
            with connected(board, b"") as silent:
                assert silent.recv(1) == b"", "the time for those that stand still has passed"
        until(lambda: held(board) == 1)


def test_no_more_than_some_are_taken_and_the_others_are_answered(tmp_path: Path) -> None:
    with dashboard(tmp_path, command=BOUNDS.format(1000, SOME) + COMMAND) as board, ExitStack() as stack:
        first = [stack.enter_context(connected(board, b"")) for _ in range(SOME)]
        assert stack.enter_context(connected(board, b"")).recv(1) == b"", "one too many"
        first[0].sendall(ASKED % b"/")
        assert first[0].recv(15) == b"HTTP/1.1 200 OK"
