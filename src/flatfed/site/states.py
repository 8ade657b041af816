"""The states of a site's clients, as versions on its own disk. They are never sent.

A version is a file, written whole or not at all. The server says with each job which version counts; what is later
than that belongs to replies that were lost or rejected, and goes. Earlier ones are kept as long as the server may go
back to them: to its oldest checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from flatfed.core.errors import FlatfedError
from flatfed.core.method.messages import pack, unpack
from flatfed.core.method.state import State
from flatfed.engines.sites.versions import round_of
from flatfed.runs.records.files import replace_file

SUFFIX = ".safetensors"


class StateLost(FlatfedError):
    """A version that the server counts on and that is not here."""


class StateFiles:
    """The versions of the clients of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, client: int, version: int) -> State:
        """Return a version of a client's state."""
        path = self._path(client, version)
        try:
            return State(unpack(path.read_bytes()))
        except FileNotFoundError:
            raise StateLost(f"the state of client {client} is not here; put {self._name(path)} back") from None
        except Exception as error:  # a damaged file can bring about anything
            raise StateLost(f"the state of client {client} in {self._name(path)} cannot be read: {error}") from None

    def write(self, client: int, version: int, state: State) -> None:
        """Keep a version; when this returns, it is on the disk."""
        path = self._path(client, version)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, pack(state.tensors()))

    def forget(self, client: int, counted: int, oldest: int) -> None:
        """Remove what is later than the version that counts, and what no checkpoint from round `oldest` on needs."""
        versions = self.versions(client)
        base = max((version for version in versions if round_of(version) < oldest), default=0)
        for version in versions:
            if version > counted or version < min(base, counted):
                self._path(client, version).unlink(missing_ok=True)

    def versions(self, client: int) -> list[int]:
        """Return the versions of a client that are here, in order."""
        names = [path.name.removesuffix(SUFFIX) for path in self._path(client, 0).parent.glob(f"*{SUFFIX}")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _name(self, path: Path) -> str:
        """Return a path as seen from the site's folder: the server need not know where that lies."""
        return str(path.relative_to(self._folder.parent.parent))

    def _path(self, client: int, version: int) -> Path:
        return self._folder / str(client) / f"{version}{SUFFIX}"
