"""What was sent of a run: a sealed record beside it for each tracker, so that nothing is sent twice.

::

    tracking/ID/sent.json   where it goes, what it is called there, and how far it was sent
    tracking/ID/.lock       held by the process that sends

A record may come with a run of somebody else, and would then say where to send. So it is signed with a key of the
user: only what this user was asked to send before is gone on with when nobody asks anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.runs.records.files import FORMAT, BusyError, held, make_folder, read_json, write_json
from flatfed.tracking.tracker import Tracker, chosen, trackers

FOLDER, FILE = "tracking", "sent.json"
BUSY_SECONDS, POLL_SECONDS = 10.0, 0.05


@dataclass
class SentRecord:
    """How far a run was sent to a tracker.

    Args:
        path: the run's directory.
        tracker: where it goes.
        remote: what the tracker calls it; None before it has begun there.
        rounds: how many rounds are there.
        files: the files that are there, by name, with the digests of their content.
        measured: digests of the measurements that are there.
        status: how the run ended, where that was sent.
        began: when the run began, in milliseconds since 1970.
        of: what the record is called; that of a comparison's name is apart from that of its files.
    """

    path: Path
    tracker: Tracker
    remote: str | None = None
    rounds: int = 0
    files: dict[str, str] = field(default_factory=dict)
    measured: list[str] = field(default_factory=list)
    status: str = ""
    began: int | None = None
    of: str = ""

    def write(self) -> None:
        """Put it on the disk, under the lock."""
        known = {name: getattr(self, name) for name in ("remote", "rounds", "files", "measured", "status", "began")}
        record = {"format": FORMAT, "place": self.tracker.place, **known}
        write_json(
            _folder(self.path, self.of or self.tracker.id) / FILE, record | {"signature": _signature(self.path, record)}
        )


def read_sent(path: Path, tracker: Tracker, of: str = "") -> SentRecord:
    """Return how far a run was sent to this very place; nothing was where the record names another."""
    file = _folder(path, of or tracker.id) / FILE
    if not file.is_file():
        return SentRecord(path, tracker, of=of)
    record = read_json(file)
    if record.get("place") != json.loads(json.dumps(tracker.place)):
        return SentRecord(path, tracker, of=of)
    known = {name: record[name] for name in ("remote", "rounds", "files", "measured", "status", "began")}
    return SentRecord(path, tracker, of=of, **known)


def recorded_trackers(path: Path) -> tuple[Tracker, ...]:
    """Return where a run was sent before by this user; what another user's record says is left alone.

    Each is there once, though a comparison has a record of its name beside that of its files.
    """
    found: list[Tracker] = []
    for file in sorted((path / FOLDER).glob(f"*/{FILE}")):
        # A record that cannot be read, or names a tracker that is not known here, must not stop the run.
        with contextlib.suppress(CheckpointError, ConfigError, KeyError, TypeError):
            found += _of_file(path, read_json(file))
    return chosen(found)


def _of_file(path: Path, record: dict[str, Any]) -> tuple[Tracker, ...]:
    signature = record.pop("signature", None)
    if not isinstance(signature, str) or not hmac.compare_digest(signature, _signature(path, record)):
        return ()
    if record["place"]["id"] not in trackers():
        return ()
    return chosen(record["place"])


@contextmanager
def sending(path: Path, id: str) -> Iterator[None]:
    """Be the only process that sends a run to a tracker; one that is about to end is waited for."""
    folder = _folder(path, id)
    make_folder(folder.parent)
    make_folder(folder)
    end = time.monotonic() + BUSY_SECONDS
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(held(folder))
                break
            except BusyError:
                if time.monotonic() > end:
                    raise BusyError(f"{path} is being sent to {id} by another process") from None
                time.sleep(POLL_SECONDS)
        yield


def _folder(path: Path, id: str) -> Path:
    return path / FOLDER / id


def _signature(path: Path, record: dict[str, Any]) -> str:
    """Return what only this user can write about where a run goes; empty where there is no key."""
    key = _key()
    if not key:
        return secrets.token_hex(8)  # equal to no other
    text = json.dumps([_identity(path), record["place"], record["remote"]], sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _identity(path: Path) -> str:
    config = path / "config.json"
    return str(read_json(config)["run"]) if config.is_file() else path.name


def _key() -> bytes:
    """Return the user's key, made when it is first needed; empty where none can be kept."""
    file = Path(os.environ.get("FLATFED_KEY", "~/.cache/flatfed/tracking.key")).expanduser()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            _make_key(file)
        return file.read_bytes()
    except OSError:
        return b""


def _make_key(file: Path) -> None:
    """Write a key at once, whole: of two processes that do, the first one's counts."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(secrets.token_bytes(32))
    with contextlib.suppress(FileExistsError):
        os.link(temporary, file)
    temporary.unlink()
