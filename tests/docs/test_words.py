"""What the pages name is there: commands, options, modules, files, links; and they use the words of the field."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import flatfed as ff
from flatfed.cli.main import cli
from flatfed.outside.installed import group_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/algorithms").glob("*.md"),
        *(ROOT / "docs/papers").glob("*.md"),
        *(ROOT / "docs/evidence").glob("*.md"),
    ]
)
OF_BENCH = {
    "--files",
    "--only",
    "--repeats",
    "--check",
    "--parameters",
    "--steps",
    "--step-ms",
    "--gigabits",
    "--cohort",
}
OF_RAY = {"--head", "--port", "--num-cpus", "--include-dashboard", "--block"}
OF_SLURM = {
    "--array",
    "--cpus-per-task",
    "--nodes",
    "--ntasks",
    "--ntasks-per-node",
    "--overlap",
    "--signal",
    "--time",
}
OF_FLOWER = {"--stream", "--node-config", "--show", "--now"}
OF_TENSORBOARD = {"--logdir"}
OF_UV = {"--torch-backend"}
FOREIGN = OF_BENCH | OF_RAY | OF_SLURM | OF_FLOWER | OF_TENSORBOARD | OF_UV
"""Options of other programs than flatfed."""

KINDS = (
    "algorithm",
    "client optimiser",
    "base optimiser",
    "average",
    "schedule",
    "partition",
    "sampler",
    "model",
    "data set",
    "metric",
)
GROUPS = {group_of(kind) for kind in (*KINDS, "engine", "measurement")}
"""Groups of entry points, which look like modules."""

OLD_WORDS = {
    r"\blockstep\b": "vectorised clients",
    r"\bso many\b": "n",
    r"\bverdicts?\b": "remark",
    r"\blocal parts\b": "local layers, local statistics",
    r"\bholdings\b": "class distribution",
    r"who holds what": "class distribution",
    r"\d (?:clients? )?an? (?:round|client|step)\b": "per round, per client, per step",
    r"refused updates?|updates? (?:is|was|are) refused": "rejected updates",
    r"these data have not": "do not have",
    r"\bis told of\b": "is named",
}
"""Words that gave way to the field's own, each with the one that stands in its place."""

OLD_WORDS_OF_CODE = {
    r"\blockstep": "vectorised clients",
    r"\bso many\b": "n, this many",
    r"\btold\b": "named, given, reported, distinguished",
    r"\bbur(?:y|ies|ied)\b": "remove",
    r"\bdesk\b": "pool, engine",
    r"\bwithout a word\b": "silently",
    r"\bcourses?\b": "schedule",
    r"\bholdings\b": "class distribution, client data",
    r"\breadings\b(?!\.json|\")": "measurements, results",
    r"\blocal[ _]parts\b(?!\")": "local layers, local statistics",
}
"""The same for the source; in quotes, names that earlier versions wrote into files are still read."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def commands(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with the words that call it."""
    if not isinstance(group, click.Group):
        yield words, group
        return
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield from commands(found, (*words, name))


OPTIONS = {
    words: {option for p in command.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}
    for words, command in commands(cli)
}
ALL_OPTIONS = set().union(*OPTIONS.values()) | {"--version"}


def lines_of(text: str) -> list[str]:
    """Return the command lines of a page: those of blocks, and those in backquotes."""
    joined = text.replace("\\\n", " ")
    alone = re.findall(r"^(?:    |\t)?(flatfed [a-z].*)$", joined, re.MULTILINE)
    quoted = re.findall(r"`(flatfed [a-z][^`]*)`", joined)
    return [re.split(r"\s#\s|\s{2,}#|&&", line)[0] for line in [*alone, *quoted]]


@each_page
def test_commands_and_their_options_are_there(page: Path) -> None:
    for line in lines_of(page.read_text(encoding="utf-8")):
        words = [word for word in shlex.split(line)[1:] if word not in ("...", "…")]
        called = [names for names in OPTIONS if tuple(words[: len(names)]) == names]
        if not called:
            assert words[0] in {names[0] for names in OPTIONS}, line  # a group such as `flatfed data`
            continue
        given = {word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)}
        assert given <= OPTIONS[called[0]], line


@each_page
def test_options_that_are_named_are_there(page: Path) -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
    assert named - FOREIGN - ALL_OPTIONS == set()


@each_page
def test_modules_and_public_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in set(re.findall(r"\bflatfed(?:\.[a-z_]+)+(?:\.[A-Z]\w*)?", text)) - GROUPS:
        assert exists(path), path
    for name in set(re.findall(r"\bff\.([A-Za-z]\w*)", text)) - {"EMA", "Lion", "Triangle"}:
        assert hasattr(ff, name), f"ff.{name}"
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        for module, name in imported(block):
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def exists(path: str) -> bool:
    """Say whether a dotted path is a module, or something in one."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return all(hasattr(found, part) for part in parts[cut : cut + 1])
    return False


def imported(block: str) -> Iterator[tuple[str, str]]:
    """Yield what a block of Python imports from flatfed."""
    try:
        tree = ast.parse(block)
    except SyntaxError:
        return  # a sketch, with dots in it
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "flatfed":
            yield from ((node.module or "", alias.name) for alias in node.names)


@each_page
def test_attributes_of_a_run_are_there(page: Path) -> None:
    named = set(re.findall(r"\brun\.([a-z_]+)", page.read_text(encoding="utf-8"))) - {"py"}
    assert [name for name in named if name != "history" and not hasattr(ff.Run, name)] == []


def anchors(page: Path) -> set[str]:
    """Return the places of a page, as links name them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        file, _, place = link.partition("#")
        target = (page.parent / file) if file else page
        assert target.exists(), link
        assert not place or place in anchors(target), link


@each_page
def test_files_that_are_named_are_there(page: Path) -> None:
    if page.name in ("CONTRIBUTING.md", "architecture.md"):
        return  # they have tests of their own
    text = page.read_text(encoding="utf-8")
    rooms = "src|tests|bench|examples|core|algorithms|data|engines|runs|machine"
    for path in re.findall(rf"`((?:{rooms})/[\w/-]+\.(?:py|yaml|md))`", text):
        assert (ROOT / path).exists() or (ROOT / "src/flatfed" / path).exists(), path


@each_page
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for old, new in OLD_WORDS.items():
        found = re.search(old, text)
        assert found is None, f"{found.group(0) if found else ''!r}: say {new}"


@pytest.mark.parametrize("module", sorted((ROOT / "src").rglob("*.py")), ids=name_of)
def test_the_source_uses_the_words_of_the_field(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    for old, new in OLD_WORDS_OF_CODE.items():
        match = re.search(old, text, re.IGNORECASE)
        assert match is None, f"{match.group(0) if match else ''!r}: say {new}"
