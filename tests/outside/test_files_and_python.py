"""Parts by import path in a study's file and in Python."""

from __future__ import annotations

import json
from pathlib import Path

from outside.project import STUDY, imports, refused, succeed, write_project


def test_a_study_names_parts_of_its_project(studied: Path) -> None:
    configs = [json.loads(file.read_text()) for file in studied.rglob("config.json")]
    assert sorted(config["method"] for config in configs) == ["fedavg", "louder"]
    assert {config["settings"]["lr"] for config in configs} == {"halving(0.1)"}


def test_a_study_of_a_stranger_imports_nothing(tmp_path: Path) -> None:
    project = write_project(tmp_path / "site-packages")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/first.yaml").write_text(STUDY)
    said = refused("study", "run", "sent/first.yaml", "--out", "studied", cwd=tmp_path, paths=(project,))
    assert "--trust" in said
    assert imports(project) == 0


SCRIPT = """
import torch
import flatfed as ff

x, y = torch.randn(30, 4), torch.arange(30) % 3
task = ff.Task(torch.nn.Linear(4, 3), [(x[k::5], y[k::5]) for k in range(5)], (x, y))
settings = dict(rounds=2, lr="mine.parts:Halving(0.1)", workers=0)
run = ff.train(task, "mine.parts:Louder(rho=0.2)", sampling="mine.parts:First(count=3)", out="r", **settings)
assert run.history[1]["lr"] == 0.05
assert run.history[0]["clients"] == [0, 1, 2]
assert ff.make("mine.parts:Chosen+softer", **{"client_opt.rho": 0.3}).client_opt.rho == 0.3
assert ff.resume("r", rounds=3).history[2]["lr"] == 0.025

class Here(ff.Algorithm, id="here-and-now"):
    pass

ff.train(task, Here(), sampling=2, rounds=1, lr=0.1, workers=0, out="s")
assert len(ff.resume("s", rounds=2).history) == 2
"""


def test_python_takes_the_same_names(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    (project / "script.py").write_text(SCRIPT)
    succeed("python", "script.py", cwd=project)
    said = refused("resume", "s", "--rounds", "3", cwd=project)
    assert "'here-and-now'" in said
    assert "script or notebook" in said
