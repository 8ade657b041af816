"""What is sent to trackers of a comparison or a study as a whole, when its runs have ended."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from flatfed.experiments.comparing.comparison import Comparison
from flatfed.runs.directory import is_run
from flatfed.tracking.record import recorded_trackers
from flatfed.tracking.run_tracking import send, spelled
from flatfed.tracking.tracker import Tracker


def tracked(comparison: Comparison, out: Path) -> Comparison:
    """Return a comparison with its trackers: those that are asked for, or those of before."""
    if comparison.track is not None:
        return comparison
    return replace(comparison, track=recorded_trackers(out) or None)


def send_whole(
    trackers: Iterable[Tracker], runs: Sequence[Path], folder: Path, say: Callable[[str], None]
) -> dict[str, bool]:
    """Send what was measured of the runs, and then the report and the figures of the whole; say what could not be.

    Returned is for each tracker whether all is there.
    """
    begun = list(filter(is_run, runs))
    complete: dict[str, bool] = {}
    for tracker in trackers:
        complete[tracker.id] = send(tracker, [*begun, folder], say)
        if not complete[tracker.id]:
            command = f"flatfed track {shlex.quote(str(folder))} --to {shlex.quote(spelled(tracker))}"
            say(f"{folder}: not all is at {tracker.id}; send the rest with: {command}")
    return complete
