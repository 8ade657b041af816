"""What a run was made with: versions and machine, and whether that is the same now."""

from __future__ import annotations

import functools
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.files import read_json
from flatfed.runs.records.structure import ENVIRONMENT, check

FILE = "environment.json"
PACKAGES = ("flatfed", "torch", "numpy", "safetensors")
ARITHMETIC = ("torch", "numpy")
"""The packages that compute."""


def describe() -> dict[str, Any]:
    """Return versions of Python and the packages that decide a run's bits, and the kind of machine."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        # Which instructions torch computes with: AVX2, AVX512. Another set rounds in another order.
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def arithmetic_of(environment: dict[str, Any]) -> dict[str, str]:
    """Return of an environment what decides the bits, by name; earlier versions wrote too little to say."""
    if "cpu" not in environment:
        return {}
    packages = environment.get("packages", {})
    versions = {name: str(packages.get(name)) for name in ARITHMETIC}
    instructions = {"CPU instructions": str(environment["cpu"]), "machine": str(environment.get("machine"))}
    return instructions | {"Python": str(environment.get("python"))} | versions


# To look it up takes milliseconds, and it is that of what is loaded.
@functools.cache
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def read_environment(run: Path) -> dict[str, Any]:
    """Return what a run was made with; nothing where that was not recorded."""
    path = run / FILE
    if not path.is_file():
        return {}
    return _read_once(path, path.stat().st_mtime_ns)


# One command asks more than once: to compare, and for the report.
@functools.lru_cache(maxsize=8)
def _read_once(path: Path, _changed: int) -> dict[str, Any]:
    environment = read_json(path)
    check(path, environment, ENVIRONMENT)
    return environment


def changes_since(run: Path) -> str:
    """Return what of the environment is another than when the run began, where that decides bits; or nothing."""
    try:
        before = arithmetic_of(read_environment(run))
    except CheckpointError:  # it is for people, and no run needs it
        return ""
    now = arithmetic_of(describe())
    changed = [f"{name} {before[name]}, now {now[name]}" for name in before if before[name] != now[name]]
    return "; ".join(changed)
