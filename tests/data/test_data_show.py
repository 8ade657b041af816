"""`flatfed data show`: a partition in numbers and in a figure."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli.command import SMALL, flatfed, on_terminal, read_json, refused
from flatfed.data import load


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_report() -> None:
    outcome = flatfed("data", "show", "digits", "--alpha", "0.5", "--clients", "20")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "digits: dirichlet(alpha=0.5, prior=uniform, size_sigma=0.0), 20 clients, seed 0"
    assert "clients             20" in lines
    assert "samples             1,420 of 1,437, 17 unused" in lines
    assert "samples per client  min 71, mean 71.00, max 71" in lines
    assert any(re.fullmatch(r"classes per client  min \d+, mean \d\.\d\d, max \d+, of 10", line) for line in lines)
    assert any(re.fullmatch(r"partition_sha256    [0-9a-f]{64}", line) for line in lines)


def test_the_histograms_count_every_client_once() -> None:
    outcome = flatfed("data", "show", "digits", "--clients", "60", "--set", "partition.size_sigma=1.0")
    bars = re.findall(r"^ +[\d,-]+ +(\d+)(  #+)?$", outcome.out, re.MULTILINE)
    assert sum(int(count) for count, _ in bars) == 120
    assert all(bool(bar) == (int(count) > 0) for count, bar in bars)
    assert max(len(bar.strip()) for _, bar in bars) == 40


def test_json() -> None:
    report = flatfed("data", "show", "digits", "--partition", "pathological", "--clients", "10", "--json").json
    assert report["partition"] == {"id": "pathological", "classes_per_client": 3}
    assert report["clients"] == len(report["sizes"]) == len(report["classes_held"]) == 10
    assert report["samples"] == sum(report["sizes"]) == 1437 - report["unused"]
    assert report["classes_per_client"] == {"mean": 3.0, "min": 3, "max": 3}
    assert set(report["classes_held"]) == {3}


def test_the_fingerprint_is_the_one_that_a_run_records(apart: Path) -> None:
    same = ["--alpha", "0.1", "--set", "partition.size_sigma=0.4", "--seed", "3"]
    assert flatfed("run", "digits", "fedavg", *SMALL, *same, "--out", apart / "run").code == 0
    recorded = read_json(apart / "run" / "config.json")["task"]["partition_sha256"]
    assert flatfed("data", "show", "digits", "--clients", 5, *same, "--json").json["partition_sha256"] == recorded
    other = flatfed("data", "show", "digits", "--clients", 5, *same[:-1], "4", "--json").json
    assert other["partition_sha256"] != recorded


@pytest.mark.parametrize("name", ["class-distribution.png", "new/class-distribution.svg", "a.pdf"])
def test_the_figure(name: str, apart: Path) -> None:
    outcome = flatfed("data", "show", "digits", "--figure", name)
    assert outcome.code == 0
    files = [name, "class-distribution.pdf"] if name == "class-distribution.png" else [name]
    assert outcome.err == f"figure: {', '.join(files)}\n"
    assert all((apart / file).stat().st_size > 5000 for file in files)


def test_a_partition_from_a_file(apart: Path) -> None:
    count = len(load("digits").labels)
    np.savez(apart / "splits.npz", first=np.arange(count) % 7, second=np.where(np.arange(count) < 10, 0, -1))
    show = ["data", "show", "digits", "--partition", "file", "--set", "partition.path=splits.npz", "--json"]
    assert flatfed(*show, "--set", "partition.key=first").json["clients"] == 7
    report = flatfed(*show, "--set", "partition.key=second").json
    assert (report["samples"], report["unused"]) == (10, count - 10)
    refused(flatfed(*show), "splits.npz", "--set partition.key=NAME: first, second")


def test_a_file_in_the_data_directory(apart: Path) -> None:
    (apart / "data").mkdir()
    (apart / "data" / "mine.json").write_text(json.dumps([[0, 1], [2]]))
    show = ["data", "show", "digits", "--partition", "file", "--set", "partition.path=mine.json", "--json"]
    assert flatfed(*show, "--data-dir", "data").json["sizes"] == [2, 1]
    refused(flatfed(*show, "--data-dir", "elsewhere"), "mine.json", "elsewhere")


def test_a_run_with_a_partition_from_a_file_resumes(apart: Path) -> None:
    (apart / "mine.json").write_text(json.dumps([list(range(k, 200, 5)) for k in range(5)]))
    own = ["--partition", "file", "--set", "partition.path=mine.json"]
    assert flatfed("run", "digits", "fedavg", *SMALL, *own, "--out", "run").code == 0
    assert flatfed("resume", "run", "--rounds", "4", "--workers", "0").code == 0
    (apart / "mine.json").write_text(json.dumps([list(range(k, 205, 5)) for k in range(5)]))
    refused(flatfed("resume", "run", "--rounds", "5", "--workers", "0"), "another partition now")


def test_refusals() -> None:
    refused(flatfed("data", "show", "digit"), "did you mean 'digits'")
    refused(flatfed("data", "show", "digits", "--partition", "pan"), "unknown partition 'pan'; did you mean 'pam'")
    refused(flatfed("data", "show", "digits", "--partition", "pam"), "no coarse labels")
    refused(flatfed("data", "show", "digits", "--partition", "natural"), "no natural clients")
    refused(flatfed("data", "show", "digits", "--partition", "file"), "--set partition.path must name a file")
    refused(flatfed("data", "show", "digits", "--clients", "2000"), "2000 clients cannot share 1437 samples")
    refused(flatfed("data", "show", "digits", "--partition", "iid", "--alpha", "1"), "has no alpha")
    refused(flatfed("data", "show", "digits", "--alpha", "-1"), "--alpha must be at least 0")
    refused(flatfed("data", "show", "digits", "--set", "rho=0.1"), "rho", "partition.NAME", "data.NAME")
    refused(flatfed("data", "show", "digits", "--set", "model.stem=cifar"), "model.stem")
    refused(flatfed("data", "show", "digits", "--set", "partition.alpah=1"), "did you mean 'alpha'")
    refused(flatfed("data", "show", "digits", "--figure", "a.gif"), "a.gif", ".png, .svg or .pdf")


def test_help() -> None:
    outcome = flatfed("data", "show", "--help")
    assert outcome.code == 0
    assert "Usage: flatfed data show [OPTIONS] DATASET" in outcome.out
    for option in ("--partition", "--clients", "--alpha", "--set", "--data-dir", "--seed", "--figure", "--json"):
        assert f"  {option} " in outcome.out
    assert all(len(line) <= 80 for line in outcome.out.splitlines())


def test_it_fits_a_terminal() -> None:
    outcome = on_terminal("data", "show", "digits", "--clients", "100", columns=80)
    assert outcome.code == 0
    assert all(len(line) <= 84 for line in outcome.out.splitlines())
