"""Commands with arguments of any kind: an exit code that is known, and one sentence; nothing is ever trained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.command import SMALL, refused
from flatfed.cli.commands.compare import compare
from flatfed.cli.commands.run import run
from flatfed.cli.commands.show import show
from flatfed.cli.data.show import show as data_show
from fuzz.grammars import NUMBERS, texts
from fuzz.readers import answered

MANY = bool(os.environ.get("FLATFED_FUZZ"))
VALUES = [*NUMBERS, "auto", "all", "none", "fedavg", "/", "/dev/null", "no/such/place", "\udcff", "a\0b", "0,1", "1,,2"]
values = st.one_of(st.sampled_from(VALUES), texts)


def spellings(command: object) -> list[str]:
    """Return the long options of a command."""
    options = [option for parameter in command.params for option in parameter.opts]  # type: ignore[attr-defined]
    # What would write, or ask the network, is left to others.
    return [option for option in options if option.startswith("--") and option not in ("--out", "--figure", "--help")]


BEGINNINGS = {
    ("run", "no-data-set", "fedavg"): spellings(run),
    ("run", "digits", "fedavg", "--rounds", "no"): spellings(run),
    ("compare", "no-data-set", "fedavg", "fedsam"): spellings(compare),
    ("show", "no-run"): spellings(show),
    ("data", "show", "no-data-set"): spellings(data_show),
    ("list",): ["--json"],
}


@given(data=st.data())
@settings(max_examples=3000 if MANY else 40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject) -> None:
    monkeypatch.chdir(tmp_path)
    beginning = data.draw(st.sampled_from(list(BEGINNINGS)))
    arguments = list(beginning)
    for option in data.draw(st.lists(st.sampled_from(BEGINNINGS[beginning]), max_size=4)):
        arguments += [option, data.draw(values)] if data.draw(st.booleans()) else [f"{option}={data.draw(values)}"]
    if data.draw(st.integers(0, 5)) == 0:
        arguments.insert(data.draw(st.integers(0, len(arguments))), data.draw(values))
    answered(*arguments)


@given(arguments=st.lists(values, max_size=4))
@settings(max_examples=1000 if MANY else 20)
def test_any_words(arguments: list[str]) -> None:
    # A word may be a command, but no data set, so that none trains.
    answered(*[word for word in arguments if word != "digits"])


LARGE = "9" * 400
REFUSED = [
    ["run", "digits", "fedavg", "--rounds", LARGE],
    ["run", "digits", "fedavg", "--seed", LARGE],
    ["run", "digits", "fedavg", "--clients", LARGE],
    ["run", "digits", "fedavg", "--lr", LARGE],
    ["run", "digits", "fedavg", "--set", f"server_lr={LARGE}"],
    ["run", "digits", "fedavg", "--workers", "100000"],
    ["run", "digits", "fedadam", "--set", "tau=1e30"],
    ["run", "digits", "fedavg", "--set", "server_lr=2020-13-45"],
    ["run", "digits", "fedavg", "--set", "server_lr=2020-12-01"],
    ["compare", "digits", "fedavg", "--seeds", f"0,{LARGE}"],
    ["run", "digits", "fedavg", "--keep-checkpoints", LARGE],
    ["show", "a\0b"],
    ["show", "\udcff"],
    ["run", "digits", "fedavg", "--out", "\udcff"],
    ["run", "digits", "fedavg", "--model", "a\0b"],
    ["run", "digits", "fedavg", "--set", '{"a": "\\0"}'],
]


@pytest.mark.parametrize(
    "arguments", REFUSED, ids=lambda words: " ".join(words)[:40].encode("ascii", "replace").decode()
)
def test_refused(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = () if arguments[0] == "show" else (*SMALL, "--out", "out") if "--out" not in arguments else SMALL
    own = {word for word in arguments if word.startswith("--")}
    pairs = zip(small[::2], small[1::2], strict=True)
    usual = [word for option, value in pairs if option not in own for word in (option, value)]
    refused(answered(*arguments, *usual))
    assert list(tmp_path.iterdir()) == []


def test_a_working_directory_that_is_gone_and_a_terminal_of_ascii(tmp_path: Path) -> None:
    """In one process, for each takes seconds to start."""
    script = (
        "import os, sys; from flatfed.cli.main import main\n"
        "try: main(['list', 'measurements'])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "main(['list', 'algorithms'])\n"
    )
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr == "Error: the working directory does not exist any more; change to another one\n"


def test_an_unforeseen_error_is_a_sentence_and_a_file(tmp_path: Path) -> None:
    """A module of the user's that raises where nobody thought of it stands for a defect."""
    script = (
        "import sys, tempfile; import flatfed.cli.main as m\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "def broken(*_): raise ZeroDivisionError('by\\nnothing')\n"
        "m._find_modules_here = broken\n"
        "m.main(['list'])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    begin = "Error: unexpected: ZeroDivisionError: by nothing; this is a defect of flatfed: the traceback is in "
    assert done.stderr.startswith(begin) and done.stderr.count("\n") == 1
    assert "ZeroDivisionError" in Path(done.stderr.removeprefix(begin).strip()).read_text()
    shown = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"FLATFED_TRACEBACK": "1"})
    assert shown.stderr.startswith("Traceback") and shown.returncode == 1
