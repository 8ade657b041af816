"""Files of a kit: new ones only, with the modes that keys need, and texts made from templates."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

PRIVATE, PUBLIC, PROGRAM = 0o600, 0o644, 0o755
PRIVATE_FOLDER, PUBLIC_FOLDER = 0o700, 0o755
MARK = re.compile(r"@([a-z_]+)@")


def make_folder(path: Path, mode: int = PUBLIC_FOLDER) -> Path:
    """Make a new folder with exactly this mode, whatever the process's mask."""
    path.mkdir()
    path.chmod(mode)
    return path


def write_new(path: Path, content: str | bytes, mode: int = PUBLIC) -> None:
    """Write a file that is not there yet; nobody else can open a private one, not even for a moment."""
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)


def filled(template: str, values: Mapping[str, object]) -> str:
    """Return a template with values in the place of its marks; a mark without a value is a KeyError."""
    text = resources.files("flatfed.deploy").joinpath("templates", template).read_text(encoding="utf-8")
    return MARK.sub(lambda match: str(values[match.group(1)]), text)
