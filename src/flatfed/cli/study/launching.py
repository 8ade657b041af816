"""`flatfed study run --launcher slurm`: workers are submitted; what was, and how to follow and to cancel, is said."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.studies.run_study import RunningStudy

MOST_WORKERS = 10
"""Workers where nothing is said."""


def require_launcher(launcher: str, given: Sequence[str]) -> None:
    """Refuse a launcher that cannot be had here, and options that are not for it."""
    if launcher == "slurm":
        from flatfed.studies.launching.slurm import require_slurm

        require_slurm()
    elif given:
        raise ConfigError("--slurm is for --launcher slurm; add that, or leave it out")


def launch(
    running: RunningStudy, given: Sequence[str], jobs: int | None, lease: float, retry: bool, as_json: bool
) -> int:
    """Submit workers for what is left of a study, and say how to follow and to cancel them."""
    from dataclasses import replace

    from flatfed.studies.launching.slurm import slurm_executor, submit
    from flatfed.studies.launching.worker_job import WorkerJob

    folder = running.folder.path
    words, most = _left(running, retry)
    if not words:
        echo(f"nothing is left to do; show it with: flatfed study show {shlex.quote(str(folder))}", err=True)
        return 0
    executor = slurm_executor(folder, folder.name, _pairs(given))
    count = jobs or min(most, MOST_WORKERS)
    by = running.resolver.by
    if by.file is not None:
        by = replace(by, file=by.file.absolute())
    workers = [
        WorkerJob(running.study, folder.absolute(), Path.cwd(), by, lease, retry and number == 0)
        for number in range(count)
    ]
    launched = submit(workers, executor)
    if as_json:
        echo(json.dumps(launched.to_dict(), indent=1))
        return 0
    echo(f"submitted {count} workers for {words}: job {launched.array} ({', '.join(launched.jobs)})")
    echo(f"logs: {launched.logs}")
    echo(f"follow: flatfed study show {shlex.quote(str(folder))}")
    echo(f"cancel: {' ; '.join(launched.cancel)}")
    return 0


def _left(running: RunningStudy, retry: bool) -> tuple[str, int]:
    """Say what is left to do, and how many workers can share it; nothing where all is done.

    Cells are counted with those whose parameters are not chosen yet.
    """
    from flatfed.studies.finishing import left_to_finish

    states = [running.folder.standing(cell) for cell in running.cells()]
    ended = [state for state in states if state.has_ended and not (retry and state.state == "failed")]
    left = running.count - len(ended)
    return (f"{left} cells", left) if left else left_to_finish(running)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Return `KEY=VALUE` texts as a mapping; a key alone is an option without a value."""
    pairs: dict[str, str] = {}
    for text in given:
        key, _, value = text.partition("=")
        if not key.strip() or key.startswith("-"):
            raise ConfigError(f"--slurm takes KEY=VALUE, such as partition=short, not {text!r:.40}")
        pairs[key.strip()] = value.strip()
    return pairs
