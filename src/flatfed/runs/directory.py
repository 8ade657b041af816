"""A run directory and what lies in it.

::

    config.json        the resolved configuration
    environment.json   versions and machine
    status.json        running, finished, diverged, stopped, interrupted or failed, and why
    history.jsonl      one row per round
    branch.json        of a run that goes on from another one's checkpoint: which run, and after which round
    task.safetensors   the task's tensors, where it was given as tensors
    checkpoints/       the last two, those that were asked to be kept, and client states
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.environment import describe
from flatfed.runs.files import read_json, remove_temporary_files, write_json
from flatfed.runs.history import History, read_rows
from flatfed.runs.summary import summarise

FORMAT = 1
BRANCH = "branch.json"
UNPUBLISHED = ("environment.json", "task.safetensors", "checkpoints", ".lock", "history.jsonl", BRANCH)
REQUIRED = ("run", "method", "algorithm", "average", "sampler", "settings", "workers", "task")


class RunDirectory:
    """Paths and records of one run on disk."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunDirectory:
        """Make a new run directory, not yet published; a place that holds anything else is refused."""
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{path} cannot be created: {error.strerror}") from None
        return cls(path, {"format": FORMAT, "run": uuid.uuid4().hex, **config})

    def begin(self) -> None:
        """Write the first record, under the lock: of two that start here at once, the second is refused."""
        refuse_taken(self.path)
        write_json(self.path / "environment.json", describe())

    def publish(self) -> None:
        """Write the configuration, which makes the directory a run: from now on it can be resumed."""
        write_json(self.path / "config.json", self.config)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run directory."""
        if not is_run(path):
            raise ConfigError(f"{path} is not a run directory: {_what_it_is(path)}")
        config = read_json(path / "config.json")
        if config.get("format") != FORMAT:
            raise CheckpointError(
                f"{path}/config.json has format {config.get('format')!r}; this version reads {FORMAT}"
            )
        missing = [name for name in REQUIRED if name not in config]
        if missing:
            raise CheckpointError(f"{path}/config.json lacks {', '.join(missing)}")
        for name in ("settings", "task", "algorithm", "sampler"):
            if not isinstance(config[name], dict):
                raise CheckpointError(f"{path}/config.json: {name} is not an object")
        return cls(path, config)

    def rewrite(self, config: dict[str, Any]) -> None:
        """Replace the configuration: a run that is extended by more rounds."""
        self.config = config
        self.publish()

    def sweep(self) -> None:
        """Remove what a process that was killed in the middle of writing left behind."""
        remove_temporary_files(self.path)
        self.checkpoints.sweep()

    @property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints."""
        return Checkpoints(self.path / "checkpoints", self.config["run"], self.config.get("keep_checkpoints", ()))

    def history(self) -> History:
        """The run's history, ready to be continued."""
        path = self.path / "history.jsonl"
        return History(path, read_rows(path))

    def set_status(self, status: str, reason: str = "", figures: dict[str, Any] | None = None) -> None:
        """Record how the run stands and, at its end, its figures."""
        write_json(self.path / "status.json", {**(figures or {}), "status": status, "reason": reason})

    def status(self) -> dict[str, str]:
        """Return how the run stands; one that says `running` but has no process is `interrupted`."""
        path = self.path / "status.json"
        found = read_json(path) if path.exists() else {"status": "running"}
        if "status" not in found:
            raise CheckpointError(f"{path} lacks the status")
        if found["status"] == "running" and not self._being_written():
            return {"status": "interrupted", "reason": "its process ended without a word"}
        return {"status": str(found["status"]), "reason": str(found.get("reason", ""))}

    def summary(self) -> dict[str, Any]:
        """Return the run's figures."""
        settings = self.config["settings"]
        rows = read_rows(self.path / "history.jsonl")
        try:
            return summarise(rows, settings["rounds"], settings["last"], self.config) | self.status()
        except KeyError as error:
            raise CheckpointError(f"{self.path}: config.json or a row of history.jsonl lacks {error}") from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory for writing: two processes must not continue one run."""
        path = (self.path / ".lock").resolve()
        busy = ConfigError(f"{self.path} is being written by another process; wait for it or stop it")
        if path in _HELD:
            raise busy
        with path.open("w") as file:
            try:
                # A record lock, not flock: worker processes do not inherit it, so it ends with this process.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise busy from None
            _HELD.add(path)
            try:
                yield
            finally:
                _HELD.discard(path)

    def _being_written(self) -> bool:
        path = (self.path / ".lock").resolve()
        if path in _HELD or not path.exists():
            return path in _HELD
        try:
            with path.open("r+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
        except OSError:
            return True


_HELD: set[Path] = set()
"""Locks of this process: opening and closing their files again would let them go."""


def is_run(path: Path) -> bool:
    """Say whether a directory holds a run."""
    return (path / "config.json").is_file()


def refuse_taken(path: Path) -> None:
    """Say why a new run cannot be written here, if so."""
    if is_run(path):
        raise ConfigError(f"{path} already holds a run; `flatfed resume {path}` continues it, or choose another --out")
    if path.exists() and (not path.is_dir() or not all(_is_ours(entry) for entry in path.iterdir())):
        raise ConfigError(f"{path} exists and is not empty; choose another --out")


def _is_ours(entry: Path) -> bool:
    """Say whether a file is one that a run writes before it is published: a start that was killed may be repeated."""
    return entry.name in UNPUBLISHED or entry.suffix == ".tmp"


def _what_it_is(path: Path) -> str:
    if not path.exists():
        return "it does not exist"
    below = sorted(str(file.parent) for file in path.glob("*/config.json")) if path.is_dir() else []
    return f"it holds the runs {', '.join(below[:3])} ..." if below else "it has no config.json"
