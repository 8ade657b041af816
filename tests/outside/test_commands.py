"""Every command that opens a run: those that look import no code that it names, the others only with --trust."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from dashboard.board import dashboard
from flatfed.cli.main import cli
from flatfed.runs.records.files import read_json, write_json
from outside.project import STUDY, flatfed, imports, refused, stranger, succeed

LOOKING: dict[str, list[str]] = {
    "show": ["RUN"],
    "list": ["runs", "FOLDER"],
    "report": ["RUN", "STUDIED", "--out", "OUT.html"],
    "track": ["RUN", "--to", "tensorboard(folder=OUT)"],
    "study show": ["STUDIED"],
    "study pack": ["STUDIED", "OUT"],
    "claims check": ["STUDIED"],
    "bundle": ["RUN", "--out", "OUT.zip"],
}
"""Commands that show what a run or a study has come to, with arguments that make them do it."""

OPENING: dict[str, list[str]] = {
    "run": ["--config", "RUN/config.json", "--out", "OUT"],
    "compare": ["--config", "RUN/config.json", "--seeds", "0", "--out", "OUT"],
    "resume": ["RUN", "--rounds", "4"],
    "branch": ["CELL", "--average", "swa", "--out", "OUT"],
    "evaluate": ["RUN"],
    "flatness": ["RUN", "--measure", "loss", "--samples", "9"],
    "landscape": ["RUN", "--points", "3"],
    "robustness": ["RUN"],
    "export": ["RUN", "--format", "torch", "--out", "OUT"],
    "predict": ["RUN", "RUN/config.json"],
    "study check": ["STUDY"],
    "study run": ["STUDY", "--out", "OUT"],
    "study tune": ["STUDY", "louder"],
    "study draw": ["STUDIED", "--file", "STUDY"],
    "study measure": ["STUDIED"],
}
"""Commands that would have to import what a run or a file names."""

CODES = {"study draw": 1, "study measure": 1}
"""Other exit codes than that of a mistake: of a study's figures and models, some may need no code."""

OTHERS = {
    *("study list", "study write", "study unpack", "published", "claims show"),
    *("data check", "data get", "data list", "data show"),
    *("site check", "site forget", "site health", "site run", "deploy check", "deploy init"),
}
"""Commands that open no run; a site's own file names what may be imported there."""

ELSEWHERE = {"dashboard", "verify"}
"""The first is tested below, as it goes on until it is ended; the second in the tests of bundles."""


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every command that does something, as it is typed."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*words, name))


def test_no_command_is_forgotten() -> None:
    """A new command belongs into one of the tables above."""
    assert set(leaves(cli)) == LOOKING.keys() | OPENING.keys() | OTHERS | ELSEWHERE


def test_commands_that_import_can_be_told_to_trust() -> None:
    """What is refused must have a way."""
    context = click.Context(cli)
    for name in OPENING:
        command: click.Command | None = cli
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command is not None
        assert "trust" in {parameter.name for parameter in command.params}, name


@dataclass(frozen=True)
class Sent:
    """What somebody has sent: a run, a study and a study's file, whose code can be imported but is nobody's project."""

    folder: Path
    paths: tuple[Path, ...]

    def words(self, command: str, arguments: list[str]) -> list[str]:
        out = str(self.folder / f"out-{command.replace(' ', '-')}")
        places = {"RUN": "sent/r", "STUDIED": "sent/studied", "STUDY": "sent/first.yaml", "FOLDER": "sent"}
        places["CELL"] = "sent/studied/cells/louder/seed-0"
        words = [word.replace("OUT", out) for word in arguments]
        for name, place in places.items():
            words = [word.replace(name, str(self.folder / place)) for word in words]
        return [*command.split(), *words]

    @property
    def imports(self) -> int:
        return imports(self.paths[0])


MORE = """
tune: {louder: {rho: {log: [0.01, 1]}}}
report: {figures: {spectrum: {draw: flatness, measure: loss}}}
"""


def _to_be_measured(file: Path) -> None:
    """Let a study ask for a measurement of models that were trained without."""
    record = read_json(file)
    record["study"]["report"] |= {"flatness": "loss", "flatness_samples": 9}
    write_json(file, record)


@pytest.fixture
def sent(made: Path, studied: Path, tmp_path: Path) -> Sent:
    shutil.copytree(made / "runs/r", tmp_path / "sent/r")
    shutil.copytree(studied, tmp_path / "sent/studied")
    (tmp_path / "sent/first.yaml").write_text(f"{STUDY}{MORE}")
    _to_be_measured(tmp_path / "sent/studied/study.json")
    return Sent(tmp_path, stranger(made, tmp_path))


@pytest.mark.parametrize("command", LOOKING)
def test_to_look_imports_nothing(command: str, sent: Sent) -> None:
    done = flatfed(*sent.words(command, LOOKING[command]), cwd=sent.folder, paths=sent.paths)
    assert done.returncode == 0, done.stderr
    if command in ("show", "list", "study show"):
        assert "louder" in done.stdout
    if command == "track":  # all else is sent
        assert "sent without its final model" in done.stderr
        assert "--trust" in done.stderr
    assert sent.imports == 0


@pytest.mark.parametrize("command", OPENING)
def test_what_would_be_imported_is_named_and_waits_for_trust(command: str, sent: Sent) -> None:
    words = sent.words(command, OPENING[command])
    done = flatfed(*words, cwd=sent.folder, paths=sent.paths)
    assert done.returncode == CODES.get(command, 2), done.stderr
    assert "Traceback" not in done.stderr
    told = [line for line in done.stderr.splitlines() if "names mine.parts:" in line]
    assert told
    assert command in CODES or told == done.stderr.splitlines()
    for line in told:
        assert str(sent.paths[0] / "mine/parts.py") in line
        assert "--trust" in line
    assert sent.imports == 0


TRUSTED = ("evaluate", "branch", "landscape", "robustness", "study check")
"""Of the last kind, one for each way in which code is found; what comes after it is tested elsewhere."""


@pytest.mark.parametrize("command", TRUSTED)
def test_with_trust_it_is_imported(command: str, sent: Sent) -> None:
    words = sent.words(command, OPENING[command])
    done = flatfed(*words, "--trust", cwd=sent.folder, paths=sent.paths)
    assert "Traceback" not in done.stderr
    assert "--trust" not in done.stderr
    assert sent.imports == 1


COMPARISONS = (("resume", "--rounds", "3"), ("flatness", "--measure", "loss", "--samples", "9"), ("robustness",))


def test_a_comparison_of_a_stranger_is_shown_and_not_opened(made: Path, compared: Path, tmp_path: Path) -> None:
    sent = Path(shutil.copytree(compared, tmp_path / "sent/c"))
    paths = stranger(made, tmp_path)
    assert "louder" in succeed("show", str(sent), cwd=tmp_path, paths=paths)
    succeed("report", str(sent), "--out", "page.html", cwd=tmp_path, paths=paths)
    for command, *options in COMPARISONS:
        said = refused(command, str(sent), *options, cwd=tmp_path, paths=paths)
        assert "names mine.parts:" in said
        assert "--trust" in said
    assert imports(paths[0]) == 0


def test_where_parts_come_from_is_shown(sent: Sent) -> None:
    run = str(sent.folder / "sent/r")
    expected = "algorithm louder is mine.parts:Louder"
    assert expected in " ".join(succeed("show", run, cwd=sent.folder).split())
    shown = json.loads(succeed("show", run, "--json", cwd=sent.folder))["setting"]["louder+newest"]
    assert shown["algorithm"] == {"id": "louder", "rho": 0.2}
    assert {entry["family"] for entry in shown["origins"]} >= {"algorithm", "average", "sampler"}
    succeed("report", run, "--out", "page.html", cwd=sent.folder)
    assert "mine.parts:Louder" in (sent.folder / "page.html").read_text()


def test_the_dashboard_imports_nothing(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    monkeypatch.syspath_prepend(sent.paths[0])
    with dashboard(sent.folder / "sent") as board:
        entry = board.entries()["r"]
        assert (entry["method"], entry["parameters"]) == ("louder+newest", "louder(rho=0.2), newest")
        assert entry["outside"].startswith("algorithm louder is mine.parts:Louder; average newest is ")
        report = board.ask(f"/report?of={entry['id']}")
        assert report.status == 200
        assert "mine.parts:Louder" in report.text
    assert sent.imports == 0
