"""Play a plan to its end: engine, loop, history, checkpoints, and every way it can stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from flatfed.core.errors import DiskFullError, EngineError, FlatfedError, Interrupted
from flatfed.core.method.engine import Engine, tell
from flatfed.core.model.devices import single_thread
from flatfed.core.round.federation import Federation
from flatfed.experiments.planning.outside_parts import record_of_code
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import describe
from flatfed.experiments.running.callbacks import Callbacks
from flatfed.experiments.running.final_model import write_model
from flatfed.experiments.running.interruption import Interruption, RunInterrupted
from flatfed.experiments.running.run import STOPPING, Run
from flatfed.experiments.tasks.recipe import preprocessing_of, remember, write_task
from flatfed.machine import disk_full, no_room
from flatfed.runs.checkpoints import Check, Loaded, Marks, restore, stores_of, tensors_of
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.history import History, Row, salvaged_rows
from flatfed.tracking.run_tracking import RunTracking

# In seconds and not in rounds, which may take milliseconds or minutes: a crash costs about this much work.
CHECKPOINT_SECONDS = 30.0

OnRound = Callbacks | Callable[[Row], None] | None
Say = Callable[[str], None]


def play(
    plan: Plan,
    out: Path | None,
    on_round: OnRound = None,
    about: dict[str, str] | None = None,
    on_begin: Callable[[dict[str, Any]], None] = lambda config: None,
) -> Run:
    """Train from the beginning, in a new run directory where `out` is given; `about` is kept with it for reports.

    `on_begin` is called with the record when nothing was refused.
    """
    if out is None:
        return _Session(plan, None, on_round).run()
    recipe, tensors = write_task(plan.task, plan.task_recipe, plan.named_by)
    record = {"task": recipe, **record_of_code(plan, recipe), "setting": describe(plan), "about": about or {}}
    record |= preprocessing_of(plan.task)
    directory = RunDirectory.create(out, plan.to_config() | record)
    with directory.lock():
        directory.begin()
        on_begin(directory.config)
        tensors(directory.path)
        remember(directory.path, plan.task)
        return _Session(plan, directory, on_round).run()


def continue_play(
    plan: Plan,
    directory: RunDirectory,
    on_round: OnRound = None,
    say: Say = lambda text: None,
    accept_changed_history: bool = False,
) -> Run:
    """Go on from a directory's newest good checkpoint."""
    with directory.lock():
        directory.refuse_continued()
        session = _Session(
            plan, directory, on_round, resume=True, say=say, accept_changed_history=accept_changed_history
        )
        return session.run()


def branch_play(plan: Plan, directory: RunDirectory, start: Loaded, rows: list[Row], on_round: OnRound = None) -> Run:
    """Train in a new run directory, whose lock is held, from another run's state and the rows up to there."""
    return _Session(plan, directory, on_round, start=(start, rows)).run()


def _rows_before(round: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Leave out the rows from `round` on: they will be made again."""
    return (row for row in rows if row["round"] < round)


class _Session:
    """One stretch of training, from a start or a checkpoint to wherever it stops."""

    def __init__(
        self,
        plan: Plan,
        directory: RunDirectory | None,
        on_round: OnRound,
        resume: bool = False,
        say: Say = lambda text: None,
        start: tuple[Loaded, list[Row]] | None = None,
        accept_changed_history: bool = False,
    ) -> None:
        self.accept_changed_history = accept_changed_history
        self.plan, self.directory, self.resume, self.start = plan, directory, resume, start
        self.callbacks, self.say = Callbacks.of(on_round), say
        self.checkpoints = directory.checkpoints if directory else None
        self.history = History(directory.history_path if directory else None)
        self.saved_round, self.saved_at = -1, time.monotonic()
        self.tracking = RunTracking(plan.track, tell) if plan.track else None

    def run(self) -> Run:
        """Train; whatever happens, save what was reached and say how it stands."""
        # Around the engine: an interrupt while workers start or end is noted, and does not leave some of them behind.
        with single_thread(), Interruption() as interruption:
            try:
                run = self._run(interruption)
                if interruption.requested:
                    raise RunInterrupted("interrupted; this run had come to its end", run)
            except RunInterrupted as error:
                error.number = interruption.number
                raise
            return run

    def _run(self, interruption: Interruption) -> Run:
        """Train with an engine of its own, which has ended when this returns."""
        with ExitStack() as stack:
            if self.tracking is not None:
                # First, to be last: what is left to send is sent when the workers have ended.
                stack.callback(self.tracking.finish, lambda: interruption.requested)
            engine = self._started_engine(interruption.pulse)
            stack.callback(engine.close)
            stack.callback(self._close_history)
            scratch = None if self.directory is None else self.directory.path
            federation = self.plan.federation(engine, scratch)
            stack.callback(self._leave, federation)
            with self._full_disk_told():
                self._begin(federation)
                run = Run(federation, self.history, self.directory, self.plan.validation)
                self._begin_tracking()
                self._play(federation, run)
            return run

    def _begin_tracking(self) -> None:
        if self.tracking is not None and self.directory is not None:
            self.tracking.begin(self.directory.path)

    def _started_engine(self, pulse: Callable[[], None]) -> Engine:
        try:
            return self.plan.engine(pulse)
        except FlatfedError:
            if self.directory is not None:
                self.directory.withdraw()
            raise

    def _play(self, federation: Federation, run: Run) -> None:
        """Play all rounds that are left; however it ends, the directory says so."""
        try:
            self._play_rounds(federation, run)
        except EngineError:
            raise  # the state is sound, and was saved
        except Exception as error:
            # Where it struck is not known, so the last checkpoint is the one to trust.
            self._fail(run, _reason(error))
            raise
        finally:
            self._release()

    def _play_rounds(self, federation: Federation, run: Run) -> None:
        """Play all rounds that are left, and save where they end."""
        try:
            for row in federation.rounds():
                self._note(federation, row)
        except Interrupted:
            federation.status = "interrupted"
            self._catch_up(federation)
            self._end(federation, run)
            raise RunInterrupted(self._how_to_resume(federation), run) from None
        except EngineError as error:
            federation.status, federation.reason = "failed", str(error)
            # The evaluation may fail for the same reason as the client did.
            with suppress(EngineError):
                self._catch_up(federation)
            self._end(federation, run)
            raise self._with_hint(error) from error
        self._end(federation, run)

    def _fail(self, run: Run, reason: str) -> None:
        """Say in the directory that the run failed; the error itself matters more than whether that can be written."""
        if self.directory is not None:
            self._release()
            # The summary reads the history, which may be what is at fault.
            with suppress(OSError, FlatfedError):
                self.directory.set_status("failed", reason, run.summary)

    def _release(self) -> None:
        if self.directory is not None:
            self.directory.release()

    def _close_history(self) -> None:
        # Every row is written when it is added: what is left to write is of one that could not be.
        with suppress(OSError):
            self.history.close()

    @contextmanager
    def _full_disk_told(self) -> Iterator[None]:
        """Say of a full disk which file it was, and what to do."""
        try:
            yield
        except Exception as error:
            if disk_full(error) is None:
                raise
            raise DiskFullError(f"{_reason(error)}; {self._when_there_is_room()}") from error

    def _when_there_is_room(self) -> str:
        if self.directory is None or not is_run(self.directory.path):
            return "make room and start again"
        return f"make room, then continue with: {self.directory.how_to_resume}"

    def _begin(self, federation: Federation) -> None:
        """Let the federation be where it starts, and the directory say that it runs."""
        if self.directory is None:
            federation.keeps_past = True  # a directory has it in its checkpoints
            return
        # Where a checkpoint is due, the row must not come a round late, when the state has moved on.
        federation.settles = self.plan.saves
        # The lock is held, so no other process that trains this run is in the middle of writing.
        self.directory.sweep()
        if self.resume:
            self._go_on(federation, self.directory)
        else:
            if self.start is not None:
                self._take_over(federation, *self.start)
            else:
                # Now, so that its name is on the disk before a checkpoint builds on its rows.
                self.history.begin([])
            self._save(federation)
            # The checkpoint comes before the record: what counts as a run can always be resumed.
            self.directory.publish()
        self.directory.reserve()
        self.directory.set_status("running")

    def _go_on(self, federation: Federation, directory: RunDirectory) -> None:
        """Let the federation be as the newest good checkpoint has it, and note what is asked for anew."""
        assert self.checkpoints is not None
        # Through the same object that will save: states that do not change are not written again.
        loaded = self.checkpoints.load_newest(self.say, self._check(directory))
        restore(federation, loaded.round, loaded.tensors, loaded.states)
        if self._asks_anew(directory):
            if federation.steering is not None:
                self.plan = self.plan.going_on(loaded.round)
                federation.steering = self.plan.steering()
            directory.rewrite(directory.config | self.plan.to_config())
        else:
            directory.record_changes()  # the data may lie elsewhere now
        self.history.begin(_rows_before(loaded.round, self._recorded(directory)))
        self._take_rows(federation)
        self.saved_round = loaded.round
        if self.accept_changed_history:
            # Anew, with the mark of the rows that were accepted: the next to resume need not accept them again.
            self._write_checkpoint(federation)

    def _asks_anew(self, directory: RunDirectory) -> bool:
        """Say whether the run is to end elsewhere than its record says."""
        now, recorded = self.plan.to_config()["settings"], directory.config["settings"]
        # Earlier versions recorded fewer of them.
        return any(now[name] != recorded.get(name) for name in ("rounds", *STOPPING))

    def _take_rows(self, federation: Federation) -> None:
        """Let what follows from the rows be where it was after them."""
        if federation.steering is None:
            return
        federation.steering.take_all(self.history.rows)
        self._keep_best(federation)

    def _keep_best(self, federation: Federation) -> None:
        """Let the checkpoint after the best evaluation stay, and no longer the one that was the best before."""
        best = None if federation.steering is None else federation.steering.best
        if self.checkpoints is not None and best is not None:
            self.checkpoints.best = best.round + 1

    def _check(self, directory: RunDirectory) -> Check:
        """Return what refuses a checkpoint that no longer fits the other files of the run."""

        def check(round: int, marks: Marks) -> None:
            directory.check_config_mark(round, marks)
            if not self.accept_changed_history:
                directory.check_history_mark(round, marks)

        return check

    def _recorded(self, directory: RunDirectory) -> Iterable[Row]:
        """Return the rows to go on from."""
        if self.accept_changed_history:
            return salvaged_rows(directory.history_path)
        return directory.recorded.rows

    def _take_over(self, federation: Federation, start: Loaded, rows: list[Row]) -> None:
        """Let the federation be as another run's checkpoint has it; what only this one keeps is new."""
        restore(federation, start.round, tensors_of(federation) | start.tensors, start.states)
        self.history.begin(_rows_before(start.round, rows))
        self._take_rows(federation)

    def _note(self, federation: Federation, row: Row) -> None:
        rows = [row]
        self.history.append(row)
        self._keep_best(federation)
        # Once the run has come to its end, `_end` decides whether to save.
        if federation.status == "running" and self._due(federation):
            rows += self._catch_up(federation)
            self._save(federation)
        if self.tracking is not None:
            self.tracking.look()
        self.callbacks.rows(rows, self.plan.task.test_sets)

    def _catch_up(self, federation: Federation) -> list[Row]:
        """Have the last round evaluated now: rows and state then agree, and can be saved."""
        rows = federation.settle()
        for row in rows:
            self.history.append(row)
        return rows

    def _due(self, federation: Federation) -> bool:
        """Say whether to save now: a round that asks for it was reached since the last time, or time has passed."""
        if self.checkpoints is None:
            return False
        if self.checkpoints.best == federation.round:
            return True
        first = max(self.saved_round + 1, federation.round - 1)  # a row may come a round late
        if any(self.plan.saves(round) for round in range(first, federation.round + 1)):
            return True
        return self.plan.checkpoint_every is None and time.monotonic() - self.saved_at > CHECKPOINT_SECONDS

    def _save(self, federation: Federation) -> None:
        if self.checkpoints is None or not federation.sound or federation.round == self.saved_round:
            return
        if self._recorded_rounds() < federation.round:  # a checkpoint must never be ahead of the history
            return
        self._write_checkpoint(federation)

    def _write_checkpoint(self, federation: Federation) -> None:
        assert self.checkpoints is not None
        # In this order: rows that a checkpoint builds on must survive whatever it survives.
        self.history.sync()
        self.checkpoints.save(federation.round, tensors_of(federation), stores_of(federation), self._marks())
        self.saved_round, self.saved_at = federation.round, time.monotonic()
        assert self.directory is not None
        self.callbacks.checkpoint(federation.round, self.directory.path)

    def _leave(self, federation: Federation) -> None:
        """Let the client states of this run be read as they are, whoever goes on with its directory."""
        if self.checkpoints is not None:
            self.checkpoints.leave(stores_of(federation))

    def _marks(self) -> dict[str, Any]:
        """Return what a checkpoint notes of the other files, to notice when they are changed."""
        assert self.directory is not None
        return self.directory.marks | {"history": self.history.mark}

    def _recorded_rounds(self) -> int:
        last = self.history.last
        if last is None:
            return 0
        return int(last["round"]) + 1

    def _end(self, federation: Federation, run: Run) -> None:
        # A diverged model is not worth a checkpoint: the last good ones stay.
        if federation.status != "diverged":
            self._save(federation)
        if self.directory is not None:
            self.directory.keep_rows(self.history.rows)
            self.directory.set_status(federation.status, federation.reason, run.summary, self.history.mark)
            self._write_model(run)
        self.callbacks.end(run)

    def _write_model(self, run: Run) -> None:
        """Write the final model for trackers; a disk without room for it is no reason to fail."""
        if self.plan.track and run.status == "finished":
            with suppress(OSError):
                write_model(run)

    def _how_to_resume(self, federation: Federation) -> str:
        done = f"interrupted after round {federation.round} of {self.plan.settings.rounds}"
        if self.directory is None:
            return f"{done}; nothing was written because no run directory was given"
        return f"{done}; saved. Continue with: {self.directory.how_to_resume}"

    def _with_hint(self, error: EngineError) -> EngineError:
        done = "saved; resume with" if self.history.count else "nothing was trained; when this is mended, start with"
        hint = f"\n{done}: {self.directory.how_to_resume}" if self.directory else ""
        hinted = EngineError(f"{error}{hint}")
        # The traceback of the worker is among the notes.
        for note in getattr(error, "__notes__", []):
            hinted.add_note(note)
        return hinted


def _reason(error: Exception) -> str:
    """Return why a run failed, in a sentence."""
    full = disk_full(error)
    if full is None:
        return f"{type(error).__name__}: {error}"
    return no_room(full)
