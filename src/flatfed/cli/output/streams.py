"""The one way to standard output and standard error.

The streams cannot fail: what is lost is noted, and the command goes on. What a file says is shown, and is never a
command to the terminal.
"""

from __future__ import annotations

import functools
import io
import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from flatfed.core.configuration.checking import escaped


class Lossy(io.RawIOBase):
    """Writes to a descriptor; what cannot be written is dropped.

    A terminal may be closed, a reader may leave, a disk may be full: none of it is worth a training.

    Args:
        descriptor: where to write.
        gives_up: drop all that follows too, because half a result is worse than none; else later parts are tried.

    Attributes:
        error: the last one that struck.
    """

    def __init__(self, descriptor: int, gives_up: bool) -> None:
        self._descriptor, self._gives_up = descriptor, gives_up
        self.error: OSError | None = None

    def writable(self) -> bool:
        """Say that it is for writing."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Say whether this is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any, /) -> int:
        """Write some of the data, or drop it."""
        if self.error is not None and self._gives_up:
            return len(data)
        try:
            return self._write(data)
        except OSError as error:
            self.error = error
            return len(data)

    def _write(self, data: Any) -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                # A terminal that somebody else made non-blocking: full now, not for ever.
                select.select([], [self._descriptor], [])


@contextmanager
def lossy_streams() -> Iterator[Lossy | None]:
    """Let the standard streams of this process drop what cannot be written; yield the one of standard output.

    Streams that are no files, such as those of a test, stay as they are; then there is none to yield.
    """
    _fill_closed_descriptors()
    before = sys.stdout, sys.stderr
    out, sys.stdout = _lossy(sys.stdout, 1)
    _, sys.stderr = _lossy(sys.stderr, 2)
    try:
        yield out
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _fill_closed_descriptors() -> None:
    """Give the numbers 0 to 2 to the null device where they are closed: the next file would get them otherwise.

    Whatever is then printed would go into that file, which may be a run's history.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Opened for reading alone, so that what is written is lost with an error and not silently.
            opened = os.open(os.devnull, os.O_RDONLY)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            os.set_inheritable(number, True)


def _lossy(stream: TextIO | None, number: int) -> tuple[Lossy | None, TextIO]:
    """Return a stream in place of another on the same descriptor; Python has None for one that is closed."""
    try:
        descriptor = number if stream is None else stream.fileno()
    except (OSError, ValueError, AttributeError):
        assert stream is not None
        return None, stream
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.flush()
    raw = Lossy(descriptor, gives_up=number == 1)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    at_once = number == 2 or raw.isatty()
    return raw, io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=at_once)


def echo(text: str, err: bool = False, nl: bool = True) -> None:
    """Print a text, by default with a line break, on standard output or standard error."""
    click.echo(escaped(text), err=err, nl=nl)


def show_error(error: click.ClickException) -> None:
    """Print an error of click, which may name what stands in a configuration file."""
    text = io.StringIO()
    error.show(text)
    echo(text.getvalue(), err=True, nl=False)


def console(**options: Any) -> Any:
    """Return a console of rich, whose own codes for colours and lines are meant; texts in it are escaped."""
    return _console_class()(**options)


@functools.cache
def _console_class() -> Any:
    """Return the class; made when first used, because help and JSON do without rich."""
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        """Escapes whatever is text, in tables and bars too."""

        def render_str(self, text: str, **options: Any) -> Any:
            """Return a string as a text; escaped before its width is measured."""
            return super().render_str(escaped(text), **options)

        def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
            """Yield the pieces of an object."""
            for piece in super().render(*args, **options):
                if piece.control is None:
                    yield Segment(escaped(piece.text), piece.style)
                else:
                    yield piece

    return EscapingConsole
