"""What follows the training of a study: measurements of its models, the report, the figures, and the page."""

from __future__ import annotations

from dataclasses import dataclass

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.experiments.comparing.send_whole import send_whole
from flatfed.studies.drawing.draw_figures import draw_figures, undrawn
from flatfed.studies.reporting import write_study_report
from flatfed.studies.reporting.measuring import measure_study, unmeasured
from flatfed.studies.reporting.study_page import write_study_page
from flatfed.studies.reporting.study_runs import Say
from flatfed.studies.results import StudyTable
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.workers.leases import PATIENCE


@dataclass(frozen=True)
class Remarks:
    """Follows what is done, and hears remarks alone."""

    say: Say

    def show(self, name: str, done: int, total: int | None) -> None:
        """Leave the steps."""


def left_to_finish(running: RunningStudy) -> tuple[str, int]:
    """Say what is left to do when every cell has ended, and how many processes can share it; nothing where all is done.

    Runs are measured by several at once, figures are drawn by one.
    """
    try:
        runs, pictures = len(unmeasured(running)), len(undrawn(running))
    except FlatfedError:
        # Whoever does it will say why it cannot be.
        return "what follows the training", 1
    words = [f"{runs} runs to measure"] if runs else []
    words += [f"{pictures} pictures to draw"] if pictures else []
    return " and ".join(words), max(runs, 1)


def finish_study(running: RunningStudy, say: Say, patience: float = PATIENCE) -> StudyTable:
    """Do what `flatfed study run` does when every cell has ended, in this process, and return the table."""
    remarks = Remarks(say)
    measure_study(running, remarks.show, say, patience=patience)
    table = running.table()
    write_study_report(table, running.folder.path, say)
    try:
        draw_figures(running, remarks, workers=0)
    except ConfigError as error:
        # Without matplotlib the rest is still there.
        say(f"figures: not drawn: {error}")
    write_study_page(running)
    send_study(running, say)
    return table


def send_study(running: RunningStudy, say: Say) -> None:
    """Send what is known only when all has ended: measurements, the report and the figures."""
    runs = [running.folder.run_of(cell) for cell in running.cells()]
    send_whole(running.trackers, runs, running.folder.path, say)
