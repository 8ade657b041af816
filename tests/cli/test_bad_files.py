"""Files and directories that are missing, broken or in the way: refused, and nothing already saved is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command import SMALL, Outcome, fingerprint, flatfed, refused

UNUSABLE_CONFIGS = {
    "flow.yaml": (b"rounds: [1,\n b: }", ["flow.yaml", "YAML", "line 2"]),
    "tab.yaml": (b"set:\n\trho: 1\n", ["tab.yaml", "YAML"]),
    "binary.yaml": (b"\xff\xfe\x00\x80abc", ["binary.yaml"]),
    "nul.yaml": (b"\x00\x01\x02", ["nul.yaml"]),
    "list.yaml": (b"- rounds\n- 3\n", ["list.yaml", "option: value"]),
    "word.yaml": (b"hello", ["word.yaml", "option: value"]),
    "unknown.yaml": (b"ronds: 3", ["unknown.yaml", "'ronds'", "'rounds'"]),
    "itself.yaml": (b"config: other.yaml", ["itself.yaml", "'config'"]),
    "seeds.yaml": (b"seeds: 0,1", ["seeds.yaml", "'seeds'", "'seed'"]),
    "internal.yaml": (b"as_json: true", ["internal.yaml", "as_json"]),
    "settings.yaml": (b"settings: [rho=1]", ["settings.yaml", "settings", "'set'"]),
    "word-for-number.yaml": (b"rounds: many", ["rounds", "many"]),
    "negative.yaml": (b"lr: -1", ["lr", "-1"]),
    "list-for-number.yaml": (b"rounds: [1, 2]", ["rounds", "[1, 2]"]),
    "map-for-number.yaml": (b"lr: {a: 1}", ["lr"]),
    "list-for-name.yaml": (b"partition: [iid]", ["iid"]),
    "true-for-number.yaml": (b"rounds: true", ["rounds"]),
    "fraction.yaml": (b"rounds: 2.5", ["rounds", "2.5"]),
    "nothing.yaml": (b"rounds:", ["rounds"]),
    "set-list.yaml": (b"set: [a, b]", ["set-list.yaml", "set", "name: value"]),
    "set-unknown.yaml": (b"set: {roh: 1}", ["'roh'", "'rho'"]),
    "set-type.yaml": (b"set: {rho: high}", ["rho", "number", "'high'"]),
}
BROKEN_RUNS = {
    "half": ('{"format": 1,', ["half/config.json"]),
    "array": ("[]", ["array/config.json", "object"]),
    "newer": ('{"format": 99}', ["newer/config.json", "99"]),
    "hollow": ('{"format": 1}', ["hollow"]),
    "latin": ("\xff\xfe", ["latin/config.json"]),
}
BROKEN_COMPARISONS = {
    "half": ('{"format": 1,', ["half/comparison.json"]),
    "hollow": ("{}", ["hollow/comparison.json", "methods"]),
    "number": ('{"methods": 3}', ["number/comparison.json"]),
    "misspelt": (
        '{"methods": [{"spelling": "fedagv", "algorithm": {"id": "fedavg"}, "average": null}], "seeds": [0], '
        '"task": {"dataset": "digits"}, "settings": {}, "sampler": {"id": "uniform"}, '
        '"about": {"workers": 0, "command": ""}}',
        ["misspelt/comparison.json", "fedagv"],
    ),
}


def train(command: str, *options: str) -> Outcome:
    return flatfed(command, "digits", "fedsam", *SMALL, *options)


@pytest.mark.parametrize("name", UNUSABLE_CONFIGS)
def test_configuration_files(name: str, tmp_path: Path) -> None:
    content, parts = UNUSABLE_CONFIGS[name]
    Path(name).write_bytes(content)
    quick = ["--model", "logreg", "--clients", "5", "--per-round", "1", "--workers", "0", "--out", "out"]
    rounds = [] if b"rounds:" in content else ["--rounds", "1"]
    refused(flatfed("run", "digits", "fedsam", "--config", name, *quick, *rounds), *parts)
    assert list(fingerprint(tmp_path)) == [name]


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    "content", ["set: {client_opt: {rho: 0.1}}", "set: {client_opt: [sam]}", "set: {client_opt: }"]
)
def test_a_client_optimiser_that_is_none(command: str, content: str) -> None:
    Path("nested.yaml").write_text(content)
    refused(flatfed(command, "digits", "fedavg", *SMALL, "--config", "nested.yaml", "--out", "out"), "client_opt")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_configuration_files_that_are_none(command: str) -> None:
    refused(train(command, "--config", "missing.yaml"), "missing.yaml", "No such file")
    Path("directory.yaml").mkdir()
    refused(train(command, "--config", "directory.yaml"), "directory.yaml", "directory")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_place_that_is_taken(command: str, tmp_path: Path) -> None:
    Path("file").write_text("precious")
    Path("full").mkdir()
    Path("full/notes.txt").write_text("precious")
    before = fingerprint(tmp_path)
    refused(train(command, "--out", "file"), "file", "--out")
    refused(train(command, "--out", "full"), "full", "--out")
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere/at/all"])
def test_a_place_that_cannot_be_made(command: str, place: str) -> None:
    Path("file").write_text("precious")
    refused(train(command, "--out", place), place)


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_run_is_not_overwritten(command: str, run: Path) -> None:
    before = fingerprint(run)
    refused(train(command, "--out", str(run)), str(run), "--out")
    assert fingerprint(run) == before


def test_another_comparison_is_not_mixed_in(comparison: Path) -> None:
    before = fingerprint(comparison)
    refused(train("compare", "--out", str(comparison)), str(comparison), "another comparison", "--out")
    assert fingerprint(comparison) == before


@pytest.mark.parametrize("command", ["resume", "show"])
def test_what_is_no_run(command: str) -> None:
    refused(flatfed(command, "missing"), "missing", "does not exist")
    Path("empty").mkdir()
    refused(flatfed(command, "empty"), "empty", "config.json")
    Path("file").write_text("hello")
    refused(flatfed(command, "file"), "file")


@pytest.mark.parametrize("command", ["resume", "show"])
@pytest.mark.parametrize("name", BROKEN_RUNS)
def test_a_broken_configuration(command: str, name: str) -> None:
    content, parts = BROKEN_RUNS[name]
    Path(name).mkdir()
    Path(name, "config.json").write_text(content, encoding="latin-1")
    refused(flatfed(command, name), *parts)


@pytest.mark.parametrize("command", ["resume", "show"])
@pytest.mark.parametrize("name", BROKEN_COMPARISONS)
def test_a_broken_comparison(command: str, name: str) -> None:
    content, parts = BROKEN_COMPARISONS[name]
    Path(name).mkdir()
    Path(name, "comparison.json").write_text(content)
    refused(flatfed(command, name), *parts)


@pytest.mark.parametrize("content", ["{", "{}", "[]", '{"status": "running"'])
def test_a_broken_status(content: str, run: Path) -> None:
    (run / "status.json").write_text(content)
    refused(flatfed("show", run), "status.json")


def test_a_history_with_a_row_that_is_none(run: Path) -> None:
    lines = (run / "history.jsonl").read_text().splitlines()
    (run / "history.jsonl").write_text("\n".join([lines[0], '{"round": 1}', lines[2]]) + "\n")
    refused(flatfed("show", run), "history.jsonl")


def test_a_run_without_checkpoints(run: Path) -> None:
    for file in run.glob("checkpoints/*/*"):
        file.write_bytes(b"")
    before = (run / "history.jsonl").read_bytes()
    outcome = flatfed("resume", run, "--rounds", "5")
    assert outcome.code == 2
    assert "checkpoint" in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err
    assert (run / "history.jsonl").read_bytes() == before
    assert json.loads((run / "config.json").read_text())["settings"]["rounds"] == 3


def test_fewer_rounds_than_are_done(run: Path) -> None:
    before = fingerprint(run)
    refused(flatfed("resume", run, "--rounds", "2"), "2", "3")
    assert fingerprint(run) == before


@pytest.mark.parametrize(("options", "part"), [("--rounds 0", "--rounds"), ("--workers x", "--workers")])
def test_options_of_resume(options: str, part: str, run: Path) -> None:
    refused(flatfed("resume", run, *options.split()), part)


@pytest.mark.parametrize("figure", ["curves.gif", "curves", "missing/curves.png"])
def test_a_figure_that_cannot_be(figure: str, run: Path) -> None:
    outcome = flatfed("show", run, "--figure", figure)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "--figure" in outcome.err and figure in outcome.err


def test_a_figure_in_place_of_a_directory(run: Path) -> None:
    Path("curves.svg").mkdir()
    outcome = flatfed("show", run, "--figure", "curves.svg")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "directory" in outcome.err
