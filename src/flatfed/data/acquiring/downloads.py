"""Getting official files: over HTTP with resuming, checked by their checksum, unpacked and moved into place."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from flatfed.core.errors import FlatfedError
from flatfed.data.acquiring.archives import unpack
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.acquiring.official import MISSING, Download, Official

CHUNK = 1 << 18
TIMEOUT = 30.0
TRIES = 4
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""HTTP answers after which another try may succeed."""


class DownloadError(FlatfedError):
    """A file that could not be had, with what to do instead."""


class Report(Protocol):
    """Follows downloads."""

    def start(self, name: str, done: int, total: int | None) -> None:
        """Begin a file, of which some bytes may be there already; again where it must be begun anew."""

    def advance(self, count: int) -> None:
        """Note bytes that have come."""

    def say(self, text: str) -> None:
        """Tell what happens."""


class Quiet:
    """A report to nobody."""

    def start(self, name: str, done: int, total: int | None) -> None:
        """Do nothing."""

    def advance(self, count: int) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""


def get(
    dataset: str,
    directory: DataDirectory,
    known: Mapping[str, Official],
    report: Report | None = None,
    pause: float = 1.0,
) -> bool:
    """Put a data set's official files in place; say whether there was anything to do.

    Official files that are there are left alone; one that is damaged or another stays until the new one has come and is
    checked. A broken download goes on where it stopped, and an official archive that somebody put in its place is used
    instead of fetching it. `pause` seconds go by before a second try.
    """
    with _held(directory.path):
        return _get(dataset, directory, known, report or Quiet(), pause)


def _get(dataset: str, directory: DataDirectory, known: Mapping[str, Official], report: Report, pause: float) -> bool:
    official = known[dataset]
    faults = official.faults(directory, exact=True)
    if not faults:
        return False
    for file, fault in faults.items():
        if fault != MISSING:
            report.say(f"{file} {fault}; a new one takes its place")
    for other in official.needs:
        _get(other, directory, known, report, pause)
    lacking = [download for download in official.downloads if not official.has(download, directory)]
    for number, download in enumerate(lacking):
        try:
            _install(download, directory, report, pause)
        except _Unreachable as error:
            raise DownloadError(_by_hand(dataset, directory, lacking[number:], str(error))) from None
    if official.assemble is not None:
        report.say("putting it together")
        official.assemble(directory)
    return True


def _by_hand(dataset: str, directory: DataDirectory, lacking: list[Download], why: str) -> str:
    """Return what to do without a network, in a sentence."""
    base = lacking[0].urls[0].removesuffix(lacking[0].name)
    names = " and ".join(filter(None, (", ".join(d.name for d in lacking[:-1]), lacking[-1].name)))
    return (
        f"{dataset}: {why}; fetch {names} from {base} in another way, put {'them' if len(lacking) > 1 else 'it'} into "
        f"{(directory.path / lacking[0].folder).resolve()} and run `flatfed data get {dataset}` again"
    )


def _install(download: Download, directory: DataDirectory, report: Report, pause: float) -> None:
    """Fetch a file where it is not there, check it, unpack it; what was fetched is removed afterwards."""
    archive = directory.path / download.folder / download.name
    archive.parent.mkdir(parents=True, exist_ok=True)
    found = _lies_there(archive, download, directory)
    if not found:
        fetch(download, archive, report, pause)
    report.say(f"unpacking {download.name}")
    unpack(archive, directory.path)
    for place in download.gives:
        if not (directory.path / place).exists():
            raise DownloadError(f"{archive} does not contain {place}")
    if not found and archive.name not in (Path(place).name for place in download.gives):
        archive.unlink()


def _lies_there(archive: Path, download: Download, directory: DataDirectory) -> bool:
    """Say whether the official file lies there; another archive is refused, unless it is a file of the data itself."""
    if not archive.exists():
        return False
    digest = md5(archive)
    if digest == download.md5:
        return True
    if archive in (directory.path / f"{place}{ending}" for place in download.gives for ending in ("", ".gz")):
        return False
    raise DownloadError(
        f"{archive} is not the official file (md5 {digest} instead of {download.md5}); remove it and try again"
    )


def fetch(download: Download, target: Path, report: Report, pause: float) -> None:
    """Fetch a file into `target`, by way of `NAME.part`, from which a broken download is resumed."""
    part = target.with_name(f"{target.name}.part")
    for fresh in (False, True):
        if fresh:
            part.unlink(missing_ok=True)
        resumed = part.exists() and part.stat().st_size > 0
        _fetch_from_any(download, part, report, pause)
        digest = md5(part)
        if digest == download.md5:
            part.replace(target)
            return
        if not resumed:
            break
        report.say(f"{download.name}: the part that was there does not fit; beginning again")
    part.unlink()
    raise DownloadError(
        f"{download.urls[0]} is not the official file (md5 {digest} instead of {download.md5}); nothing was kept"
    )


def md5(path: Path) -> str:
    """Return the MD5 checksum of a file, which is the one that authors publish."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


class _Unreachable(Exception):
    """No source of the file gives it; says why."""


class _Broken(Exception):
    """The transfer ended early; another try may go on."""


def _fetch_from_any(download: Download, part: Path, report: Report, pause: float) -> None:
    problems = []
    for url in download.urls:
        try:
            with part.open("ab") as file:
                _fetch_with_patience(url, file, download, report, pause)
            return
        except _Unreachable as error:
            problems.append(str(error))
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()
    raise _Unreachable("; ".join(problems))


def _fetch_with_patience(url: str, file: IO[bytes], download: Download, report: Report, pause: float) -> None:
    """Try again as long as something comes, and a few times when nothing does."""
    tries, reached = 0, -1
    while True:
        try:
            _transfer(url, file, download, report)
            return
        except _Broken as error:
            position = file.tell()
            tries, reached = (1 if position > reached else tries + 1), position
            if tries >= TRIES:
                kept = f"; {position:,} bytes are kept, and the next try goes on from there" if position else ""
                raise _Unreachable(f"{url}: {error}{kept}") from None
            report.say(f"{download.name}: {error}; trying again")
            time.sleep(pause * 2 ** (tries - 1))


def _transfer(url: str, file: IO[bytes], download: Download, report: Report) -> None:
    """Append to the file what is missing, or write it from the start where the server knows no ranges."""
    begin = file.seek(0, os.SEEK_END)
    if download.size is not None and begin > download.size:
        begin = _emptied(file)
    if begin == download.size:
        return
    with _answer(url, begin, file) as response:
        if begin and not _continues(response, begin):
            begin = _emptied(file)
        length = response.headers.get("Content-Length")
        total = begin + int(length) if length is not None and length.isdigit() else download.size
        report.start(download.name, begin, total)
        _copy(response, file, report)
    if total is not None and file.tell() < total:
        raise _Broken(f"the connection broke after {file.tell():,} of {total:,} bytes")


def _copy(response: Any, file: IO[bytes], report: Report) -> None:
    try:
        while chunk := response.read(CHUNK):
            file.write(chunk)
            report.advance(len(chunk))
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise _Broken(f"the connection broke after {file.tell():,} bytes ({error or type(error).__name__})") from None
    finally:
        file.flush()


@contextmanager
def _answer(url: str, begin: int, file: IO[bytes]) -> Iterator[Any]:
    """Ask for a file from a byte on."""
    ranges = {"Range": f"bytes={begin}-"} if begin else {}
    request = urllib.request.Request(url, headers={"User-Agent": "flatfed", "Accept-Encoding": "identity", **ranges})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and begin:
            _emptied(file)
            raise _Broken("the part that was there does not fit") from None
        kind = _Broken if error.code in PASSING else _Unreachable
        raise kind(f"{url} answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        why = getattr(error.reason, "strerror", None) or error.reason
        raise (_Broken if begin else _Unreachable)(f"{urlsplit(url).netloc} cannot be reached ({why})") from None
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise _Broken(f"{urlsplit(url).netloc} does not answer ({error or type(error).__name__})") from None
    with response:
        yield response


def _continues(response: Any, begin: int) -> bool:
    """Say whether a server sends the rest that was asked for, and not the whole."""
    given = str(response.headers.get("Content-Range", ""))
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and given.startswith(f"bytes {begin}-")


def _emptied(file: IO[bytes]) -> int:
    file.truncate(0)
    return file.seek(0)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other processes from putting data sets into the same directory."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".get.lock").open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DownloadError(f"another process is putting data sets into {path}; wait for it") from None
        yield
