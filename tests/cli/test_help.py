"""Help: every command explains itself, quickly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.command import flatfed

TRAINING = ["--rounds", "--local-epochs", "--batch-size", "--lr", "--weight-decay", "--evaluate-every", "--workers"]
TASK = ["--clients", "--per-round", "--partition", "--alpha", "--model"]
COMMON = [*TRAINING, *TASK, "--out", "--json", "--set", "--config"]
OPTIONS = {
    "run": [*COMMON, "--seed"],
    "compare": [*COMMON, "--seeds"],
    "resume": ["--rounds", "--data-dir", "--workers", "--json"],
    "show": ["--json", "--figure", "--published"],
    "robustness": ["--figure", "--json"],
    "evaluate": ["--data-dir", "--workers", "--json"],
    "list": ["--json"],
    "published": ["--parameters", "--json", "--csv"],
    "data": [],
    "deploy": [],
}
ARGUMENTS = {
    "run": "DATASET ALGORITHM",
    "compare": "DATASET ALGORITHM...",
    "resume": "RUN",
    "show": "RUN...",
    "robustness": "RUN",
    "evaluate": "RUN",
    "list": "KIND",
    "published": "",
    "data": "COMMAND [ARGS]...",
    "deploy": "COMMAND [ARGS]...",
}


def test_the_front_page_names_every_command() -> None:
    outcome = flatfed("--help")
    assert outcome.code == 0
    assert outcome.err == ""
    assert all(f"\n  {command} " in outcome.out for command in OPTIONS)


def test_the_front_page_cuts_no_sentence_off() -> None:
    assert "..." not in flatfed("--help").out.partition("Commands:")[2]


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", OPTIONS)
def test_a_command_explains_itself(command: str, flag: str) -> None:
    outcome = flatfed(command, flag)
    assert outcome.code == 0
    assert outcome.err == ""
    assert f"Usage: flatfed {command} [OPTIONS] {ARGUMENTS[command]}".rstrip() in outcome.out
    assert all(f"  {option} " in outcome.out for option in OPTIONS[command])
    assert all(len(line) <= 80 for line in outcome.out.splitlines())


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_precedence_is_stated(command: str) -> None:
    assert "Command line > file > default" in " ".join(flatfed(command, "--help").out.split())


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("spelling", ["feddyn+sam", "fedasam+swa"])
def test_short_spellings_are_shown(command: str, spelling: str) -> None:
    assert spelling in flatfed(command, "--help").out


@pytest.mark.parametrize(("option", "word"), [("--batch-size", "full"), ("--workers", "auto")])
def test_a_word_is_shown_as_it_must_be_typed(option: str, word: str) -> None:
    lines = flatfed("run", "--help").out.splitlines()
    shown = next(line for line in lines if line.strip().startswith(option)).split()[1]
    assert word in shown


def test_the_version() -> None:
    from flatfed import __version__

    assert flatfed("--version").out == f"flatfed, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["compare", "--help"], ["--version"]])
def test_help_does_not_wait_for_torch(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from flatfed.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: sys.stderr.write(' '.join({'torch', 'numpy', 'matplotlib', 'sklearn'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == ""


def test_python_finds_the_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flatfed", "run", "--help"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (flatfed("run", "--help").out, "")
    done = subprocess.run([sys.executable, "-m", "flatfed", "runn"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown command 'runn'; did you mean 'run'" in done.stderr


LARGE = [(name,) for name in ("run", "compare", "branch", "flatness", "landscape", "robustness", "resume", "evaluate")]
LARGE += [("data", "show")]
SMALL_ONES = [("show",), ("list",), ("site", "run"), ("deploy", "init")]


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_most_used_options_fit_on_the_first_screen(command: str) -> None:
    text = flatfed(command, "--help").out
    first_screen = text.partition("\nData:\n")[0]
    assert "Most used:" in first_screen
    assert len(first_screen.splitlines()) <= 30


@pytest.mark.parametrize("command", LARGE, ids=" ".join)
def test_many_options_stand_under_headings(command: tuple[str, ...]) -> None:
    lines = flatfed(*command, "--help").out.splitlines()
    assert {"Most used:", "Data:", "Output:"} <= set(lines)
    assert "Options:" not in lines
    assert not {"  DATASET", "  RUN..."} & set(lines)


@pytest.mark.parametrize("command", SMALL_ONES, ids=" ".join)
def test_few_options_stand_under_one(command: tuple[str, ...]) -> None:
    lines = flatfed(*command, "--help").out.splitlines()
    assert "Options:" in lines and "Most used:" not in lines


@pytest.mark.parametrize("command", [*LARGE, *SMALL_ONES], ids=" ".join)
def test_help_speaks_plainly(command: tuple[str, ...]) -> None:
    text = " ".join(flatfed(*command, "--help").out.split()).lower()
    for word in ("lockstep", "so many", "a round's", "points an axis"):
        assert word not in text
