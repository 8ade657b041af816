"""Leases: which process works on which cell, on one machine or on many that share a folder.

A lease is a file `CELL/000001`. Whoever makes it has the cell; its number goes up by one with each owner, and the
highest number counts. An owner renews its file again and again. A file that stays the same for too long, or whose
process on this machine is gone, is of a dead owner, and the next number may be taken. Of two that try, one makes the
file: that is the only thing that must be exclusive, and a hard link is, also on a network's folder. A file that cannot
be read counts like that of an owner elsewhere: it is never one that is half written, for each comes whole.

Clocks are not compared: whoever waits counts the time in which it saw no change on its own clock.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from flatfed.machine import has_ended, machine_name, start_of_process
from flatfed.runs.records.files import replace_file

PATIENCE = 60.0
"""Seconds without a sign of life after which an owner elsewhere counts as dead."""
RENEWALS = 6
"""How often an owner renews its lease within that time."""
DIGITS = 6


@dataclass(frozen=True)
class CellProgress:
    """How far the owner of a cell is, for people."""

    round: int = 0
    rounds: int = 0
    seconds_left: float | None = None


@dataclass(frozen=True)
class Lease:
    """One owner's hold on one cell."""

    cell: str
    number: int
    owner: str
    machine: str
    pid: int
    process: str
    """When the owner's process started: a number of a process may come again."""
    beat: int = 0
    released: bool = False
    progress: CellProgress = field(default_factory=CellProgress)

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.cell}/{self.number:0{DIGITS}d}"

    def to_bytes(self) -> bytes:
        """Return its content."""
        content = {name: value for name, value in self.__dict__.items() if name not in ("cell", "number")}
        return (json.dumps(content | {"progress": self.progress.__dict__}) + "\n").encode()

    @classmethod
    def read(cls, file: Path) -> Lease | None:
        """Read it; None where it is gone. Of one that cannot be read nothing is known but its number."""
        cell, number = file.parent.name, int(file.name)
        try:
            content = json.loads(file.read_bytes())
            progress = CellProgress(**content.pop("progress"))
            lease = cls(cell, number, progress=progress, **content)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return cls(cell, number, "", "", 0, "")
        return lease if lease._is_sound else cls(cell, number, "", "", 0, "")

    @property
    def _is_sound(self) -> bool:
        """Whether its entries are of the kinds that were written."""
        texts = (self.owner, self.machine, self.process)
        progress = self.progress
        numbers = (self.pid, self.beat, progress.round, progress.rounds)
        return (
            all(isinstance(text, str) for text in texts)
            and all(type(number) is int for number in numbers)
            and isinstance(self.released, bool)
            and isinstance(progress.seconds_left, int | float | None)
        )

    @property
    def is_of_this_machine(self) -> bool:
        """Whether its owner is, or was, a process of this machine."""
        return self.machine == machine_name()

    @property
    def owner_has_ended(self) -> bool:
        """Whether its owner was a process of this machine that is not there any more."""
        if not self.is_of_this_machine:
            return False
        return has_ended(self.pid, self.process)


class Leases:
    """The leases of a study, as one process sees and takes them."""

    def __init__(self, folder: Path, patience: float = PATIENCE) -> None:
        self.folder, self.patience = folder, patience
        self.owner = uuid.uuid4().hex
        self._seen: dict[str, tuple[Lease, float]] = {}
        """What was last read of each cell, and since when it has not changed."""

    def claim(self, cell: str) -> Lease | None:
        """Take a cell; None where somebody else has it."""
        newest = self.newest(cell)
        if newest is not None and self.holds(newest):
            return None
        number = 1 if newest is None else newest.number + 1
        lease = Lease(cell, number, self.owner, machine_name(), os.getpid(), start_of_process(os.getpid()))
        if not self._made(lease) or self.newest(cell) != lease:
            # The second: others may have had the cell since it was looked at, and hold a higher number.
            return None
        self._remove_before(lease)
        return lease

    def _made(self, lease: Lease) -> bool:
        """Make a lease's file; of several that try, one does."""
        file = self.folder / lease.file
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{self.owner}")
        temporary.write_bytes(lease.to_bytes())
        try:
            os.link(temporary, file)
        except FileExistsError:
            # A network may lose the answer and ask again: then it is this very one that is there.
            return Lease.read(file) == lease
        finally:
            temporary.unlink()
        return True

    def renew(self, lease: Lease, progress: CellProgress) -> Lease | None:
        """Show that the owner lives, and how far it is; None where the cell was taken over meanwhile."""
        newest = self.newest(lease.cell)
        if newest is None or newest.owner != self.owner or newest.number != lease.number:
            return None
        renewed = replace(lease, beat=lease.beat + 1, progress=progress)
        replace_file(self.folder / renewed.file, renewed.to_bytes())
        return renewed

    def release(self, lease: Lease) -> None:
        """Give a cell back."""
        newest = self.newest(lease.cell)
        if newest is not None and newest.owner == self.owner and newest.number == lease.number:
            replace_file(self.folder / lease.file, replace(lease, released=True).to_bytes())

    def newest(self, cell: str) -> Lease | None:
        """Return the lease of a cell that counts."""
        for file in reversed(self._files(cell)):
            lease = Lease.read(file)
            if lease is not None:
                return lease
        return None

    def _files(self, cell: str) -> list[Path]:
        """Return the files of a cell, the one that counts last."""
        try:
            names = [entry.name for entry in (self.folder / cell).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        numbered = sorted((name for name in names if name.isdecimal()), key=int)
        return [self.folder / cell / name for name in numbered]

    def holds(self, lease: Lease) -> bool:
        """Say whether an owner still has its cell: it has not given it back, and shows signs of life."""
        if lease.released or lease.owner_has_ended:
            return False
        before = self._seen.get(lease.cell)
        now = time.monotonic()
        if before is None or before[0] != lease:
            self._seen[lease.cell] = (lease, now)
            return True
        # A process of this machine that is there may be stopped for a while: it has the cell as long as it is there.
        return lease.is_of_this_machine or now - before[1] < self.patience

    def held(self) -> list[Lease]:
        """Return the leases that somebody holds, this process included."""
        cells = sorted(entry.name for entry in self.folder.iterdir()) if self.folder.exists() else []
        newest = [self.newest(cell) for cell in cells]
        return [lease for lease in newest if lease is not None and self.holds(lease)]

    def _remove_before(self, lease: Lease) -> None:
        """Remove what earlier owners have left."""
        for file in self._files(lease.cell):
            if int(file.name) < lease.number:
                file.unlink(missing_ok=True)
