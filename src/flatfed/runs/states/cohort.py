"""What the clients of a round sent, within a bound of memory; the rest lies in scratch files without a name.

What comes first stays in memory: replies are read in one order again and again, so that whatever is let go for a later
one would be the next to be read. A scratch file cannot be left behind, however the process ends.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from flatfed.core.method.round_memory import HeldTensors, StoredTensors
from flatfed.core.method.state import State
from flatfed.runs.states.form import StateForm
from flatfed.runs.states.state_file import Ref, StateFile
from flatfed.runs.states.vault import Vault

SPARE = 8
"""One byte for every eight of a tensor is lost between those that stay and those that come and go, at most about."""


class SpilledTensors(Mapping[str, Tensor]):
    """Tensors in a place of a file: each is read when it is asked for, and nothing of it stays here."""

    def __init__(self, file: StateFile, place: int) -> None:
        self._file, self._place = file, place
        self._names = tuple(entry.name for entry in file.form.entries)

    def __getitem__(self, name: str) -> Tensor:
        return self._file.read_entry(self._place, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _ScratchFile:
    """A scratch file for tensors of one form; it is emptied when the last of them is let go."""

    def __init__(self, directory: Path | None) -> None:
        self._vault, self._taken, self._owner = Vault(scratch=directory), 0, os.getpid()

    def put(self, tensors: Mapping[str, Tensor]) -> SpilledTensors:
        """Write tensors into a free place, which is free again when nobody holds what is returned."""
        ref = self._vault.write(State(tensors))
        assert isinstance(ref.source, StateFile)
        spilled = SpilledTensors(ref.source, ref.place)
        self._taken += 1
        weakref.finalize(spilled, self._let_go, ref).atexit = False
        return spilled

    def _let_go(self, ref: Ref) -> None:
        if os.getpid() != self._owner:  # a forked child has copies of all this, but the file is its parent's
            return
        self._vault.release(ref)
        self._taken -= 1
        if not self._taken:
            # What is not needed any more need not be written to the disk either.
            self._vault.forget(())


class CohortMemory:
    """Keeps tensors of a round in memory up to a bound, and the others in scratch files.

    Args:
        budget: bytes in memory; None for no bound.
        others: how many of them are taken by what else is kept of the clients.
        directory: where scratch files are made; the temporary directory by default.
    """

    def __init__(
        self, budget: int | None, others: Callable[[], int] = lambda: 0, directory: Path | None = None
    ) -> None:
        self.budget, self._others, self._directory = budget, others, directory
        self.bytes_in_memory = 0
        self._files: dict[StateForm, _ScratchFile] = {}

    def keep(self, tensors: Mapping[str, Tensor]) -> StoredTensors:
        """Take tensors, which nobody else changes, and return how they are read."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        size += size // SPARE
        if size and not self._has_room(size):
            return self._file_of(StateForm.of(State(tensors))).put(tensors)
        held = HeldTensors(tensors)
        self.bytes_in_memory += size
        weakref.finalize(held, self._let_go, size).atexit = False
        return held

    @property
    def scratch_files(self) -> int:
        """How many scratch files were made."""
        return len(self._files)

    def _has_room(self, size: int) -> bool:
        return self.budget is None or self.bytes_in_memory + self._others() + size <= self.budget

    def _file_of(self, form: StateForm) -> _ScratchFile:
        if form not in self._files:
            self._files[form] = _ScratchFile(self._directory)
        return self._files[form]

    def _let_go(self, size: int) -> None:
        self.bytes_in_memory -= size
