"""Training as people follow it: a summary, then a live bar or plain lines, always on standard error."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from flatfed.cli.output.streams import console, echo

if TYPE_CHECKING:
    from flatfed.experiments.running.run import Run


Row = dict[str, Any]
LINE_SECONDS = 5.0
"""Between two lines where there is no terminal."""
ROOMY = 60
"""Columns from which on a bar shows a metric too."""
BAR, SHORTEST = 18, 8
"""Letters that the line of a bar takes besides its words: some of the bar, the time that has passed, and spaces; and
those of a name, at least."""
ALMOST = 0.99
"""The share of a round that its steps are at most: it has ended when its row is there."""
STARTING = "starting workers"
"""What is seen of a run between its summary and its first local steps."""


class Live:
    """Has a live bar on a terminal, from when there is something to show; elsewhere it says lines."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._news = ExitStack()

    def __enter__(self) -> Self:
        from flatfed.core.method.engine import listening

        self._news.enter_context(listening(self.say))
        self._hear()
        return self

    def _hear(self) -> None:
        """Hear of more than what engines say."""

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        self._news.close()
        if self._bar is not None:
            self._bar.stop()

    @property
    def _is_live(self) -> bool:
        """Whether a bar can be shown; while there is one, rich stands in the place of the terminal."""
        return self._bar is not None or sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Tell something between the lines."""
        if self._bar is not None:
            # Brackets in the text are no markup.
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            echo(text, err=True)

    def _begin(self, bar: Callable[[], Any], total: int | None, **fields: str) -> None:
        """Show the bar. Not before: it would stand above the summary, or where nothing is left to do."""
        if self._bar is None:
            self._bar = bar()
            self._bar.start()
            self._task = self._bar.add_task("", total=total, **fields)


class Progress(Live):
    """Follows one run: rounds, the primary metric, time left."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.name = ""
        self.note = ""
        self.round_done = 0
        self.share = 0.0
        self.is_begun = False
        self.played = 0
        self.started = time.monotonic()
        # The first line comes at once.
        self.spoken = -math.inf

    def _hear(self) -> None:
        from flatfed.core.round.step_count import hearing_steps

        self._news.enter_context(hearing_steps(self.steps))

    def start(self, path: Path, done: int) -> None:
        """Begin a run, of which some rounds may be done already."""
        self.started, self.is_begun = time.monotonic(), True
        self.name = path.name
        self.note = STARTING
        self._show(done)

    def steps(self, done: int, total: int) -> None:
        """Note how many of the local steps of the round that is played are done."""
        if not self.is_begun:
            return  # a trial, before the run
        # A round of several exchanges has the steps of each: it is not further than it was.
        self.share = max(self.share, min(done / max(total, 1), ALMOST))
        if self.note == STARTING:
            self.note = ""
        self._show(self.round_done)

    def round(self, row: Row) -> None:
        """Note a round."""
        self.played += 1
        self.share = 0.0
        # Rounds that are not evaluated leave the last value in sight.
        self.note = measured(row) or self.note.replace(STARTING, "")
        self._show(row["round"] + 1)

    def _show(self, round: int) -> None:
        self.round_done = round
        complete = round + self.share
        left = self._left(complete)
        if self._is_live:
            self._begin(rounds_bar, self.rounds, left="", note="")
            note = self.note if columns() >= ROOMY else ""
            name = clipped(self.name, len(f"{self.rounds}" * 2 + f"/ rounds {note} {left}"))
            # At once: it may be over before the bar is drawn again.
            is_new = self.note == STARTING
            self._bar.update(self._task, completed=complete, description=name, note=note, left=left, refresh=is_new)
        elif self._is_due(round):
            self.spoken = time.monotonic()
            place = f"{self.name}: round {round}/{self.rounds}"
            self.say(", ".join(filter(None, (place, self.note.replace(STARTING, ""), left))))

    def _is_due(self, round: int) -> bool:
        """Say whether a line comes: in a log one per round would be too many, but how each run ended must be there."""
        return is_line_due(self.spoken) or round == self.rounds

    def _left(self, complete: float) -> str:
        """Return the time left, by the pace of the rounds played here: those of before took their time elsewhere.

        The round that is being played counts by its share of steps: an estimate need not wait for its end.
        """
        played = self.played + self.share
        if not played:
            return ""
        pace = (time.monotonic() - self.started) / played
        return f"{clock(pace * (self.rounds - complete))} left"


def measured(row: Row) -> str:
    """Return the primary metric of an evaluated round: `accuracy 81.3 %`."""
    from flatfed.runs.metrics import metrics_of, primary_of

    metric = primary_of(metrics_of([row]))
    value = row.get(metric.column)
    if value is None:
        return ""
    return f"{metric.label} {100 * value:.1f} %" if metric.shown.unit == "%" else f"{metric.label} {value:.4g}"


class StepProgress(Live):
    """Follows work of many like pieces: a live bar on a terminal, a line now and then elsewhere; on standard error.

    Args:
        unit: what is counted, `corruptions` say.
        at_once: whether a first line comes at once where there is no terminal.
    """

    def __init__(self, unit: str, at_once: bool = True) -> None:
        super().__init__()
        self.unit = unit
        self._done: int | None = None
        self._spoken = -math.inf if at_once else time.monotonic()

    def show(self, name: str, done: int, total: int | None) -> None:
        """Tell what comes next, and how many of the pieces are done; a total that is not known yet is None."""
        if self._is_live:
            self._begin(partial(_steps_bar, self.unit), total)
            shown = clipped(name, len(f"{total}/{total} {self.unit} 0:00:00"))
            # A new piece is drawn at once; what happens within it, when the bar is drawn anyway.
            self._bar.update(self._task, completed=done, total=total, description=shown, refresh=done != self._done)
            self._done = done
        # After the last piece nothing comes next.
        elif is_line_due(self._spoken) and done != total:
            self._spoken = time.monotonic()
            self.say(name if total is None else f"{name} ({done + 1} of {total})")


def is_line_due(spoken: float) -> bool:
    """Say whether it is time for another line, after the one of then."""
    return time.monotonic() - spoken >= LINE_SECONDS


def clipped(name: str, beside: int) -> str:
    """Return a name that leaves room for what stands beside it in a bar; its end, which changes most, is kept too."""
    room = max(columns() - beside - BAR, SHORTEST)
    if len(name) <= room:
        return name
    first = (room - 1) // 2
    return f"{name[:first]}…{name[len(name) - (room - 1 - first) :]}"


def columns() -> int:
    """Return how wide the terminal is."""
    return shutil.get_terminal_size().columns


def clock(seconds: float) -> str:
    """Return a duration as people read it."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rounds_bar() -> Any:
    """Return a bar of rounds."""
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
        console=console(stderr=True),
        transient=True,
        expand=True,
    )


def _steps_bar(unit: str) -> Any:
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
    return Bar(*columns, console=console(stderr=True), transient=True, expand=True)


class Following:
    """Follows one run: its summary when it begins, then round by round."""

    def __init__(self, out: Path, progress: Progress) -> None:
        self._out, self._progress = out, progress
        self.round, self.say = progress.round, progress.say

    def begin(self, config: dict[str, Any], done: int = 0) -> None:
        """Tell what is about to be trained, of which some rounds may be done already."""
        from flatfed.cli.output.results import run_text

        self.say(run_text(config, self._out))
        self._progress.start(self._out, done)


def follow(out: Path, rounds: int, train: Callable[[Following], Run], as_json: bool) -> int:
    """Let one run train, write its report, print its table and return the exit code."""
    from flatfed.cli.output.results import finish_run

    with Progress(rounds) as progress:
        result = train(Following(out, progress))
    # After the bar has gone, because the table may share the terminal with it.
    return finish_run(result, out, as_json)


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Show on a terminal what is being waited for; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(words, spinner="line"):
        yield


@contextmanager
def interruptible(remark: str) -> Iterator[None]:
    """Say in place of an interrupt what becomes of the work."""
    try:
        yield
    except KeyboardInterrupt:
        # Raised again, because the exit code is still that of an interrupt.
        raise KeyboardInterrupt(remark) from None
