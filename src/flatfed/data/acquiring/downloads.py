"""Getting official files: fetched, checked by their checksum, unpacked and moved into place."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.data.acquiring.archives import unpack
from flatfed.data.acquiring.transfer import DownloadError, Quiet, Report, Unreachable, fetch, file_md5
from flatfed.data.catalogue.official import Download, Fault, Official
from flatfed.data.catalogue.registry import Source, find
from flatfed.data.catalogue.whole_files import GZIPPED
from flatfed.data.directory import DataDirectory


class NotFetched(DownloadError):
    """Files that no address gives, with what to do by hand.

    Attributes:
        dataset: the id of the data set.
        reason: why they cannot be fetched.
        files: the names of the files.
        address: where the first of them is on the web.
        folder: where to put it.
    """

    def __init__(self, dataset: str, reason: str, files: tuple[str, ...], address: str, folder: Path) -> None:
        super().__init__(dataset, reason, files, address, folder)
        self.dataset, self.reason, self.files, self.address, self.folder = dataset, reason, files, address, folder

    def __str__(self) -> str:
        return self.message(f"flatfed data get {self.dataset}")

    def message(self, command: str) -> str:
        """Return what to do without a network, in a sentence; `command` is to be given again."""
        them = "them" if len(self.files) > 1 else "it"
        return (
            f"{self.dataset}: {self.reason}; fetch {_joined(self.files)} from {self.address} in another way, "
            f"put {them} into {self.folder} and run `{command}` again"
        )


def get(source: Source, directory: DataDirectory, report: Report | None = None, pause: float = 1.0) -> bool:
    """Put a data set's official files in place; say whether there was anything to do.

    Official files that are there are left alone; one that is damaged or another stays until the new one has come and is
    checked. A broken download goes on where it stopped, and an official archive that somebody put in its place is used
    instead of fetching it. `pause` seconds go by before a second try.
    """
    with _locked(directory.path):
        return _get(source, directory, report or Quiet(), pause)


def _get(source: Source, directory: DataDirectory, report: Report, pause: float) -> bool:
    official = _official(source)
    faults = official.faults(directory, exact=True)
    if not faults:
        return False
    _report_replaced(faults, report)
    for other in official.needs:
        # Not `get`: the lock is held already, and closing its file there would release it here.
        _get(find(other), directory, report, pause)
    _install_lacking(source.id, official, directory, report, pause)
    if official.assemble is not None:
        report.say("putting it together")
        official.assemble(directory)
    return True


def _official(source: Source) -> Official:
    if source.official is None:
        raise ConfigError(f"{source.id} has no official files that could be downloaded")
    return source.official


def _report_replaced(faults: dict[str, Fault], report: Report) -> None:
    for file, fault in faults.items():
        if fault is not Fault.MISSING:
            report.say(f"{file} {fault}; a new one takes its place")


def _install_lacking(dataset: str, official: Official, directory: DataDirectory, report: Report, pause: float) -> None:
    lacking = official.lacking(directory)
    for number, download in enumerate(lacking):
        try:
            _install(download, directory, report, pause)
        except Unreachable as error:
            # Those before it are in place and need not be fetched by hand.
            raise _not_fetched(dataset, directory, lacking[number:], str(error)) from None


def _not_fetched(dataset: str, directory: DataDirectory, lacking: Sequence[Download], reason: str) -> NotFetched:
    first = lacking[0]
    names = tuple(download.name for download in lacking)
    folder = (directory.path / first.folder).resolve()
    return NotFetched(dataset, reason, names, first.urls[0].removesuffix(first.name), folder)


def _joined(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    *others, last = names
    if not others:
        return last
    return f"{', '.join(others)} and {last}"


def _install(download: Download, directory: DataDirectory, report: Report, pause: float) -> None:
    """Fetch a file where it is not there, check it, unpack it; what was fetched is removed afterwards."""
    archive = directory.path / download.folder / download.name
    archive.parent.mkdir(parents=True, exist_ok=True)
    was_there = _is_there(archive, download, directory)
    if not was_there:
        fetch(download, archive, report, pause)
    report.say(f"unpacking {download.name}")
    unpack(archive, directory.path)
    _check_unpacked(archive, download, directory)
    # What is read as it was fetched must stay, and so must what somebody else put there.
    is_data = archive.name in map(_name, download.gives)
    if not was_there and not is_data:
        archive.unlink()


def _check_unpacked(archive: Path, download: Download, directory: DataDirectory) -> None:
    for file in download.gives:
        if not (directory.path / file).exists():
            raise DownloadError(f"{archive} does not contain {file}")


def _name(file: str) -> str:
    return Path(file).name


def _is_there(archive: Path, download: Download, directory: DataDirectory) -> bool:
    """Say whether the official file is there; another archive is refused, unless it is a file of the data itself."""
    if not archive.exists():
        return False
    digest = file_md5(archive)
    if digest == download.md5:
        return True
    file = archive.relative_to(directory.path).as_posix()
    # It is the data itself: the new file takes its place, but only once it is checked.
    if {file, file.removesuffix(GZIPPED)} & set(download.gives):
        return False
    raise DownloadError(
        f"{archive} is not the official file (md5 {digest} instead of {download.md5}); remove it and try again"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from putting data sets into the same directory."""
    path.mkdir(parents=True, exist_ok=True)
    # The file stays: were it removed, two processes could hold locks on two files of this name.
    with (path / ".get.lock").open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DownloadError(f"another process is putting data sets into {path}; wait for it") from None
        yield
