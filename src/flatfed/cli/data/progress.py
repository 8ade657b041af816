"""How `flatfed data get` shows a download: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from flatfed.cli.output.streams import console, echo

MEGABYTE = 1e6


class Fetching:
    """Follows downloads; a `flatfed.data.acquiring.transfer.Report`."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Fetching:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, name: str, done: int, total: int | None) -> None:
        """Begin a file, or begin it anew."""
        if self._bar is None:
            echo(_announcement(name, done, total), err=True)
            return
        # A file that is begun anew has a bar already.
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=total, completed=done)

    def advance(self, count: int) -> None:
        """Note bytes that have come."""
        if self._bar is not None:
            self._bar.advance(self._task, count)

    def say(self, text: str) -> None:
        """Tell what happens."""
        if self._bar is not None:
            # Brackets in a name are no markup.
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            echo(text, err=True)


def _announcement(name: str, done: int, total: int | None) -> str:
    """Return the line that a download begins with."""
    line = f"fetching {name}"
    if total is not None:
        line += f", {total / MEGABYTE:.1f} MB"
    if done:
        line += f", going on from {done / MEGABYTE:.1f} MB"
    return line


def _bar() -> Any:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
        expand=True,
    )
