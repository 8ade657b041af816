"""Training as people follow it: the summary, the progress, and at the end the report. Every command trains this way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.cli.output.progress import Progress

if TYPE_CHECKING:
    from flatfed.experiments.running.run import Run


class Following:
    """Follows one run: its summary when it begins, then round by round."""

    def __init__(self, out: Path, progress: Progress) -> None:
        self._out, self._progress = out, progress
        self.round, self.say = progress.round, progress.say

    def begin(self, config: dict[str, Any], done: int = 0) -> None:
        """Tell what is about to be trained, of which some rounds may be done already."""
        from flatfed.cli.output.summary import run_text

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
def interruptible(remark: str) -> Iterator[None]:
    """Say in place of an interrupt what becomes of the work."""
    try:
        yield
    except KeyboardInterrupt:
        # Raised again, because the exit code is still that of an interrupt.
        raise KeyboardInterrupt(remark) from None
