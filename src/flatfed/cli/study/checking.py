"""`flatfed study check`: what a study would train and take, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.cli.output.progress import StepProgress, clock
from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.studies.checking.check_study import Checked
    from flatfed.studies.run_study import RunningStudy


def checked_here(running: RunningStudy, jobs: int) -> Checked:
    """Check a study, and show how far that is."""
    from flatfed.studies.checking.check_study import check_study

    with StepProgress("methods in settings", at_once=False) as progress:
        return check_study(running.resolver, jobs, progress.show)


def print_check(checked: Checked) -> None:
    """Print what was found."""
    if checked.title:
        echo(checked.title)
    # Not a product: a setting may have some of the methods.
    shape = f"{checked.variants} methods, {checked.settings} settings, {checked.seeds} seeds"
    more = f", {checked.choosing} of them to choose parameters" if checked.choosing else ""
    echo(f"{checked.cells} cells: {shape}{more}")
    for mistake in checked.mistakes:
        echo(f"Error: {mistake}", err=True)
    if not checked.mistakes:
        of_it = f", {clock(checked.measuring)} of it to measure" if checked.measuring else ""
        echo(f"about {clock(checked.seconds)} with {checked.jobs} at once{of_it}: by CPU time, a core for each cell")
        if checked.not_included:
            echo(f"not included: {'; '.join(checked.not_included)}")
        echo(f"about {_size(checked.disk)} on disk; {_size(checked.exchanged)} between clients and server")


def _size(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.0f} kB"
