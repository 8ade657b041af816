"""Control characters in the files of a run: they are shown as codes, and no terminal obeys them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import SMALL, flatfed, on_terminal, read_json, terminal
from flatfed.cli.output.streams import console
from flatfed.core.configuration.checking import escaped
from records import rewrite

CLI = Path(__file__).parents[2] / "src" / "flatfed" / "cli"
TITLE = "a\x1b[2J\x1b]0;pwn\x07b\x9b1m\u202ec"
SHOWN = r"a\x1b[2J\x1b]0;pwn\x07b\x9b1m\u202ec"
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters; a terminal adds carriage returns by itself."""

PRINTING = ("print", "click.echo", "click.secho", "Console", "rich.print", "sys.stdout.write", "sys.stderr.write")
"""Calls that print a text as it is."""


@pytest.fixture
def received(run: Path) -> Path:
    """A run whose records hold control characters wherever they hold text for people."""
    config = read_json(run / "config.json")
    config["method"] = f"fedsam {TITLE}"
    config["about"] |= {"title": TITLE, "command": TITLE}
    rewrite(run / "config.json", config)
    status = read_json(run / "status.json")
    rewrite(run / "status.json", status | {"status": "failed", "reason": TITLE})
    return run


def test_a_run_is_shown(received: Path) -> None:
    for done in (flatfed("show", received), on_terminal("show", received, columns=200)):
        assert not OBEYED.search(done.out + done.err)
        assert SHOWN in done.err
        assert r"\x1b]0;pwn" in done.out


def test_a_report(received: Path) -> None:
    assert flatfed("resume", received, "--rounds", "4").code == 0
    report = (received / "report.md").read_text()
    assert SHOWN in report and not OBEYED.search(report)


def test_an_error_names_what_stands_in_a_file() -> None:
    for content in ('"ro\\x1b]0;pwn\\a": 1', 'rounds: "a\\x1b]0;pwn\\a"'):
        Path("c.yaml").write_text(content)
        done = flatfed("run", "digits", "fedavg", *SMALL[2:], "--config", "c.yaml")
        assert done.code == 2
        assert r"\x1b]0;pwn" in done.err and not OBEYED.search(done.err)


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\r", "\x7f", "\x9b", "\u202e", "\u2066"])
def test_characters_that_are_escaped(character: str) -> None:
    assert escaped(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"


@pytest.mark.parametrize("text", ["", "two\nlines\tand a tab", "λ, é, 日本, 🙂", "שלום", r"\x1b"])
def test_texts_that_stay(text: str) -> None:
    assert escaped(text) == text


def test_colours_of_ones_own_stay() -> None:
    from rich.text import Text

    with terminal(80) as (stream, written):
        shown = console(file=stream, force_terminal=True, color_system="standard", width=80)
        shown.print(Text("a\x1b[2Jb\x9b1m", style="red"), TITLE, highlight=False)
        stream.close()
        text = written()
    assert text == f"\x1b[31ma\\x1b[2Jb\\x9b1m\x1b[0m {SHOWN}\r\n"


def test_there_is_one_way_to_print() -> None:
    """Whatever a command prints goes through `output/streams.py`, which escapes it."""
    others = [path for path in CLI.rglob("*.py") if path.name != "streams.py"]
    for path in others:
        assert not set(printing_calls(path)), path


def printing_calls(path: Path) -> Iterator[str]:
    """Yield the calls in a module that would print a text as it is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in PRINTING:
            yield name
