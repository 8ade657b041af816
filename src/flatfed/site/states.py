"""The states of a site's clients, as versions on its own disk. They are never sent.

A version is a file, written whole or not at all. The server says with each job which version counts; what is later
than that belongs to replies that were lost or rejected, and goes. Earlier ones are kept as long as the server may go
back to them: to its oldest checkpoint.

Where a version is lost, the site may let its client begin anew. A mark is then tied to the version that is asked for
next, so that a server that goes back plays the same rounds to the same bits.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.core.method.messages import pack, unpack
from flatfed.core.method.state import State
from flatfed.engines.sites.versions import round_of
from flatfed.runs.records.files import replace_file

SUFFIX = ".safetensors"
NEWEST = "newest.json"
"""The latest request that was worked on."""
ANEW = "anew"
"""A mark in a client's folder: it begins anew; with a version in its name, from there."""

Moment = tuple[int, int, int, int]
"""When a request was made: in which start of the server, round, attempt at it and exchange. Later ones are larger."""


class StateLost(FlatfedError):
    """A version that the server counts on and that is not here."""


class OldRequest(FlatfedError):
    """A request from before one that was worked on already: late on its way, or replayed."""


class StateFiles:
    """The versions of the clients of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def admit(self, moment: Moment) -> None:
        """Note when a request was made, and refuse one from before: it would undo what came after it."""
        path = self._folder / NEWEST
        newest = _newest(path)
        if moment < newest:
            raise OldRequest(f"this request is older than one that was worked on: {moment}, and {newest} was here")
        if moment > newest:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, json.dumps(moment).encode())

    def read(self, client: int, version: int) -> State:
        """Return a version of a client's state."""
        path = self._path(client, version)
        try:
            return State(unpack(path.read_bytes()))
        except FileNotFoundError:
            raise StateLost(f"the state of client {client} is not here; {self._what_to_do(path, client)}") from None
        except Exception as error:  # a damaged file can bring about anything
            reason = f"the state of client {client} cannot be read ({error!s:.100})"
            raise StateLost(f"{reason}; {self._what_to_do(path, client)}") from None

    def write(self, client: int, version: int, state: State) -> None:
        """Keep a version; when this returns, it is on the disk."""
        path = self._path(client, version)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, pack(state.tensors()))

    def begin_anew(self, client: int) -> None:
        """Let a client begin anew with the next request for it."""
        if not self._folder.is_dir():
            raise ConfigError(f"there is no run {self._folder.name} here; the server's message names it")
        folder = self._path(client, 0).parent
        folder.mkdir(exist_ok=True, mode=0o700)
        (folder / ANEW).touch(mode=0o600)

    def is_anew(self, client: int, version: int) -> bool:
        """Say whether a client begins anew in the place of a version."""
        mark = self._path(client, 0).parent / ANEW
        tied = mark.with_name(f"{ANEW}-{version}")
        # At once: a mark is tied to one version, also where two ask.
        with contextlib.suppress(FileNotFoundError):
            mark.rename(tied)
        return tied.exists()

    def forget(self, client: int, counted: int, oldest: int, coming: int) -> None:
        """Remove what is later than the version that counts, and what no checkpoint from round `oldest` on needs.

        A version that is made again now stays until it is replaced: where a request comes twice, it may count already.
        """
        versions = self.versions(client)
        base = max((version for version in versions if round_of(version) < oldest), default=0)
        for version in versions:
            is_later = version > counted and version != coming
            if is_later or version < min(base, counted):
                self._path(client, version).unlink(missing_ok=True)

    def versions(self, client: int) -> list[int]:
        """Return the versions of a client that are here, in order."""
        names = [path.name.removesuffix(SUFFIX) for path in self._path(client, 0).parent.glob(f"*{SUFFIX}")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _what_to_do(self, path: Path, client: int) -> str:
        """Return what to do where a version is lost."""
        forget = f"`flatfed site forget {self._folder.name} {client}`"
        return f"put {self._name(path)} back, or let the client begin anew with {forget}"

    def _name(self, path: Path) -> str:
        """Return a path as seen from the site's folder: the server need not know where that lies."""
        return str(path.relative_to(self._folder.parent.parent))

    def _path(self, client: int, version: int) -> Path:
        return self._folder / str(client) / f"{version}{SUFFIX}"


def _newest(path: Path) -> Moment:
    """Return when the latest request was made; before all of them where none was noted."""
    try:
        start, round, attempt, exchange = json.loads(path.read_text())
        return int(start), int(round), int(attempt), int(exchange)
    except FileNotFoundError:
        return (-1, 0, 0, 0)
    except (OSError, ValueError, TypeError) as error:
        raise StateLost(f"{NEWEST} of this run cannot be read ({error}); put it back, or remove it") from None
