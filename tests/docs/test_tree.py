"""The tree of the package: what each room is for, how much it holds, and that names are found once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "flatfed"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
MOST = 12
NO_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "tools", "stuff"}

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

REPEATED = {
    "branch": "the command, and what it does",
    "checking": "of values, and of a study before it runs",
    "cifar": "the file format, and the data sets in it",
    "clients": "measurements of theirs, and of street scenes",
    "commands": "of `flatfed data` and `flatfed study`, and those that worker processes are given",
    "compare": "the command, and what it does",
    "config": "the base of configurations, and that of Ray",
    "directory": "of data, and of runs",
    "draws": "keyed draws of augmentations, and of corruptions",
    "engine": "the protocol, that of pools, and that of Ray",
    "evaluate": "the command, and the points of a landscape",
    "examples": "of a task, and corrupted ones",
    "files": "safe writing of a run's, reading of data, and what commands write",
    "flatness": "the command, what it does, and its tables and figures",
    "landscape": "the command, and its files",
    "methods": "as they are written, and compared under corruptions",
    "metrics": "what a task measures, and how a run describes it",
    "outcome": "of tuning, and of the naive computation",
    "pool": "of examples, of processes, and of actors",
    "progress": "of a run, and of a download",
    "registry": "of configuration classes, and of data sets",
    "results": "of a measurement, kept on disk, collected for a report, of a study, and shown by commands",
    "resume": "the command, and what it does",
    "robustness": "the command, and what it does",
    "run": "the command, and the run that comes of it",
    "sampling": "of clients, and of pixels",
    "segmentation": "the file format, the examples, and their augmentation",
    "setting": "what decides a run, and what runs have in common",
    "settings": "their declaration, and the options made of it",
    "show": "the command of runs, and that of data",
    "spelling": "of methods, and of augmentations",
    "swa": "the average, and its naive computation",
    "table": "of results, and data of one's own",
    "tables": "of data sets, and of studies",
    "texts": "the file format, the examples, and data of one's own",
    "training": "options of it, what they make, and the naive computation's",
    "vectors": "the direction of one, here and in the naive computation",
    "values": "of parameters in text, and the kinds of values of options",
    "write": "the files of a report, and its page",
}
"""Module names that stand in several rooms, each with the reason."""


def room_name(room: Path) -> str:
    return str(room.relative_to(PACKAGE.parent))


def first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def classes() -> Iterator[tuple[str, Path]]:
    """Yield every class at the top of a module, or in a class, with the module."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, path


@pytest.mark.parametrize("room", ROOMS, ids=room_name)
def test_a_room_says_what_it_is_for(room: Path) -> None:
    purpose = first_line(room / "__init__.py")
    assert len(purpose.split()) >= 3
    assert purpose.endswith((".", "`."))


@pytest.mark.parametrize("room", ROOMS, ids=room_name)
def test_a_room_holds_at_most_a_dozen_modules(room: Path) -> None:
    modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST, f"{room_name(room)} holds {len(modules)} modules: divide it by theme"


@pytest.mark.parametrize("path", MODULES, ids=room_name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert first_line(path)


def test_every_folder_with_modules_is_a_package() -> None:
    assert {path.parent for path in MODULES} <= set(ROOMS)


def test_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for name, path in classes():
        homes.setdefault(name, []).append(room_name(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {path.stem for path in MODULES} | {room.name for room in ROOMS}
    assert names & NO_NAMES == set()


def test_module_names_repeat_only_with_a_reason() -> None:
    counts = Counter(path.stem for path in MODULES)
    repeated = {name for name, count in counts.items() if count > 1}
    assert repeated == REPEATED.keys()


# --- the page -----------------------------------------------------------------------------------------------------


def rooms_on_the_page() -> dict[str, str]:
    """Return the packages of the tree in docs/architecture.md with their lines; depth is indentation by two."""
    tree = PAGE.partition("## The tree")[2].partition("```text\n")[2].partition("```")[0]
    actual: dict[str, str] = {}
    path: list[str] = []
    for line in tree.splitlines():
        entry = re.fullmatch(r"( *)([a-z_]+)/ +(\S.*)", line)
        assert entry is not None, f"not a line of the tree: {line!r}"
        depth = len(entry.group(1)) // 2
        path = [*path[:depth], entry.group(2)]
        actual["/".join(path)] = entry.group(3)
    return actual


def test_every_room_has_its_line_on_the_page() -> None:
    assert sorted(rooms_on_the_page()) == [room_name(room) for room in ROOMS]


def test_the_page_names_no_file_that_is_not_there() -> None:
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", PAGE)
    assert len(named) > 30
    assert [name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()] == []
