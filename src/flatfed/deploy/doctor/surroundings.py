"""Versions, programs and room on the disk of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from flatfed.deploy.doctor.diagnosis import Diagnosis, fault, warning, well
from flatfed.deploy.manifest import installed_versions, public_version

LEAST_ROOM, GOOD_ROOM = 0.5e9, 5e9
SYSTEM_PROGRAMS = ("/usr/sbin", "/sbin")


def check_versions(made: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Compare what is installed with what the deployment was made with."""
    here = installed_versions()
    for name, wanted in made.items():
        found = here.get(name)
        if found is None:
            yield fault("versions", f"{name} is not installed", "pip install 'flatfed[flower]'")
        elif public_version(found) == public_version(wanted):
            yield well("versions", f"{name} {found}")
        elif name == "torch":
            fix = f"install torch {public_version(wanted)} for the same bits as everywhere"
            yield warning("versions", f"torch {found}, the deployment was made with {wanted}", fix)
        else:
            fix = f"pip install '{name}=={wanted}'"
            yield fault("versions", f"{name} {found}, the deployment was made with {wanted}", fix)


def check_programs(folder: Path, names: Iterable[str]) -> Iterator[Diagnosis]:
    """Look for programs where the scripts will: in the folder's own environment, then on PATH."""
    places = [str(folder / ".venv" / "bin"), os.environ.get("PATH", ""), *SYSTEM_PROGRAMS]
    for name in names:
        found = shutil.which(name, path=os.pathsep.join(places))
        if found is None:
            yield fault("programs", f"{name} is not found", "see README.md, the first command; or set PATH")
        else:
            yield well("programs", found)


def check_room(folder: Path) -> Diagnosis:
    """Say how much room the disk has."""
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free"
    if free < LEAST_ROOM:
        return fault("disk", text, "make room: messages, states and models are kept here")
    if free < GOOD_ROOM:
        return warning("disk", text, "make room: messages, states and models are kept here")
    return well("disk", text)
