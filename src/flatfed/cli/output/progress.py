"""Progress for people: a live bar on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

Row = dict[str, Any]
LINE_SECONDS = 5.0


class Progress:
    """Follows one run or several: rounds, the primary metric, time left."""

    def __init__(self, rounds: int, runs: int = 1) -> None:
        self.rounds, self.runs = rounds, runs
        self.begun, self.done_before, self.name = 0, 0, ""
        self.note = ""
        self.played, self.started, self.spoken = 0, time.monotonic(), -math.inf
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
            self._task = self._bar.add_task("", total=self.rounds * self.runs, left="", note="")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, path: Path, done: int) -> None:
        """Begin a run, of which some rounds may be done already."""
        self.done_before = self.begun * self.rounds
        self.begun += 1
        self.name = "/".join(path.parts[-2:]) if self.runs > 1 else path.name
        self.note = ""
        self._show(done)

    def round(self, row: Row) -> None:
        """Note a round."""
        self.played += 1
        self.note = _measured(row) or self.note
        self._show(row["round"] + 1)

    def say(self, text: str) -> None:
        """Tell something between the lines."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _show(self, round: int) -> None:
        complete = self.done_before + round
        left = f"{self._left(complete)} left" if self.played else ""
        if self._bar is not None:
            self._bar.update(self._task, completed=complete, description=self.name, note=self.note, left=left)
            return
        now = time.monotonic()
        if now - self.spoken >= LINE_SECONDS or round == self.rounds:
            self.spoken = now
            many = f" [{self.begun}/{self.runs}]" if self.runs > 1 else ""
            self.say(", ".join(filter(None, (f"{self.name}{many}: round {round}/{self.rounds}", self.note, left))))

    def _left(self, complete: int) -> str:
        """Return the time left, from the pace of the rounds played here."""
        return clock((time.monotonic() - self.started) / self.played * (self.rounds * self.runs - complete))


def _measured(row: Row) -> str:
    """Return the primary metric of an evaluated round: `accuracy 81.3 %`."""
    from flatfed.runs.metrics import metrics_of, primary_of

    metric = primary_of(metrics_of([row]))
    value = row.get(metric.column)
    if value is None:
        return ""
    return f"{metric.label} {100 * value:.1f} %" if metric.shown.unit == "%" else f"{metric.label} {value:.4g}"


class Steps:
    """Follows work of many like pieces: a live bar on a terminal, a line now and then elsewhere; on standard error.

    Args:
        unit: what is counted, `corruptions` say.
        at_once: whether a first line comes at once where there is no terminal.
    """

    def __init__(self, unit: str, at_once: bool = True) -> None:
        self.unit = unit
        self._bar: Any = None
        self._task: Any = None
        self._spoken = -math.inf if at_once else time.monotonic()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, name: str, done: int, total: int | None) -> None:
        """Tell what comes next, and how many of the pieces are done; a total that is not known yet is None."""
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = _steps_bar(self.unit)
                self._bar.start()
                self._task = self._bar.add_task("", total=total)
            self._bar.update(self._task, completed=done, total=total, description=name)
        elif time.monotonic() - self._spoken >= LINE_SECONDS and done != total:
            self._spoken = time.monotonic()
            self.say(name if total is None else f"{name} ({done + 1} of {total})")

    def say(self, text: str) -> None:
        """Tell something between the lines."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Return a duration as people read it."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}", justify="left"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )


def _steps_bar(unit: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    return Bar(*columns, console=Console(stderr=True), transient=True, expand=True)
