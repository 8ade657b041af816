"""The example with a data set of one's own runs, and the page about own data tells of every option."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from data.pictures import write_picture
from flatfed.data.catalogue import find, load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
OWN = ("image-folder", "client-csv", "table", "hugging-face")
PUBLISHED = ("landmarks-user-160k", "officehome", "pacs")


def test_the_example_with_an_own_data_set_learns() -> None:
    script = ROOT / "examples" / "own_data_set.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[1]) > 0.9
    assert done.stderr == ""


def test_fifteen_lines_are_enough() -> None:
    script = ROOT / "examples" / "fifteen_lines.py"
    code = [line for line in script.read_text().splitlines() if line and not line.startswith('"""')]
    assert len(code) <= 15
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[1]) > 0.85


@pytest.fixture
def hospitals(tmp_path: Path) -> Path:
    """The folder with the tables of the made-up hospitals."""
    script = ROOT / "examples" / "hospitals" / "make_data.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=True)
    return tmp_path


def test_the_hospitals_have_different_patients(hospitals: Path) -> None:
    agreed = {"scaling": str(hospitals / "scaling.csv"), "label": "risk", "class_names": "low,medium,high"}
    pools = {name: load("table", path=str(hospitals / f"hospital-{name}.csv"), **agreed) for name in "abc"}
    assert [len(pool.train) + len(pool.test) for pool in pools.values()] == [400, 250, 150]
    counts = {name: pool.labels.bincount(minlength=3).tolist() for name, pool in pools.items()}
    assert counts["c"][2] == 0 and counts["b"][0] < counts["b"][2] and counts["a"][0] > counts["a"][2]
    everybody = load("table", path=str(hospitals / "all.csv"), client="hospital", **agreed)
    assert everybody.groups["client"].bincount().tolist() == [len(pool.train) for pool in pools.values()]


def test_hospitals_are_better_off_together(hospitals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("hospitals_compare", ROOT / "examples" / "hospitals" / "compare.py")
    assert spec is not None and spec.loader is not None
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    monkeypatch.setattr(compare, "ROUNDS", 12)
    monkeypatch.setattr(compare, "SEEDS", (0,))
    alone = [compare.accuracy(hospitals, "fedavg", ff.Replay([[client]] * 12)) for client in (1, 2)]
    assert compare.accuracy(hospitals, "fedavg", 3) > max(alone) + 0.03


def test_the_sketch_of_files_decoded_when_needed_trains(tmp_path: Path) -> None:
    block = next(part for part in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "LazyImages" in part)
    names: dict[str, Any] = {
        "ff": ff,
        "net": nn.Sequential(nn.Flatten(), nn.Linear(3 * 96 * 96, 3)),
        "paths": [str(write_picture(tmp_path / f"{number}.png", number)) for number in range(12)],
        "labels": torch.arange(12) % 3,
        "parts": [range(6), range(6, 12)],
        "test": None,
    }
    exec(block, names)
    run = ff.train(names["task"], ff.make("fedavg"), rounds=2, sampling=2, lr=0.01, workers=0)
    assert run.summary["status"] == "finished"
    assert names["pool"].bytes_kept == 12 * (3 * 96 * 96 + 8)


@pytest.mark.parametrize("id", [*OWN, *PUBLISHED])
def test_every_option_is_explained(id: str) -> None:
    for option in find(id).options:
        assert f"`{option}`" in PAGE, f"{id}: {option} is not explained"


@pytest.mark.parametrize("id", [*OWN, *PUBLISHED])
def test_the_options_in_its_commands_are_there(id: str) -> None:
    commands = re.findall(rf"flatfed run {id} .*", PAGE)
    assert commands, f"no command runs {id}"
    for command in commands:
        for option in re.findall(r"--set data\.(\w+)=", command):
            assert option in find(id).options, command


def test_the_example_with_a_table_learns_and_predicts(tmp_path: Path) -> None:
    script = ROOT / "examples" / "hospitals_table.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=True)
    assert "| scaffold |" in done.stdout
    assert abs(float(done.stdout.split()[-1]) - (2 + 74 / 15 + 3 + 1)) < 1.5


def test_the_page_about_python_runs_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = [part for part in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if '"digits"' in part]
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"ff": ff}
    for block in blocks:
        exec(block.replace("seeds=[0, 1],", "seeds=[0, 1], workers=0,"), names)
    assert len(names["compared"].rows) == 6 and not names["compared"].failed
