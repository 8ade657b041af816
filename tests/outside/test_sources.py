"""The files that a part is made of: read, not imported; and what of them has changed since a run was made."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from flatfed.outside.origins import PartOrigin, changes_of_code, recorded_origins
from flatfed.outside.source_hashes import sources_of

FILES = {
    "pkg_of_mine/__init__.py": "from .shared import x\n",
    "pkg_of_mine/method.py": """
import json, numpy, click
import top_of_mine
from . import near
from .deep.er import thing
from flatfed.core.method.vectors import unit
from missing_at_all import nothing
if 0:
    import pkg_of_mine.never
def late():
    from pkg_of_mine.late import *
raise SystemExit("nobody may import this")
""",
    "pkg_of_mine/shared.py": "x = 1\n",
    "pkg_of_mine/near.py": "from pkg_of_mine import method\n",
    "pkg_of_mine/deep/er.py": "from ..far import y\nthing = 1\n",
    "pkg_of_mine/far.py": "y = 1\n",
    "pkg_of_mine/never.py": "import\n",
    "pkg_of_mine/late.py": "",
    "pkg_of_mine/alone.py": "nobody = 1\n",
    "top_of_mine.py": "z = 1\n",
}
NAMES = ("", ".deep.er", ".far", ".late", ".near", ".never", ".shared")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose method imports many modules, and would end the process if it were imported."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    yield tmp_path
    for name in [name for name in sys.modules if "_of_mine" in name]:
        del sys.modules[name]


def test_all_modules_of_the_author_are_found_and_none_is_imported(project: Path) -> None:
    found = sources_of("pkg_of_mine.method")
    assert list(found.modules) == [*(f"pkg_of_mine{name}" for name in NAMES), "top_of_mine"]
    assert found.modules["pkg_of_mine.far"] == sha256(b"y = 1\n").hexdigest()
    assert found.sha256 == sha256(FILES["pkg_of_mine/method.py"].encode()).hexdigest()
    # Flatfed, torch and numpy are in the record of every run already.
    assert list(found.uses) == ["click"]
    assert not [name for name in sys.modules if "_of_mine" in name]


def test_it_is_the_same_whatever_is_imported_and_wherever_it_lies(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sources_of("pkg_of_mine.method")
    import pkg_of_mine.deep.er  # type: ignore[import-not-found] # noqa: F401

    after = sources_of("pkg_of_mine.method")
    assert (after.digest, after.modules) == (before.digest, before.modules)
    for name in [name for name in sys.modules if "_of_mine" in name]:
        del sys.modules[name]
    moved = project.rename(tmp_path_factory.mktemp("moved") / "there")
    monkeypatch.syspath_prepend(moved)
    assert sources_of("pkg_of_mine.method").digest == before.digest


@pytest.mark.parametrize("name", ["far", "deep/er", "late", "__init__"])
def test_a_change_anywhere_changes_the_digest(name: str, project: Path) -> None:
    before = sources_of("pkg_of_mine.method").digest
    with (project / f"pkg_of_mine/{name}.py").open("a") as file:
        file.write("more = 2\n")
    assert sources_of("pkg_of_mine.method").digest != before


def test_what_is_not_imported_does_not_count(project: Path) -> None:
    before = sources_of("pkg_of_mine.method").digest
    (project / "pkg_of_mine/alone.py").write_text("")
    assert sources_of("pkg_of_mine.method").digest == before


def test_an_installed_package_has_its_own_modules_and_the_versions_of_others() -> None:
    found = sources_of("click.core")
    assert {"click", "click.parser", "click.types"} <= found.modules.keys()
    assert all(name.partition(".")[0] == "click" for name in found.modules)
    assert "click" not in found.uses


def origin(project: Path) -> PartOrigin:
    made_of = sources_of("pkg_of_mine.method")
    path = "algorithm", "louder", "pkg_of_mine.method", "Louder"
    return PartOrigin(*path, None, None, made_of.sha256, made_of.modules, made_of.uses)


def test_changes_are_told_by_file_and_package(project: Path) -> None:
    before = origin(project)
    (recorded,) = recorded_origins(json.loads(json.dumps({"origins": [before.to_dict()]})))
    assert changes_of_code([recorded], [origin(project)]) == []
    (project / "pkg_of_mine/far.py").write_text("y = 2\n")
    far = project / "pkg_of_mine/far.py"
    assert changes_of_code([recorded], [origin(project)]) == [f"the algorithm louder was changed in {far}"]
    other = replace(before, uses={"click": "0.1"})
    (change,) = changes_of_code([other], [before])
    assert change.startswith("the algorithm louder was used with other packages: click 0.1, now 8.")


def test_a_record_with_the_hash_of_one_file_is_compared_by_that(project: Path) -> None:
    entry = {name: value for name, value in origin(project).to_dict().items() if name not in ("modules", "uses")}
    (old,) = recorded_origins({"origins": [entry]})
    (project / "pkg_of_mine/far.py").write_text("y = 2\n")
    assert changes_of_code([old], [origin(project)]) == []
    (project / "pkg_of_mine/method.py").write_text("")
    assert len(changes_of_code([old], [origin(project)])) == 1
