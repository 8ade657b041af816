"""What is wrong with cells is told once, with the line of the setting or the method that has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import flatfed

FILE = """\
dataset: digits
rounds: 1
clients: 5
model: logreg
methods:
  fedavg:
  mine: fedsam
settings:
  good: {alpha: 1}
  bad: {alpha: 1}
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("bad: {alpha: 1}", "bad: {per_round: 9}", "line 10: bad: cannot sample 9 of 5 clients"),
        ("bad: {alpha: 1}", 'bad: {set: {"mine:rho": -1}}', "line 10: mine, bad: fedsam: rho must be at least 0"),
        ("clients: 5", "clients: 5\nper_round: 9", "line 1: cannot sample 9 of 5 clients"),
        ("clients: 5", 'clients: 5\nset: {"mine:rho": -1}', "line 8: mine: fedsam: rho must be at least 0"),
    ],
)
def test_the_place_of_a_mistake(old: str, new: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    assert old in FILE
    file.write_text(FILE.replace(old, new), encoding="utf-8")
    outcome = flatfed("study", "check", file)
    assert outcome.code == 2
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("Error")]
    assert told in line
    assert str(file) in line
