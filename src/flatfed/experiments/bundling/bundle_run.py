"""`bundle`: all that a stranger needs of a run, in one file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flatfed import __version__
from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError, FlatfedError
from flatfed.experiments.bundling.archive import write_archive
from flatfed.experiments.bundling.contents import CARD, MODEL, files_of_run
from flatfed.experiments.running.run import load_run, open_run
from flatfed.experiments.tasks.recipe import FINGERPRINTS
from flatfed.runs.directory import RunDirectory
from flatfed.runs.packed import refuse_packed
from flatfed.runs.records.files import BusyError, is_held

ENDING = ".bundle.zip"

Say = Callable[[str], None]


def bundle(
    path: str | Path,
    out: str | Path | None = None,
    *,
    with_data: bool = False,
    trust: bool = False,
    data_dir: str | Path | None = None,
    say: Say = lambda text: None,
) -> Path:
    """Pack the run in `path` into one file, and return the file: `flatfed verify` replays it anywhere.

    Args:
        path: the run directory.
        out: the file to make; by default the directory's name with `.bundle.zip`, beside it.
        with_data: also pack the examples, of a run that was made from tensors.
        trust: import the code that the run names, wherever it comes from, to make the model card.
        data_dir: where the data sets lie, if no longer where they were.
        say: called with remarks.
    """
    directory = open_run(Path(path), trust)
    refuse_packed(directory.path)
    target = Path(out) if out is not None else _beside(directory.path)
    if target.exists():
        raise ConfigError(f"{target} is there already; choose another {PARAMETER}", parameter="out")
    if is_held(directory.path):
        raise BusyError(f"{directory.path} is being written by another process; wait for it or stop it")
    with_tensors = _packs_tensors(directory, with_data, say)
    whole = _whole_checkpoints(directory, say)
    names = files_of_run(directory.path, whole, with_tensors)
    files: dict[str, Path | bytes] = {name: directory.path / name for name in names}
    files |= _shown(directory, trust, data_dir, say)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.{os.getpid()}.tmp")
    try:
        write_archive(temporary, files, directory.path, _facts(directory, whole, with_tensors))
        directory.refuse_continued()
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _beside(run: Path) -> Path:
    whole = run.resolve()
    return whole.with_name(whole.name + ENDING)


def _packs_tensors(directory: RunDirectory, with_data: bool, say: Say) -> bool:
    """Say whether the file of the task's tensors is packed: weights to start from always, examples if asked for."""
    kind = directory.config["task"]["kind"]
    if with_data and kind != "tensors":
        raise ConfigError(
            f"{PARAMETER} is for runs made from tensors; the data of {directory.path} are "
            f"{'named in its recipe' if kind == 'catalogue' else 'in the memory of the process that made it'}",
            parameter="with_data",
        )
    if kind == "tensors" and not with_data:
        say(f"the examples are not packed, so that nobody can replay it; add {_typed('with_data')} where they may go")
    if kind == "memory":
        say("its task lived only in memory: only who has that can replay it, from Python with verify(path, task=task)")
    return kind != "tensors" or with_data


def _typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _whole_checkpoints(directory: RunDirectory, say: Say) -> list[int]:
    """Return the rounds whose checkpoints can be used, and say which cannot; that all are damaged is an error."""
    damaged: dict[int, CheckpointError] = {}
    rounds = sorted(directory.checkpoints.rounds())
    for round in rounds:
        try:
            directory.checkpoints.load(round)
        except CheckpointError as error:
            # Its frames would hold the checkpoint's lock.
            damaged[round] = error.with_traceback(None)
    if damaged and len(damaged) == len(rounds):
        reasons = "; ".join(map(str, damaged.values()))
        raise CheckpointError(f"{directory.path} holds no usable checkpoint ({reasons}); nothing is packed")
    for round, reason in damaged.items():
        say(f"without the checkpoint of round {round}: {getattr(reason, 'what', reason)}")
    return [round for round in rounds if round not in damaged]


def _facts(directory: RunDirectory, whole: list[int], with_tensors: bool) -> dict[str, Any]:
    task = directory.config["task"]
    needed = {name: task[name] for name in ("dataset", "name", *FINGERPRINTS) if name in task}
    return {
        "flatfed": __version__,
        "run": directory.config["run"],
        "method": directory.config["method"],
        "rounds": len(directory.rows),
        "checkpoints": whole,
        "data": {"kind": task["kind"], "packed": with_tensors and task["kind"] == "tensors", **needed},
    }


def _shown(directory: RunDirectory, trust: bool, data_dir: str | Path | None, say: Say) -> dict[str, Path | bytes]:
    """Return the model and its card; nothing where the run cannot be loaded here."""
    try:
        run = load_run(directory.path, trust=trust, data_dir=data_dir, say=say)
        with TemporaryDirectory(prefix="flatfed-bundle-") as folder:
            run.export(folder, "safetensors")
            return {CARD: Path(folder, CARD).read_bytes() + VERIFY, MODEL: Path(folder, MODEL).read_bytes()}
    except FlatfedError as error:
        say(f"without model and model card: {error}")
        return {}


VERIFY = b"""
## How to verify it

`flatfed verify` on the bundle that this file came in replays the first, one random and the last stretch of rounds and
compares bits. The versions that it was made with are in `environment.json`.
"""
