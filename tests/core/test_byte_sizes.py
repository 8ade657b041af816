"""Amounts of memory as people write them, and the setting that takes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import SMALL, flatfed
from core.bench import task
from flatfed.core.configuration.byte_sizes import byte_count
from flatfed.core.configuration.settings import Settings
from flatfed.reports.results.result import identity
from flatfed.runs.directory import RunDirectory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2GB", 2_000_000_000),
        ("2 gb", 2_000_000_000),
        ("1.5kB", 1_500),
        ("512MiB", 2**29),
        ("1TiB", 2**40),
        ("0B", 0),
        ("4096", 4096),
        ("9007199254740993", 2**53 + 1),
        ("9" * 400, 10**400 - 1),
        ("unlimited", None),
    ],
)
def test_amounts_are_read(text: str, expected: int | None) -> None:
    assert byte_count(text) == expected
    assert Settings(rounds=1, lr=0.1, cohort_memory=text).cohort_bytes == expected


@pytest.mark.parametrize("value", ["", "much", "2XB", "-1GB", "1e3GB", "GB", "nan", 1.5, True, None, [2]])
def test_what_is_no_amount_is_a_sentence_that_names_the_setting(value: Any) -> None:
    with pytest.raises(ff.ConfigError, match=r"cohort_memory: .*is no amount of memory such as 2GB"):
        Settings(rounds=1, lr=0.1, cohort_memory=value)


def test_a_whole_number_counts_bytes() -> None:
    run = ff.train(task(), "fedavg", rounds=1, sampling=2, lr=0.1, workers=0, cohort_memory=500)
    assert run._federation.settings.cohort_bytes == 500


def test_it_is_an_option_and_a_line_of_a_file_and_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "options.yaml").write_text("cohort_memory: 3MB\n")
    ways: list[list[Any]] = [["--cohort-memory", "1MiB"], ["--config", tmp_path / "options.yaml"], []]
    records = []
    for number, way in enumerate(ways):
        assert flatfed("run", "digits", "fedavg", *SMALL, *way, "--out", tmp_path / f"{number}").code == 0
        records.append(RunDirectory.open(tmp_path / f"{number}").config)
    assert [record["settings"]["cohort_memory"] for record in records] == ["1MiB", "3MB", "2GB"]
    first, *others = map(identity, records)
    assert all(first == other for other in others)


def test_a_mistake_on_the_command_line_is_one_sentence() -> None:
    told = flatfed("run", "digits", "fedavg", *SMALL, "--cohort-memory", "lots")
    assert told.code == 2
    assert "--cohort-memory" in told.err
    assert "'lots' is no amount of memory such as 2GB or 512MiB" in told.err


def test_a_run_and_a_comparison_are_resumed_with_another_bound(tmp_path: Path) -> None:
    assert flatfed("run", "digits", "fedavg", *SMALL, "--out", tmp_path / "r").code == 0
    assert flatfed("resume", tmp_path / "r", "--rounds", 4, "--cohort-memory", "0B").code == 0
    assert RunDirectory.open(tmp_path / "r").config["settings"]["cohort_memory"] == "0B"
    whole = flatfed("run", "digits", "fedavg", *SMALL, "--rounds", 4, "--out", tmp_path / "whole")
    assert whole.code == 0
    losses = [
        [row["train_loss"] for row in RunDirectory.open(tmp_path / name).recorded.rows] for name in ("r", "whole")
    ]
    assert losses[0] == losses[1]
    told = flatfed("resume", tmp_path / "r", "--rounds", 5, "--cohort-memory", "lots")
    assert told.code == 2
    assert "--cohort-memory" in told.err
    assert flatfed("compare", "digits", "fedavg", *SMALL, "--seeds", "0", "--out", tmp_path / "c").code == 0
    assert flatfed("resume", tmp_path / "c", "--rounds", 4, "--cohort-memory", "1MiB").code == 0
    (run,) = [path.parent for path in (tmp_path / "c").rglob("config.json")]
    assert RunDirectory.open(run).config["settings"]["cohort_memory"] == "1MiB"
