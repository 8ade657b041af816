"""Options by the names of earlier versions: still taken, never shown, and never a second value beside the new name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import Outcome, flatfed, read_json, refused

BASE = ("--rounds", "3", "--clients", "5", "--per-round", "2", "--workers", "0")
PLAIN = ("--model", "logreg")
NORMED = ("--model", "cnn-small-bn")  # local layers need layers that can stay

# Old and new spelling on the command line, and the network that shows the difference.
OPTIONS = [
    (("--every", "2"), ("--evaluate-every", "2"), PLAIN),
    (("--last", "1"), ("--evaluate-last", "1"), PLAIN),
    (("--batched",), ("--vectorised",), PLAIN),
    (("--no-batched",), ("--no-vectorised",), PLAIN),
    (("--local-parts", "bn-stats"), ("--local-layers", "bn-stats"), NORMED),
]
LINES = [
    ("every: 2", "evaluate_every: 2", PLAIN),
    ("last: 1", "evaluate-last: 1", PLAIN),
    ("batched: true", "vectorised: true", PLAIN),
    ("batched: false", "vectorised: false", PLAIN),
    ("local-parts: bn", "local_layers: bn", NORMED),
]


def run(out: str, *options: object) -> Outcome:
    return flatfed("run", "digits", "fedavg", *BASE, *options, "--out", out)


def configuration(out: str, *options: object) -> dict[str, Any]:
    """Return what a run records, without what says when and by which command."""
    outcome = run(out, *options)
    assert outcome.code == 0, outcome.err
    config = read_json(Path(out) / "config.json")
    return {name: config[name] for name in ("settings", "task", "sampler", "algorithm", "setting")}


@pytest.mark.parametrize(("old", "new", "network"), OPTIONS, ids=lambda value: " ".join(value))
def test_an_old_option_is_the_new_one(old: tuple[str, ...], new: tuple[str, ...], network: tuple[str, ...]) -> None:
    assert configuration("old", *network, *old) == configuration("new", *network, *new)


@pytest.mark.parametrize(("old", "new", "network"), LINES, ids=[old for old, _, _ in LINES])
def test_an_old_key_of_a_file_is_the_new_one(old: str, new: str, network: tuple[str, ...]) -> None:
    Path("old.yaml").write_text(old)
    Path("new.yaml").write_text(new)
    assert configuration("old", *network, "--config", "old.yaml") == configuration(
        "new", *network, "--config", "new.yaml"
    )


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("old", ["--every", "--last", "--batched", "--no-batched", "--local-parts"])
def test_the_help_does_not_show_them(command: str, old: str) -> None:
    words = flatfed(command, "--help").out.split()
    assert old not in [word.rstrip(",") for word in words]


@pytest.mark.parametrize(
    ("options", "every"),
    [
        (("--every", "2", "--evaluate-every", "3"), 3),
        (("--evaluate-every", "3", "--every", "2"), 2),
    ],
)
def test_of_both_on_the_command_line_the_last_one_counts(options: tuple[str, ...], every: int) -> None:
    assert configuration("out", *PLAIN, *options)["settings"]["evaluate_every"] == every


def test_of_both_on_the_command_line_the_last_flag_counts() -> None:
    assert configuration("a", *PLAIN, "--batched", "--no-vectorised")["settings"]["vectorised"] is False
    assert configuration("b", *PLAIN, "--no-vectorised", "--batched")["settings"]["vectorised"] is True


def test_the_command_line_goes_before_the_file_in_whatever_spelling() -> None:
    Path("old.yaml").write_text("every: 2\n")
    assert (
        configuration("a", *PLAIN, "--config", "old.yaml", "--evaluate-every", "3")["settings"]["evaluate_every"] == 3
    )
    Path("new.yaml").write_text("evaluate-every: 2\n")
    assert configuration("b", *PLAIN, "--config", "new.yaml", "--every", "3")["settings"]["evaluate_every"] == 3


@pytest.mark.parametrize("lines", ["every: 2\nevaluate_every: 3\n", "lr: 0.1\nbatch-size: 8\nbatch_size: 16\n"])
def test_both_in_one_file_are_refused(lines: str) -> None:
    Path("both.yaml").write_text(lines)
    refused(run("out", *PLAIN, "--config", "both.yaml"), "both.yaml", "are the same option; give one of them")
    assert not Path("out").exists()
