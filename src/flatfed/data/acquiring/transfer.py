"""Fetching one file over HTTP: resumed where it broke off, from another address where one fails, checked at the end."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from flatfed.core.errors import FlatfedError
from flatfed.data.catalogue.official import Download

CHUNK = 1 << 18
TIMEOUT = 30.0
TRIES = 4
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""HTTP answers after which another try may succeed."""
INTERRUPTIONS = (http.client.HTTPException, ConnectionError, TimeoutError)


class DownloadError(FlatfedError):
    """A file that could not be had, with what to do instead."""


class Unreachable(Exception):
    """No address of the file gives it; says why."""


class _Broken(Exception):
    """The transfer ended early; another try may go on."""


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


def fetch(download: Download, target: Path, report: Report, pause: float) -> None:
    """Fetch a file into `target`, by way of `NAME.part`, from which a broken download is resumed."""
    part = target.with_name(f"{target.name}.part")
    resumed = _size(part) > 0
    digest = _fetch_part(download, part, report, pause)
    if digest != download.md5 and resumed:
        # What was there may have been the beginning of another file.
        report.say(f"{download.name}: the part that was there does not fit; beginning again")
        part.unlink()
        digest = _fetch_part(download, part, report, pause)
    if digest != download.md5:
        part.unlink()
        raise DownloadError(
            f"{download.urls[0]} is not the official file (md5 {digest} instead of {download.md5}); nothing was kept"
        )
    part.replace(target)


def file_md5(path: Path) -> str:
    """Return the MD5 checksum of a file, which is the one that authors publish."""
    with path.open("rb") as file:
        # Marked as no matter of security, because hardened systems refuse MD5 otherwise.
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _fetch_part(download: Download, part: Path, report: Report, pause: float) -> str:
    """Complete the part from the first address that gives it; return the checksum."""
    problems = []
    for url in download.urls:
        try:
            # Appended: what an earlier address or run has given is kept.
            with part.open("ab") as file:
                _fetch_with_patience(url, file, download, report, pause)
            return file_md5(part)
        except Unreachable as error:
            problems.append(str(error))
        finally:
            _remove_if_empty(part)
    raise Unreachable("; ".join(problems))


def _remove_if_empty(path: Path) -> None:
    if _size(path) == 0:
        path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """Return the length of a file; 0 where there is none."""
    if not path.exists():
        return 0
    return path.stat().st_size


def _fetch_with_patience(url: str, file: IO[bytes], download: Download, report: Report, pause: float) -> None:
    """Try again as long as something comes, and a few times when nothing does."""
    patience = _Patience()
    while True:
        try:
            _transfer(url, file, download, report)
            return
        except _Broken as error:
            patience.note(file.tell())
            if patience.tries >= TRIES:
                raise Unreachable(f"{url}: {error}{_kept(file.tell())}") from None
            report.say(f"{download.name}: {error}; trying again")
            time.sleep(pause * 2 ** (patience.tries - 1))


class _Patience:
    """Counts the tries in a row that brought nothing."""

    def __init__(self) -> None:
        self.tries = 0
        self._reached = -1

    def note(self, position: int) -> None:
        """Note that a try ended at a position; one that came further counts as the first."""
        if position > self._reached:
            self.tries = 0
        self.tries += 1
        self._reached = position


def _kept(position: int) -> str:
    if not position:
        return ""
    return f"; {position:,} bytes are kept, and the next try goes on from there"


def _transfer(url: str, file: IO[bytes], download: Download, report: Report) -> None:
    """Append to the file what is missing, or write it from the start where the server knows no ranges."""
    begin = _position(file, download.size)
    # A server answers a request that begins at the end of a file with an error.
    if begin == download.size:
        return
    with _answer(url, begin, file) as response:
        # A server may ignore the range and send the whole, which must not be appended.
        if not _continues(response, begin):
            begin = _emptied(file)
        total = _total(response, begin, download)
        report.start(download.name, begin, total)
        _copy(response, file, report)
    _check_complete(file, total)


def _check_complete(file: IO[bytes], total: int | None) -> None:
    if total is not None and file.tell() < total:
        raise _Broken(f"the connection broke after {file.tell():,} of {total:,} bytes")


def _position(file: IO[bytes], size: int | None) -> int:
    """Return where to go on: at the end of the file, or at its start where it is longer than it should be."""
    end = file.seek(0, os.SEEK_END)
    if size is not None and end > size:
        return _emptied(file)
    return end


def _total(response: Any, begin: int, download: Download) -> int | None:
    """Return the length of the whole file: as the server says, else as it is known."""
    length = response.headers.get("Content-Length")
    if length is None or not length.isdigit():
        return download.size
    return begin + int(length)


def _copy(response: Any, file: IO[bytes], report: Report) -> None:
    try:
        while chunk := response.read(CHUNK):
            file.write(chunk)
            report.advance(len(chunk))
    except INTERRUPTIONS as error:
        raise _Broken(f"the connection broke after {file.tell():,} bytes ({_reason(error)})") from None
    finally:
        file.flush()


@contextmanager
def _answer(url: str, begin: int, file: IO[bytes]) -> Iterator[Any]:
    """Ask for a file from a byte on."""
    host = urlsplit(url).netloc
    try:
        response = urllib.request.urlopen(_request(url, begin), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refusal(url, error, begin, file) from None
    except urllib.error.URLError as error:
        why = getattr(error.reason, "strerror", None) or error.reason
        raise _no_connection(f"{host} cannot be reached ({why})", begin) from None
    except INTERRUPTIONS as error:
        raise _Broken(f"{host} does not answer ({_reason(error)})") from None
    with response:
        yield response


def _request(url: str, begin: int) -> urllib.request.Request:
    # `identity`: compressed on the way, the bytes would not be those of the checksum.
    request = urllib.request.Request(url, headers={"User-Agent": "flatfed", "Accept-Encoding": "identity"})
    if begin:
        request.add_header("Range", f"bytes={begin}-")
    return request


def _refusal(url: str, error: urllib.error.HTTPError, begin: int, file: IO[bytes]) -> Exception:
    """Return what an HTTP error means: begin again, try again, or give up."""
    # The part is at least as long as the file there, so that nothing can follow it.
    if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and begin:
        _emptied(file)
        return _Broken("the part that was there does not fit")
    message = f"{url} answers {error.code} {error.reason}"
    if error.code in PASSING:
        return _Broken(message)
    return Unreachable(message)


def _no_connection(message: str, begin: int) -> Exception:
    """Return what a host that cannot be reached means: one that has given the beginning may come back."""
    if begin:
        return _Broken(message)
    return Unreachable(message)


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _continues(response: Any, begin: int) -> bool:
    """Say whether a server sends the rest that was asked for, and not the whole."""
    if begin == 0:
        return True
    sent = str(response.headers.get("Content-Range", ""))
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and sent.startswith(f"bytes {begin}-")


def _emptied(file: IO[bytes]) -> int:
    file.truncate(0)
    return file.seek(0)
