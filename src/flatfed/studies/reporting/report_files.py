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
CURVES, AGAINST = "curves", "against"
FOLDERS = (CURVES, AGAINST)
"""Folders of figures: all else that a report has lies beside the study's record."""
RECORDS = ("study.json", "preset.json", INDEX)
"""What lies there too, and is no part of a report."""


def record_files(folder: Path, files: Sequence[Path]) -> Path:
    """Write which files a report has, remove those that only the one before had, and return the list's own file."""
    names = sorted(file.relative_to(folder).as_posix() for file in files)
    for name in _recorded(folder / INDEX):
        if name not in names and _is_of_report(folder, name):
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


def _is_of_report(folder: Path, name: str) -> bool:
    """Say whether a name can be a report's: the list may have been changed, and must lead nowhere else."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.suffix not in ENDINGS or name in RECORDS:
        return False
    if len(path.parts) > 1 and path.parts[0] not in FOLDERS:
        return False
    # A folder on the way may be a link.
    return (folder / path).parent.resolve().is_relative_to(folder.resolve())


def _remove(folder: Path, file: Path) -> None:
    """Remove a file, and the folders that are empty then."""
    file.unlink(missing_ok=True)
    for parent in file.parents:
        if parent == folder:
            return
        with contextlib.suppress(OSError):  # it still holds something, or is gone
            parent.rmdir()
