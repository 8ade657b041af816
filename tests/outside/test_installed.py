"""Parts of installed packages: the repository of the page, built, installed and run; and packages with mistakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outside.project import flatfed, refused, succeed

PAGE = Path(__file__).parents[2] / "docs" / "your-own-parts.md"
FILES = re.compile(r"^`flatfed-tilted/([\w./-]+)`:\n\n```\w+\n(.*?)```", re.MULTILINE | re.DOTALL)
RUN = ("run", "digits", "tilted", "--rounds", "1", "--clients", "5", "--model", "logreg", "--workers", "0")


def write_repository(folder: Path) -> Path:
    """Write the repository of the page, file by file."""
    for name, content in FILES.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the repository is installed in, without a network."""
    target = tmp_path_factory.mktemp("target")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(repository)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return target


def test_the_page_has_the_files_that_its_layout_shows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    layout = text.partition("    flatfed-tilted/\n")[2].partition("\n\n")[0]
    assert [line.strip() for line in layout.splitlines()] == [name for name, _ in FILES.findall(text)]


def test_a_package_is_listed_used_and_remembered(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(succeed("list", "algorithms", "--json", cwd=tmp_path, paths=(installed,)))
    tilted = next(entry for entry in listed if entry["id"] == "tilted")
    assert (tilted["from"], tilted["down"], tilted["parameters"]) == ("flatfed-tilted 0.3.0", 2, {"rho": 0.05})
    assert not [entry["id"] for entry in listed if "from" in entry and entry is not tilted]
    succeed(*RUN, "--out", "r", cwd=tmp_path, paths=(installed,))
    [origin] = json.loads((tmp_path / "r/config.json").read_text())["origins"]
    assert (origin["package"], origin["version"], origin["id"]) == ("flatfed-tilted", "0.3.0", "tilted")
    # By its id, as it is installed: no trust is needed, and without the package it is not known.
    succeed("resume", "r", "--rounds", "2", cwd=tmp_path, paths=(installed,))
    assert "flatfed_tilted" in refused("resume", "r", "--rounds", "3", cwd=tmp_path)
    assert "tilted" in succeed("show", "r", cwd=tmp_path)


def test_the_tests_of_the_repository_pass(repository: Path, installed: Path) -> None:
    done = flatfed(
        "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=repository, paths=(installed,)
    )
    assert done.returncode == 0, done.stdout


PARTS = """
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.round.sampling import Sampler
from torch import nn


class Good(Algorithm):
    \"\"\"Good.\"\"\"


class Other(Algorithm, id="another"):
    \"\"\"With an id of its own.\"\"\"


class Few(Sampler):
    \"\"\"Client 0.\"\"\"

    def draw(self, population, seed, round, attempt):
        return [0]


def net(classes, in_features):
    \"\"\"One layer.\"\"\"
    return nn.Sequential(nn.Flatten(), nn.Linear(in_features, classes))
"""

ENTRIES = """
[flatfed.algorithms]
good = many_parts.parts:Good
fedavg = many_parts.parts:Good
renamed = many_parts.parts:Other
broken = many_parts.broken:M
[flatfed.samplers]
few = many_parts.parts:Few
[flatfed.models]
thin = many_parts.parts:net
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A package as it lies where it was installed, with parts that work and some that do not."""
    folder = tmp_path / "site"
    (folder / "many_parts").mkdir(parents=True)
    (folder / "many_parts/parts.py").write_text(PARTS)
    (folder / "many_parts/broken.py").write_text("import nowhere_at_all\n")
    about = folder / "many_parts-2.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: many-parts\nVersion: 2.1\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    (about / "top_level.txt").write_text("many_parts\n")
    return folder


def entries(kind: str, cwd: Path, package: Path) -> tuple[dict[str, Any], str]:
    done = flatfed("list", kind, "--json", cwd=cwd, paths=(package,))
    assert done.returncode == 0, done.stderr
    return {entry["id"]: entry for entry in json.loads(done.stdout)}, done.stderr


def test_a_part_that_cannot_be_used_is_named_and_the_rest_is_there(many: Path, tmp_path: Path) -> None:
    algorithms, said = entries("algorithms", tmp_path, many)
    assert algorithms["good"]["from"] == "many-parts 2.1"
    assert "from" not in algorithms["fedavg"]
    assert "'broken' of the package many-parts 2.1 cannot be imported: No module named 'nowhere_at_all'" in said
    assert "'fedavg' of the package many-parts 2.1 (many_parts.parts:Good) is taken by flatfed.algorithms" in said
    assert "'renamed', but the class many_parts.parts:Other has the id 'another'" in said


def test_parts_of_a_package_are_used_by_id(many: Path, tmp_path: Path) -> None:
    options = ("--sampling", "few", "--model", "thin", "--rounds", "1", "--clients", "5", "--workers", "0")
    succeed("run", "digits", "good", *options, "--out", "r", cwd=tmp_path, paths=(many,))
    origins = json.loads((tmp_path / "r/config.json").read_text())["origins"]
    assert {entry["family"]: entry["id"] for entry in origins} == {
        "algorithm": "good",
        "model": "thin",
        "sampler": "few",
    }
    assert {entry["package"] for entry in origins} == {"many-parts"}
    said = refused("run", "digits", "broken", "--out", "never", cwd=tmp_path, paths=(many,))
    assert "mend or remove that package" in said
