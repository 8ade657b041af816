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
import functools
import platform
import shlex
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.earlier_versions import config_of_today
from flatfed.runs.files import read_json, remove_temporary_files, write_json
from flatfed.runs.history import History, Row, read_rows
from flatfed.runs.metrics import summarise
from flatfed.runs.structure import STATUS, check, check_config

PACKAGES = ("flatfed", "torch", "numpy", "safetensors")


def describe() -> dict[str, Any]:
    """Return versions of Python and the packages that decide a run's bits, and the kind of machine."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


FORMAT = 1
BRANCH = "branch.json"
UNPUBLISHED = ("environment.json", "task.safetensors", "checkpoints", ".lock", "history.jsonl", BRANCH)


class RunDirectory:
    """Paths and records of one run on disk."""

    def __init__(self, path: Path, config: dict[str, Any], recorded: dict[str, Any] | None = None) -> None:
        self.path, self.config = path, config
        self._recorded = recorded
        """The configuration as the file has it; None while there is none."""

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
        # Looked at again: another process may have begun here between `create` and the lock.
        refuse_taken(self.path)
        write_json(self.path / "environment.json", describe())

    def publish(self) -> None:
        """Write the configuration, which makes the directory a run: from now on it can be resumed."""
        write_json(self.path / "config.json", self.config)
        self._recorded = self.config

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run directory."""
        require_run(path)
        config = config_of_today(read_json(path / "config.json"))
        _check_config(path / "config.json", config)
        return cls(path, config, recorded=config)

    @property
    def how_to_resume(self) -> str:
        """What continues the run: a command, or a call where the task lived only in memory."""
        if self.config["task"]["kind"] == "memory":
            return f"ff.resume({str(self.path)!r}, task=task)"
        return f"flatfed resume {shlex.quote(str(self.path))}"

    def with_config(self, **changes: Any) -> RunDirectory:
        """Return the run as if its record said something else; nothing is written."""
        return RunDirectory(self.path, self.config | changes, self._recorded)

    def record_changes(self) -> None:
        """Write the configuration, where it is another than the file has."""
        if self.config != self._recorded:
            self.publish()

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

    @functools.cached_property
    def rows(self) -> list[Row]:
        """The rows of the history as they were when this object first looked."""
        return read_rows(self.path / "history.jsonl")

    def keep_rows(self, rows: list[Row]) -> None:
        """Take note of rows that were added, so that reports of the same process need not read them again."""
        self.__dict__["rows"] = rows

    def history(self) -> History:
        """The run's history, ready to be continued."""
        return History(self.path / "history.jsonl", self.rows)

    def set_status(self, status: str, reason: str = "", metrics: dict[str, Any] | None = None) -> None:
        """Record how the run stands and, at its end, its metrics."""
        write_json(self.path / "status.json", {**(metrics or {}), "status": status, "reason": reason})

    def status(self) -> dict[str, str]:
        """Return how the run stands; one that says `running` but has no process is `interrupted`."""
        path = self.path / "status.json"
        recorded = read_json(path) if path.exists() else {"status": "running"}
        check(path, recorded, STATUS)
        if recorded["status"] == "running" and not self._being_written():
            return {"status": "interrupted", "reason": "its process was ended from outside"}
        return {"status": recorded["status"], "reason": recorded.get("reason", "")}

    def summary(self) -> dict[str, Any]:
        """Return the run's metrics."""
        settings = self.config["settings"]
        try:
            return summarise(self.rows, settings["rounds"], settings["evaluate_last"], self.config) | self.status()
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
        # Not through the file where this process holds the lock: closing it again would let the lock go.
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


def _check_config(file: Path, config: dict[str, Any]) -> None:
    """Refuse a record of another format, or one that lacks what every run has."""
    if config.get("format") != FORMAT:
        raise CheckpointError(f"{file} has format {config.get('format')!r}; this version reads {FORMAT}")
    check_config(file, config)


def is_run(path: Path) -> bool:
    """Say whether a directory holds a run."""
    return (path / "config.json").is_file()


def require_run(path: Path) -> None:
    """Refuse a directory that holds no run, and say what it holds."""
    if not is_run(path):
        raise ConfigError(f"{path} is not a run directory: {_what_it_is(path)}")


def refuse_taken(path: Path) -> None:
    """Say why a new run cannot be written here, if so."""
    if is_run(path):
        raise ConfigError(f"{path} already holds a run; {_continued(path)}choose another {PARAMETER}", parameter="out")
    if path.exists() and not _is_free(path):
        raise ConfigError(f"{path} exists and is not empty; choose another {PARAMETER}", parameter="out")


def _continued(path: Path) -> str:
    """Return how a run is continued, if it can be read."""
    try:
        return f"`{RunDirectory.open(path).how_to_resume}` continues it, or "
    except CheckpointError:
        return ""


def _is_free(path: Path) -> bool:
    return path.is_dir() and all(_is_ours(entry) for entry in path.iterdir())


def _is_ours(entry: Path) -> bool:
    """Say whether a file is one that a run writes before it is published: a start that was killed may be repeated."""
    return entry.name in UNPUBLISHED or entry.suffix == ".tmp"


def _what_it_is(path: Path) -> str:
    if not path.exists():
        return "it does not exist"
    runs = sorted(str(file.parent) for file in path.glob("*/config.json"))
    return f"it holds the runs {', '.join(runs[:3])} ..." if runs else "it has no config.json"
