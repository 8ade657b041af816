"""What the harnesses for atheris share: bytes that are steered by coverage go to one reader, again and again."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris

from flatfed.core.errors import FlatfedError


def run(read: Callable[[bytes], object], seeds: dict[str, bytes]) -> None:
    """Give bytes to a reader for as long as the options say (`-runs=20000`); another error than a refusal ends it."""
    warnings.simplefilter("ignore")

    def once(data: bytes) -> None:
        try:
            read(data)
        except FlatfedError as error:
            assert str(error).strip()

    corpus = Path(tempfile.mkdtemp(prefix="fuzz-"))  # whoever starts this clears the place of temporary files
    for name, whole in seeds.items():
        (corpus / name).write_bytes(whole)
    atheris.Setup([*sys.argv, str(corpus)], once)
    atheris.Fuzz()


def through_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return a reader of bytes for one of files."""
    place = Path(tempfile.mkdtemp(prefix="fuzz-")) / "file"

    def from_bytes(data: bytes) -> object:
        place.write_bytes(data)
        return read(place)

    return from_bytes
