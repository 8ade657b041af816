"""Whole files as bytes or text; an error names the file and says what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.machine import open_regular, read_regular


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file."""
    with readable(path):
        return read_regular(path)


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8; a byte order mark at its begin is dropped."""
    with readable(path), os.fdopen(open_regular(path), encoding="utf-8-sig") as file:
        return file.read()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong in reading a file into a `ConfigError`."""
    try:
        yield
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read: byte {error.start + 1} is not UTF-8") from None


def reason(error: OSError) -> str:
    """Return the system's words for an error, without the name of the file."""
    # Errors that a library raises itself, such as gzip's, have a text and no number.
    return error.strerror or str(error)
