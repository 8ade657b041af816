"""One worker of a study as a job of a cluster: it works on the shared folder, and comes back when it is pre-empted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from flatfed.experiments.running.children import INTERRUPTED
from flatfed.machine import STOP_SIGNALS
from flatfed.named_code import NamedBy
from flatfed.studies.cells import Cell
from flatfed.studies.finishing import finish_study
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.study import Study
from flatfed.studies.workers.leases import CellProgress

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

PREEMPTION = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
"""What says that the job must go and may come back; any other signal to stop ends it for good."""
REQUEUE = signal.SIGUSR1
"""The signal for which submitit puts a job back into the queue."""


class Preempted(KeyboardInterrupt):
    """The cluster takes the machine back."""


class WorkerJob:
    """Works on a study until every cell has ended; submitit calls it, and `checkpoint` when it is to come back.

    Args:
        study: what is studied, as it was when the job was submitted.
        folder: the study's folder, which all workers share.
        home: the folder of the command that submitted it: relative paths of the study begin there.
        by: who names code.
        patience: seconds after which a cell of a worker that shows no sign of life is taken over.
        retry: whether cells that have failed are tried again, on the first turn.
    """

    def __init__(
        self, study: Study, folder: Path, home: Path, by: NamedBy, patience: float, retry: bool = False
    ) -> None:
        self.study, self.folder, self.home, self.by, self.patience = study, folder, home, by, patience
        self.retry = retry

    def __call__(self) -> str:
        """Work; when it is pre-empted, let the cells save, and only then ask to come back."""
        os.chdir(self.home)
        if str(self.home) not in sys.path:
            # As for the command itself: code of one's own lies there.
            sys.path.insert(0, str(self.home))
        come_back = signal.getsignal(REQUEUE)
        try:
            with _hearing():
                return self._work()
        except Preempted:
            print("pre-empted; the cells are saved and given back", file=sys.stderr, flush=True)
            if not callable(come_back):
                raise
            # Submitit's own: it calls `checkpoint`, asks the cluster for another turn, and ends this process.
            come_back(REQUEUE, None)
            raise
        except KeyboardInterrupt:
            print("interrupted; the cells are saved and given back", file=sys.stderr, flush=True)
            raise SystemExit(INTERRUPTED) from None

    def _work(self) -> str:
        running = RunningStudy(self.study, self.folder, self.by)
        if self.retry:
            running.retry()
        jobs = int(os.environ.get("SLURM_CPUS_PER_TASK") or 1)
        log = _Log(running)
        running.work(log, jobs, self.patience)
        finish_study(running, log.say, self.patience)
        return f"all cells of {self.folder} have ended"

    def checkpoint(self) -> DelayedSubmission:
        """Return what is to be done on the next turn: the same, as all progress is in the folder."""
        from submitit.helpers import DelayedSubmission

        again = WorkerJob(self.study, self.folder, self.home, self.by, self.patience)
        return DelayedSubmission(again)


@contextlib.contextmanager
def _hearing() -> Iterator[None]:
    """Let the first signal end the work; those after it wait, while the cells save."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        if heard:
            return
        heard.append(number)
        if number in PREEMPTION:
            raise Preempted(signal.Signals(number).name)
        raise KeyboardInterrupt(signal.Signals(number).name)

    before: dict[int, Any] = {}
    for number in {*STOP_SIGNALS, *PREEMPTION}:
        before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        for each, handler in before.items():
            # While it ends, one more signal must not end it otherwise: it has heard.
            signal.signal(each, signal.SIG_IGN if heard else handler)


class _Log:
    """Follows a study in the job's log: a line for each cell that begins or ends."""

    def __init__(self, running: RunningStudy) -> None:
        self.running = running
        self.say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)

    def began(self, cell: Cell) -> None:
        """Note that a cell has begun here."""
        self.say(f"{cell.name}: begins")

    def ended(self, cell: Cell) -> None:
        """Note that a cell has ended, here or elsewhere."""
        standing = self.running.folder.standing(cell)
        self.say(": ".join(filter(None, (cell.name, standing.state, standing.reason))))

    def shows(self, running: Sequence[tuple[Cell, CellProgress]], ended: int) -> None:
        """Leave it to the leases, which say how far each cell is."""
