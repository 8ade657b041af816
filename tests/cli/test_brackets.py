"""Methods with settings in brackets, `feddyn(alpha=0.1)+sam(rho=0.05)`, in `run` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import SMALL, fingerprint, flatfed, read_json, refused

FULL = "feddyn(alpha=0.1)+sam(rho=0.07)"

# A method, further settings, and what the sentence must hold.
MISTAKES = [
    ("feddyn(alpha=0.1", [], ["'feddyn(alpha=0.1'", "brackets do not match"]),
    ("feddyn(alpha=0.1+sam", [], ["brackets do not match"]),
    ("feddyn+sam(rho=0.1", [], ["'sam(rho=0.1'", "brackets do not match"]),
    ("feddyn alpha=0.1)", [], ["brackets do not match"]),
    ("feddyn(alhpa=0.1)", [], ["feddyn", "'alhpa'", "'alpha'"]),
    ("feddyn+sam(roh=0.1)", [], ["sam", "'roh'", "'rho'"]),
    ("fedavg+swa(cycel=2)", [], ["swa", "'cycel'", "'cycle'"]),
    ("feddyn(alpha=0.1,alpha=0.2)", [], ["alpha", "twice"]),
    ("feddyn(alpha=x)", [], ["alpha", "number", "'x'"]),
    ("feddyn(alpha=0.1)", ["alpha=0.2"], ["alpha", "brackets of feddyn", "give it once"]),
    ("feddyn(alpha=0.1)", ["feddyn:alpha=0.2"], ["alpha", "brackets of feddyn", "give it once"]),
    ("fedavg+sam(rho=0.1)", ["client_opt.rho=0.2"], ["client_opt.rho", "brackets", "give it once"]),
    ("fedsam(rho=ramp(0.1,0.2))", [], ["rho", "ramp(0.1,0.2)", "rounds"]),
]


def settings(*texts: str) -> list[str]:
    return [word for text in texts for word in ("--set", text)]


def config(path: str) -> Any:
    return read_json(Path(path) / "config.json")


def test_a_run_has_the_settings_and_the_short_name() -> None:
    outcome = flatfed("run", "digits", FULL, *SMALL, *settings("server_lr=0.5"))
    assert outcome.code == 0, outcome.err
    [run] = Path("runs").iterdir()
    assert run.name == "digits-feddyn+sam-001"
    record = config(str(run))
    algorithm = record["algorithm"]
    assert (algorithm["alpha"], algorithm["server_lr"], algorithm["client_opt"]["rho"]) == (0.1, 0.5, 0.07)
    assert record["method"] == "feddyn+sam"
    assert record["about"]["title"].startswith("feddyn+sam on digits: ")


def test_brackets_say_the_same_as_set() -> None:
    assert flatfed("run", "digits", FULL, *SMALL, "--out", "a").code == 0
    same = settings("alpha=0.1", "client_opt.rho=0.07")
    assert flatfed("run", "digits", "feddyn+sam", *SMALL, *same, "--out", "b").code == 0
    assert config("a")["algorithm"] == config("b")["algorithm"]
    assert config("a")["about"]["title"] == config("b")["about"]["title"]


def test_a_comparison_has_folders_of_short_names() -> None:
    methods = ("fedavg", FULL, "fedgloss(beta=20)+sam")
    outcome = flatfed("compare", "digits", *methods, *SMALL, *settings("fedgloss:client_opt.rho=0.3"), "--out", "out")
    assert outcome.code == 0, outcome.err
    assert {path.name for path in Path("out").iterdir() if path.is_dir()} == {"fedavg", "feddyn+sam", "fedgloss+sam"}
    assert config("out/feddyn+sam/seed-0")["algorithm"]["client_opt"]["rho"] == 0.07
    fedgloss = config("out/fedgloss+sam/seed-0")["algorithm"]
    assert (fedgloss["beta"], fedgloss["client_opt"]["rho"]) == (20.0, 0.3)
    assert [method["spelling"] for method in read_json(Path("out/comparison.json"))["methods"]] == [
        "fedavg",
        "feddyn+sam",
        "fedgloss+sam",
    ]
    assert flatfed("resume", "out").code == 0


def test_a_schedule_in_brackets() -> None:
    assert flatfed("run", "digits", "fedsam(rho=ramp(0.01, 0.1, 3))", *SMALL, "--out", "out").code == 0
    assert config("out")["algorithm"]["rho"] == "ramp(0.01, 0.1, 3)"


def test_brackets_go_before_the_file() -> None:
    Path("file.yaml").write_text("set: {rho: 0.3}\n")
    outcome = flatfed("compare", "digits", "fedsam(rho=0.2)", "mofedsam", *SMALL, "--config", "file.yaml", "--out", "o")
    assert outcome.code == 0, outcome.err
    assert config("o/fedsam/seed-0")["algorithm"]["rho"] == 0.2
    assert config("o/mofedsam/seed-0")["algorithm"]["rho"] == 0.3


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(("method", "further", "parts"), MISTAKES, ids=[f"{m} {' '.join(s)}" for m, s, _ in MISTAKES])
def test_mistakes(command: str, method: str, further: list[str], parts: list[str], tmp_path: Path) -> None:
    refused(flatfed(command, "digits", method, *SMALL, *settings(*further), "--out", "out"), *parts)
    assert fingerprint(tmp_path) == {}


def test_a_method_is_compared_once_whatever_its_settings() -> None:
    methods = ("feddyn(alpha=0.1)", "feddyn(alpha=0.2)")
    refused(flatfed("compare", "digits", *methods, *SMALL, "--out", "out"), "feddyn is named twice")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_help_shows_how(command: str) -> None:
    assert "feddyn(alpha=0.1)+sam" in flatfed(command, "--help").out
