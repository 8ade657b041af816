"""What CITATION.cff must hold, and that it, the package and its metadata are of one version."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

import flatfed

ROOT = Path(__file__).parents[2]
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_has_what_the_format_demands() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["message"] and CITATION["title"]
    assert CITATION["type"] == "software"
    assert CITATION["authors"] and all(author["name"] for author in CITATION["authors"])


def test_there_is_one_version_and_one_licence() -> None:
    assert str(CITATION["version"]) == flatfed.__version__ == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["keywords"] == PROJECT["keywords"]
