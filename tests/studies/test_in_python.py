"""`ff.Study`: the same parts, the same mistakes and the same folder as those of the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import flatfed as ff
from cli.command import flatfed
from flatfed.studies.reading import StudyMistakes
from studies.bench import SMALL, digests, small, written

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


def test_the_example_of_the_page_runs_and_the_command_line_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(blocks[0], names)
    assert len(capsys.readouterr().out.splitlines()) == 4
    shown = flatfed("study", "show", "runs/first", "--json")
    assert shown.code == 0
    table = names["table"]
    assert shown.json == json.loads(json.dumps(table.to_dict()))  # type: ignore[attr-defined]
    assert (tmp_path / "runs/first/table.md").exists()


def test_a_file_read_in_python_comes_to_the_folder_of_the_command_line(tmp_path: Path) -> None:
    file = written(tmp_path, seeds=[0, 1])
    study = ff.Study.read(file)
    assert study == ff.Study.of(small(seeds=[0, 1]))
    rows = study.run(tmp_path / "python", jobs=1).rows
    assert [row["method"] for row in rows] == ["fedavg"]
    assert set(rows[0]["seeds"]) == {"0", "1"}
    outcome = flatfed("study", "run", file, "--out", tmp_path / "typed", "--jobs", 1, "--json")
    assert outcome.json["rows"] == rows
    assert digests(tmp_path / "python") == digests(tmp_path / "typed")
    records = [json.loads((tmp_path / name / "study.json").read_text()) for name in ("python", "typed")]
    assert records[0]["study"] == records[1]["study"]


def test_what_the_report_asks_for_is_measured_and_drawn(tmp_path: Path) -> None:
    report = {"flatness": "parameter_norm", "figures": {"classes": {"draw": "class-distribution"}}}
    ff.Study.of(small(rounds=1, report=report)).run(tmp_path / "out", jobs=1)
    for name in ("flatness.csv", "figures/classes.png", "report.html"):
        assert (tmp_path / "out" / name).exists()


def test_mistakes_are_raised_or_found_by_the_check(tmp_path: Path) -> None:
    with pytest.raises(StudyMistakes, match="methds"):
        ff.Study.of(small(methds=["fedavg"]))
    with pytest.raises(ff.ConfigError, match="seeds"):
        ff.Study(methods={"fedavg": "fedavg"}, options={"dataset": "digits"}, seeds=())
    options = {name: value for name, value in SMALL.items() if name != "methods"}
    checked = ff.Study(methods={"fedavg": "fedavg"}, options=options | {"clients": 100_000}).check(jobs=1)
    assert len(checked.mistakes) == 1
    assert checked.cells == 1
