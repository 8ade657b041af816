"""Running a comparison: each method and seed in a run directory of its own, resumable as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flatfed.core.errors import CheckpointError, EngineError, FlatfedError
from flatfed.experiments.comparing.comparison import Comparison, claim
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.play import play
from flatfed.experiments.running.resume import resume
from flatfed.experiments.running.run import Run
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.files import refuse_link
from flatfed.runs.history import Row

ENDED = ("finished", "diverged")
"""How a run stands that has nothing left to train."""

Say = Callable[[str], None]


def compare(
    comparison: Comparison,
    out: Path,
    on_start: Callable[[Path, int], None] = lambda path, done: None,
    on_round: Callable[[Row], None] | None = None,
    say: Say = lambda text: None,
    on_begin: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Run what is not finished yet and return all run directories.

    A run that diverges, stops or fails is recorded as such and the others go on. `on_begin` is called before the first
    one, when nothing was refused.
    """
    # All plans are checked before the first round: a mistake in the last method must not cost the hours before it.
    for path, plan in comparison.runs(out):
        if not is_run(path):
            # What is written there must stay within the comparison.
            refuse_link(path.parent)
            refuse_link(path)
            plan().check()
    claim(comparison, out)
    on_begin()
    paths = []
    for path, plan in comparison.runs(out):
        paths.append(path)
        try:
            # Within the `try`: to read how far a run is may fail already.
            on_start(path, _rounds_done(path))
            _tell(path, _train(comparison, path, plan, on_round, say), say)
        except (EngineError, CheckpointError) as error:
            say(f"{path}: {error}")
    # A run that failed before it was published has no record that a report could read.
    return list(filter(_is_readable, paths))


def _rounds_done(path: Path) -> int:
    if not is_run(path):
        return 0
    return len(RunDirectory.open(path).recorded.rows)


def _train(
    comparison: Comparison, path: Path, plan: Callable[[], Plan], on_round: Callable[[Row], None] | None, say: Say
) -> Run | None:
    """Begin a run or go on with it; None where it came to its end before."""
    if not is_run(path):
        return play(plan(), path, on_round)
    if RunDirectory.open(path).status()["status"] in ENDED:
        return None
    data_dir, workers = comparison.recipe.data_dir, comparison.workers
    trust = comparison.by.trusted
    return resume(path, trust=trust, data_dir=data_dir, workers=workers, on_round=on_round, say=say)


def _tell(path: Path, run: Run | None, say: Say) -> None:
    if run is not None and run.reason:
        say(f"{path}: {run.status}: {run.reason}")


def _is_readable(path: Path) -> bool:
    try:
        RunDirectory.open(path).summary()
    except FlatfedError:
        return False
    return True
