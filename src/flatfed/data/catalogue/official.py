"""Where a data set comes from: its official files, their checksums, and what they leave in the data directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from flatfed.data.catalogue.whole_files import GZIPPED, anything, content_md5
from flatfed.data.directory import DataDirectory


class Fault(StrEnum):
    """What may be wrong with a file."""

    MISSING = "is missing"
    BROKEN = "is truncated or damaged"
    OTHER = "is not the official file"


@dataclass(frozen=True)
class Download:
    """A file on the web.

    Args:
        urls: where it is; the first that answers is used.
        md5: its checksum.
        gives: what unpacking it leaves, relative to the data directory.
        folder: where the file itself is put, relative to the data directory.
        size: its length in bytes, where known.
    """

    urls: tuple[str, ...]
    md5: str
    gives: tuple[str, ...]
    folder: str = "."
    size: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.urls[0].rpartition("/")[2]


@dataclass(frozen=True)
class Official:
    """A data set as its authors publish it.

    Args:
        home: the authors' page.
        downloads: the files to fetch; none where they must be fetched by hand.
        layouts: the files that a source reads, with the checksums of the official ones; several layouts are
            alternatives. A file may also lie there gzipped.
        needs: data sets that must be there before.
        assemble: makes the files of the layout from what was fetched.
        whole: says quickly whether a file is as long as its format asks for.
    """

    home: str
    downloads: tuple[Download, ...] = ()
    layouts: tuple[dict[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    assemble: Callable[[DataDirectory], None] | None = None
    whole: Callable[[Path], bool] = anything

    def layout(self, directory: DataDirectory) -> dict[str, str] | None:
        """Return the first layout that is there, whole or in part."""
        for files in self.layouts:
            if any(located(directory, file) for file in files):
                return files
        return None

    def faults(self, directory: DataDirectory, exact: bool = False) -> dict[str, Fault]:
        """Return the files of its layout that are not as they should be, with what is wrong with each.

        That a file is another than the official one is found only where its checksum is looked at (`exact`).
        """
        checksums = self.layout(directory) or self._first_layout
        if not exact:
            # An empty checksum is not compared: hashing all files takes long.
            checksums = dict.fromkeys(checksums, "")
        return self._faults(directory, checksums)

    def lacking(self, directory: DataDirectory) -> list[Download]:
        """Return the downloads whose files are not all in place and in order."""
        return [download for download in self.downloads if not self._has(download, directory)]

    def _has(self, download: Download, directory: DataDirectory) -> bool:
        """Say whether all that a download leaves is in place and in order."""
        checksums = {file: self._first_layout.get(file, "") for file in download.gives}
        # A file that is no part of the layout is read by `assemble`, which does not unpack it.
        unpacked = all(file in self._first_layout or (directory.path / file).is_file() for file in checksums)
        return unpacked and not self._faults(directory, checksums)

    @property
    def _first_layout(self) -> dict[str, str]:
        return next(iter(self.layouts), {})

    def _faults(self, directory: DataDirectory, checksums: dict[str, str]) -> dict[str, Fault]:
        faults = {}
        for file, md5 in checksums.items():
            fault = self._fault(located(directory, file), md5)
            if fault is not None:
                faults[file] = fault
        return faults

    def _fault(self, path: Path | None, md5: str) -> Fault | None:
        if path is None:
            return Fault.MISSING
        if not self.whole(path):
            return Fault.BROKEN
        if md5 and content_md5(path) != md5:
            return Fault.OTHER
        return None


def located(directory: DataDirectory, file: str) -> Path | None:
    """Return where a file lies, plain or gzipped."""
    for ending in ("", GZIPPED):
        path = directory.path / f"{file}{ending}"
        if path.is_file():
            return path
    return None


def in_folder(folder: str, checksums: dict[str, str]) -> dict[str, str]:
    """Return a layout: the checksums by file, the files being in a folder."""
    return {f"{folder}/{name}": md5 for name, md5 in checksums.items()}
