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

import copy
import functools
import os
import shlex
import uuid
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError
from flatfed.named_code import NamedBy
from flatfed.runs.checkpoints import ChangedError, Checkpoints, Marks
from flatfed.runs.environment import describe
from flatfed.runs.history import Recorded, Row, read_history, require_good
from flatfed.runs.metrics import ended_after, summarise
from flatfed.runs.records.earlier_versions import config_of_today
from flatfed.runs.records.files import (
    FORMAT,
    BusyError,
    FileState,
    file_state,
    held,
    is_held,
    read_json,
    refuse_link,
    refuse_unwritable,
    remove_temporary_files,
    seal_of,
    write_json,
    write_synced,
)
from flatfed.runs.records.folders import is_run as is_run
from flatfed.runs.records.structure import STATUS, check, check_config

REPLACES = "replaces"
BRANCH = "branch.json"
CODE = "code"
"""Where a record has the modules that it names, with their files."""
RESERVE, RESERVE_BYTES = ".reserve", 64 * 2**10
"""Room for the last record of a run whose disk is full."""
CHECKPOINTS = "checkpoints"
UNPUBLISHED = ("environment.json", "task.safetensors", CHECKPOINTS, ".lock", RESERVE, "history.jsonl", BRANCH)
COMPARED = "comparison.json"
"""The file of a comparison's directory that says what is compared."""


class RunDirectory:
    """Paths and records of one run on disk."""

    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        on_disk: OnDisk | None = None,
        *,
        trusted: bool = False,
        accepts_changed_data: bool = False,
    ) -> None:
        self.path, self.config = path, config
        self.trusted = trusted
        """Whether the user says that the code that the run names may be imported."""
        self.accepts_changed_data = accepts_changed_data
        """Whether the user means the data to be others than those that the run was made with."""
        self._on_disk = on_disk
        self._last_status: dict[str, Any] | None = None
        self._seen = self._state_of_files()

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
        for name in UNPUBLISHED:
            refuse_link(self.path / name)
        for name in ("history.jsonl", "task.safetensors", BRANCH):
            # Of a start that was killed: this run may be of another kind.
            (self.path / name).unlink(missing_ok=True)
        write_json(self.path / "environment.json", {"format": FORMAT, **describe()})

    def withdraw(self) -> None:
        """Remove, under the lock, what a start has left that came to nothing; a run stays as it is."""
        if is_run(self.path):
            return
        for entry in self.path.iterdir():
            if _is_ours(entry) and entry.is_file():
                entry.unlink()
        with suppress(OSError):  # whatever else is in it stays
            self.path.rmdir()

    def publish(self) -> None:
        """Write the configuration, which makes the directory a run: from now on it can be resumed."""
        if self._on_disk is not None:
            # Checkpoints that were saved before now name the configuration that is replaced.
            self.config = self.config | {"format": FORMAT, REPLACES: [*self._on_disk.replaced, self._on_disk.seal]}
        write_json(self.path / "config.json", self.config)
        self._on_disk = OnDisk.of(self.config)

    @classmethod
    def open(cls, path: Path, trusted: bool = False, accept_changed_data: bool = False) -> RunDirectory:
        """Open an existing run directory; `trusted` says that the code that it names may be imported."""
        require_run(path)
        written = read_json(path / "config.json")
        config = config_of_today(written)
        _check_config(path / "config.json", config)
        on_disk = OnDisk.of(written, config)
        return cls(path, config, on_disk, trusted=trusted, accepts_changed_data=accept_changed_data)

    @property
    def how_to_resume(self) -> str:
        """What continues the run: a command, or a call where the task lived only in memory."""
        if self.config["task"]["kind"] == "memory":
            return f"ff.resume({str(self.path)!r}, task=task)"
        return f"flatfed resume {shlex.quote(str(self.path))}"

    def with_config(self, **changes: Any) -> RunDirectory:
        """Return the run as if its record said something else; nothing is written."""
        # A copy, so that what was read of it need not be read again.
        other = copy.copy(self)
        other.config = self.config | changes
        return other

    @property
    def named_by(self) -> NamedBy:
        """Whose word it is where the run names code."""
        return NamedBy(self.path / "config.json", self.trusted, self.path, recorded_files(self.config))

    def refuse_continued(self) -> None:
        """Under the lock: refuse a run that another process went on with since this object looked at it."""
        if self.was_continued():
            raise BusyError(f"{self.path} was continued by another process meanwhile; start this again")

    def was_continued(self) -> bool:
        """Say whether another process went on with the run since this object looked at it."""
        return self._state_of_files() != self._seen

    def _state_of_files(self) -> tuple[FileState | None, ...]:
        """Return what shows that the configuration or the history was written again."""
        return tuple(file_state(self.path / name) for name in ("config.json", "history.jsonl"))

    def record_changes(self) -> None:
        """Write the configuration, where it is another than the file has, or the file has no seal yet."""
        assert self._on_disk is not None
        if self.config != self._on_disk.config or self.config["format"] < FORMAT:
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
        return Checkpoints(self.path / CHECKPOINTS, self.config["run"], self.config.get("keep_checkpoints", ()))

    @functools.cached_property
    def recorded(self) -> Recorded:
        """The history as it was when this object first looked; a damaged line ends it."""
        return read_history(self.history_path)

    @property
    def history_path(self) -> Path:
        """The file of the history."""
        return self.path / "history.jsonl"

    @functools.cached_property
    def rows(self) -> list[Row]:
        """The rows of the history as they were when this object first looked; one that was changed is an error."""
        # The status first: a run that ends meanwhile notes more rows in it.
        mark = self._end_of_rows(self._last_status or self._status_record())
        rows = require_good(self.history_path, self.recorded).rows
        if mark is not None and not self.recorded.holds(mark):
            raise CheckpointError(
                f"{self.history_path} is not what was written: rows were changed or lost among the first "
                f"{mark['rows']}; put the file back as it was"
            )
        return list(rows)

    def _end_of_rows(self, status: dict[str, Any]) -> dict[str, Any] | None:
        """Return the mark of the rows that the run ended with, or that its newest checkpoint builds on."""
        # Also where a process has just begun to go on: its first act is to cut the rows back to a checkpoint.
        if self._standing(status)["status"] == "running" or is_held(self.path):
            return None
        mark: dict[str, Any] | None = status.get("history") or self.checkpoints.newest_marks().get("history")
        return mark

    def keep_rows(self, rows: list[Row]) -> None:
        """Under the lock: take note of rows that were added, so that reports of this process need not read them."""
        self.__dict__["rows"] = rows
        self._seen = self._state_of_files()

    @property
    def marks(self) -> dict[str, Any]:
        """What a checkpoint notes of the configuration; the first one is saved before that is written."""
        if self._on_disk is None:
            return {"config": seal_of(self.config)}
        return {"config": self._on_disk.seal}

    def check_config_mark(self, round: int, marks: Marks) -> None:
        """Refuse a checkpoint that was saved under another configuration than the run's."""
        if self._on_disk is None or "config" not in marks:
            return
        if marks["config"] not in (*self._on_disk.replaced, self._on_disk.seal):
            what = f"{self.path / 'config.json'} is not what the checkpoint of round {round} was saved under"
            fix = "put it back as it was, or begin a new run to train with other settings"
            raise ChangedError(f"{what}; {fix}", what=what)

    def check_history_mark(self, round: int, marks: Marks) -> None:
        """Refuse a checkpoint whose rows are no longer there, or no longer what they were."""
        mark = marks.get("history")
        if mark is not None and not self.recorded.holds(mark):
            found = self.recorded.damage or f"{self.history_path} lacks rows, or they were changed"
            what = f"{found}: the checkpoint of round {round} was saved with {mark['rows']} other rows"
            fix = f"put the file back as it was, or go on with what can be read of it: {PARAMETER}"
            raise ChangedError(f"{what}; {fix}", parameter="accept_changed_history", what=what)

    def set_status(
        self,
        status: str,
        reason: str = "",
        metrics: dict[str, Any] | None = None,
        history: dict[str, Any] | None = None,
    ) -> None:
        """Record how the run stands and, at its end, its metrics and the mark of its history."""
        record = {"format": FORMAT, **(metrics or {}), "status": status, "reason": reason}
        if history is not None:
            record["history"] = history
        write_json(self.path / "status.json", record)
        self._last_status = record

    def reserve(self) -> None:
        """Take room for the record of how the run ends, which must find some even where the disk is full."""
        self.release()
        # Bytes that no file system can leave out.
        write_synced(self.path / RESERVE, os.urandom(RESERVE_BYTES))

    def release(self) -> None:
        """Give the room back."""
        with suppress(OSError):
            (self.path / RESERVE).unlink(missing_ok=True)

    def status(self) -> dict[str, str]:
        """Return how the run stands; one that says `running` but has no process is `interrupted`.

        How it ended is, like its rows, as this object first saw it.
        """
        return self._standing(self._status_record())

    def _standing(self, record: dict[str, Any]) -> dict[str, str]:
        if record["status"] == "running" and not is_held(self.path):
            # Again, now that nobody writes: it may have ended between the two looks.
            record = self._status_record()
        if record["status"] == "running" and not is_held(self.path):
            return {"status": "interrupted", "reason": "its process was ended from outside"}
        return {"status": record["status"], "reason": record.get("reason", "")}

    def _status_record(self) -> dict[str, Any]:
        if self._last_status is not None and self._last_status["status"] != "running":
            return self._last_status
        # One that runs may have ended since.
        path = self.path / "status.json"
        if not path.exists():
            return {"status": "running"}
        record = read_json(path)
        check(path, record, STATUS)
        self._last_status = record
        return record

    @property
    def ended_early(self) -> bool:
        """Whether the run finished before its last round, because its own rules said so."""
        standing = self.status()
        return standing["status"] == "finished" and bool(standing["reason"])

    @property
    def ended_after(self) -> int:
        """After how many rounds the run ended, or will: fewer than planned where it ended early."""
        return ended_after(self.rows, self.config["settings"]["rounds"], self.status()["status"])

    def summary(self) -> dict[str, Any]:
        """Return the run's metrics."""
        settings = self.config["settings"]
        record = self._status_record()
        standing = self._standing(record)
        try:
            rounds = ended_after(self.rows, settings["rounds"], standing["status"])
            return summarise(self.rows, rounds, settings["evaluate_last"], self.config) | standing
        except KeyError as error:
            raise CheckpointError(f"{self.path}: config.json or a row of history.jsonl lacks {error}") from None

    def refuse_unwritable(self) -> None:
        """Refuse to go on with a run that cannot be written."""
        refuse_unwritable(self.path)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the directory for writing: two processes must not continue one run."""
        return held(self.path)


@dataclass(frozen=True)
class OnDisk:
    """The configuration as its file has it.

    Args:
        config: what it says, in today's words.
        seal: the seal of what is written.
        replaced: the seals of the configurations that this one took the place of: with more rounds, or moved data.
    """

    config: dict[str, Any]
    seal: str
    replaced: tuple[str, ...]

    @classmethod
    def of(cls, written: dict[str, Any], config: dict[str, Any] | None = None) -> OnDisk:
        """Return it for what is written; `config` is that in today's words, where it was in others."""
        return cls(config or written, seal_of(written), tuple(written.get(REPLACES, ())))


def recorded_files(record: dict[str, Any]) -> dict[str, str] | None:
    """Return the files of the modules that a run or a comparison named when it was made; None of earlier versions."""
    files = record.get(CODE)
    if files is None or isinstance(files, dict):
        return files
    return {}


def _check_config(file: Path, config: dict[str, Any]) -> None:
    """Refuse a record of another format, or one that lacks what every run has."""
    if config.get("format") not in (1, FORMAT):
        raise CheckpointError(f"{file} has format {config.get('format')!r}; this version reads 1 and {FORMAT}")
    check_config(file, config)


def is_comparison(path: Path) -> bool:
    """Say whether a directory holds a comparison."""
    return (path / COMPARED).is_file()


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
    if (path / "config.json").is_file():
        return "it holds a model of Hugging Face"
    if (path / "config.json").exists():
        return "its config.json is not a file"
    runs = sorted(str(file.parent) for file in path.glob("*/config.json") if is_run(file.parent))
    return f"it holds the runs {', '.join(runs[:3])} ..." if runs else "it has no config.json"
