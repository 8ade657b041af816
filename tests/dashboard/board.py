"""A real dashboard in a process of its own, what it answers, and the events that it sends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nursery
from studies.bench import COMMAND, until

SECONDS = 180.0
"""A bound for a broken program, never a pace."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Event:
    name: str
    id: str
    data: Any


@dataclass
class Board:
    """A dashboard that runs."""

    process: nursery.Fresh
    address: str
    port: int

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask for a path, sent as it stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return Answer(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    @contextmanager
    def events(self, query: str = "", **headers: str) -> Iterator[Iterator[Event]]:
        """Open a stream of events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("GET", f"/events?{query}", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield _events(answer)
        finally:
            connection.close()

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the first list, by name."""
        with self.events() as events:
            first = next_of(events, "list")
        return {entry["name"]: entry for entry in first.data["entries"]}

    def end(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        os.kill(self.process.pid, signal.SIGINT)
        return self.process.end().returncode


def _events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            yield Event(fields["event"], fields["id"], json.loads(fields["data"]))
            fields = {}


def next_of(events: Iterator[Event], name: str, fits: Callable[[Any], object] = lambda data: True) -> Event:
    """Return the next event of a name that fits."""
    return next(event for event in events if event.name == name and fits(event.data))


def _text(file: Path) -> str:
    """Return what a process has written so far."""
    return file.read_text() if file.exists() else ""


def started(folder: Path, *options: str, command: str = COMMAND) -> Board:
    """Start a dashboard on a free port, or on the one that is named."""
    port = () if "--port" in options else ("--port", "0")
    process = nursery.start("-c", command, "dashboard", str(folder), *port, *options)
    out, err = process.folder / "out", process.folder / "err"
    pattern = re.compile(r"(http://\S+:(\d+)/\S*)\n")
    until(lambda: pattern.search(_text(out)) or _text(err))
    found = pattern.search(_text(out))
    assert found is not None, _text(err)
    return Board(process, found[1], int(found[2]))


@contextmanager
def dashboard(folder: Path, *options: str, command: str = COMMAND) -> Iterator[Board]:
    """Run a dashboard, and end it."""
    board = started(folder, *options, command=command)
    try:
        yield board
    finally:
        code = board.end()
    assert code == 0
