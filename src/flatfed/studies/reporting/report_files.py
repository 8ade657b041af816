"""Which files a study's report has: those of an earlier one that are not written any more are removed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from flatfed.core.errors import FlatfedError
from flatfed.runs.records.files import read_json, replace_file

INDEX = "report.json"
ENDINGS = (".md", ".csv", ".json", ".tex", ".png", ".pdf")


def record_files(folder: Path, files: Sequence[Path]) -> Path:
    """Write which files a report has, remove those that only the one before had, and return the list's own file."""
    names = sorted(file.relative_to(folder).as_posix() for file in files)
    for name in _recorded(folder / INDEX):
        if name not in names and _is_of_report(name):
            _remove(folder, folder / name)
    content = {"files": names}
    replace_file(folder / INDEX, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return folder / INDEX


def _recorded(index: Path) -> list[str]:
    """Return what the report before had; nothing where that is not known."""
    if not index.exists():
        return []
    try:
        names = read_json(index).get("files")
    except FlatfedError:
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _is_of_report(name: str) -> bool:
    """Say whether a name can be a report's: the list may have been changed, and must lead nowhere else."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and path.suffix in ENDINGS and path.parts[0] != "cells"


def _remove(folder: Path, file: Path) -> None:
    """Remove a file, and the folders that are empty then."""
    file.unlink(missing_ok=True)
    for parent in file.parents:
        if parent == folder:
            return
        with contextlib.suppress(OSError):  # it still holds something, or is gone
            parent.rmdir()
