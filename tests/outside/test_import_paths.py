"""Parts by import path: a run of which every part is the user's own, recorded, resumed, judged and compared."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

from outside.project import EVERY_PART, PARTS, QUICK, imports, refused, refused_each, stranger, succeed, write_project


def config_of(run: Path) -> Any:
    return json.loads((run / "config.json").read_text())


def test_the_record_says_where_every_part_comes_from(made: Path) -> None:
    origins = {(entry["family"], entry["id"]): entry for entry in config_of(made / "runs/r")["origins"]}
    assert dict(origins.keys()) == {
        "algorithm": "louder",
        "average": "newest",
        "data set": "mine.parts:load",
        "engine": "here",
        "metric": "mine.parts:Wrong",
        "model": "mine.parts:Net",
        "partition": "even",
        "sampler": "first",
        "schedule": "halving",
    }
    louder = origins["algorithm", "louder"]
    assert (louder["module"], louder["name"], louder["package"]) == ("mine.parts", "Louder", None)
    assert louder["sha256"] == sha256(PARTS.encode()).hexdigest()


def test_a_run_goes_on_from_the_project_to_the_same_bits(made: Path) -> None:
    words = [word.removesuffix("+mine.parts:Newest") for word in EVERY_PART]
    succeed(*words, "--rounds", "3", "--out", "runs/whole", cwd=made)
    succeed(*words, "--out", "runs/short", cwd=made)
    succeed("resume", "runs/short", "--rounds", "3", cwd=made)
    assert _losses(made / "runs/whole") == _losses(made / "runs/short")


def _losses(run: Path) -> list[float]:
    return [json.loads(line)["train_loss"] for line in (run / "history.jsonl").read_text().splitlines()]


def test_changed_code_is_told_and_goes_on_only_when_accepted(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    command = ("run", "mine.parts:load", "mine.parts:Chosen+softer", *QUICK, "--workers", "0", "--out", "runs/r")
    succeed(*command, cwd=project)
    (project / "mine/parts.py").write_text(PARTS.replace("(1 - self.rho)", "(1 - 2 * self.rho)"))
    said = refused("resume", "runs/r", "--rounds", "3", cwd=project)
    assert "the client optimiser softer was changed in" in said
    assert "--accept-changed-code" in said
    succeed("resume", "runs/r", "--rounds", "3", "--accept-changed-code", cwd=project)
    # From now on this is the run's code.
    succeed("resume", "runs/r", "--rounds", "4", cwd=project)


def test_a_run_made_of_another_ones_record_knows_its_parts(made: Path) -> None:
    succeed("run", "--config", "runs/r/config.json", "--out", "runs/again", cwd=made)
    again, first = config_of(made / "runs/again"), config_of(made / "runs/r")
    assert again["algorithm"] == first["algorithm"]
    assert again["sampler"] == first["sampler"]


def test_a_comparison_with_parts_from_outside_is_resumed(made: Path, compared: Path) -> None:
    again = Path(shutil.copytree(compared, made / "c-again"))
    succeed("resume", "c-again", "--rounds", "3", cwd=made)
    assert len(_losses(again / "louder/seed-0")) == 3


YAML = """
dataset: mine.parts:load
methods: [mine.parts:Louder]
clients: 5
rounds: 1
lr: mine.parts:Halving(0.1)
model: mine.parts:Net
"""


def test_a_file_may_name_parts_of_the_project_and_no_others(made: Path, tmp_path: Path) -> None:
    (made / "c.yaml").write_text(YAML)
    succeed("run", "--config", "c.yaml", "--workers", "0", "--out", "runs/yaml", cwd=made)
    assert config_of(made / "runs/yaml")["settings"]["lr"] == "halving(0.1)"
    before = imports(made)
    (tmp_path / "c.yaml").write_text(YAML)
    command = ("run", "digits", "--config", "c.yaml", "--out", "r")
    said = refused(*command, cwd=tmp_path, paths=stranger(made, tmp_path))
    assert "--trust" in said
    assert imports(made) == before


MISTAKES = {
    "nowhere.at_all:M": "No module named 'nowhere'",
    "mine.parts:Nothing": "has no attribute 'Nothing'",
    "mine.parts:First": "is a sampler, not an algorithm or a client optimiser",
    "mine.parts:load": "is a function, not an algorithm",
    "mine.broken:M": "division by zero (",
    "mine.leaving:M": "cannot be imported",
    "fedavg+mine.parts:Louder": "louder",
    "json:JSONEncoder": "standard library",
}


def test_what_cannot_be_used_is_one_sentence(made: Path) -> None:
    (made / "mine/broken.py").write_text("1 / 0\n")
    (made / "mine/leaving.py").write_text("raise SystemExit(5)\n")
    commands = [["run", "digits", method, "--rounds", "1", "--out", "never"] for method in MISTAKES]
    for said, reason in zip(refused_each(commands, made), MISTAKES.values(), strict=True):
        assert reason in said
        assert len(said.strip().splitlines()) == 1
    assert not (made / "never").exists()


def test_an_id_of_the_package_cannot_be_taken(made: Path) -> None:
    (made / "mine/clash.py").write_text(
        "from flatfed.core.method.algorithm import Algorithm\n\nclass M(Algorithm, id='fedavg'):\n    pass\n"
    )
    said = refused("run", "digits", "mine.clash:M", "--out", "never", cwd=made)
    assert "mine.clash.M: the algorithm id 'fedavg' is taken by flatfed.algorithms" in said
