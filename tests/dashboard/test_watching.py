"""What changed since: only that is read, and only that is sent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flatfed.dashboard import watching
from flatfed.dashboard.watching import Changes, Watch
from flatfed.runs.history import History
from flatfed.runs.records.files import held
from nursery import environment
from reports.disk import row, write_run
from studies.bench import run_here


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walk and look at locks in every look."""
    for name in ("WALK_SECONDS", "WALK_SHARE", "LOCK_SECONDS"):
        monkeypatch.setattr(watching, name, 0)


def looked(watch: Watch, since: int) -> Changes:
    watch.look()
    return watch.changes_since(since)


def names(changes: Changes) -> list[str]:
    return sorted(entry["name"] for entry in changes.entries)


def test_all_there_is_and_then_what_changed(tmp_path: Path) -> None:
    one, two = (write_run(tmp_path / name) for name in ("one", "two"))
    watch = Watch(tmp_path)
    first = looked(watch, 0)
    assert names(first) == ["one", "two"]
    assert looked(watch, first.version) == Changes(first.version)
    history = History(one / "history.jsonl")
    history.begin([row(0, 0.75)])
    history.close()
    second = looked(watch, first.version)
    assert [(entry["name"], entry["rounds"], entry["value"]) for entry in second.entries] == [("one", 1, 75.0)]
    shutil.rmtree(two)
    third = looked(watch, second.version)
    assert (third.entries, len(third.gone)) == ([], 1)
    write_run(tmp_path / "three")
    assert names(looked(watch, third.version)) == ["three"]
    assert names(looked(watch, 0)) == ["one", "three"]


def test_only_files_that_changed_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write_run(tmp_path / name)
    watch = Watch(tmp_path)
    watch.look()
    read: list[str] = []
    original = watching.entry_of
    monkeypatch.setattr(watching, "entry_of", lambda place, *rest: (read.append(place.name), original(place, *rest))[1])
    watch.look()
    assert read == []
    os.utime(tmp_path / "b" / "status.json", (0, 0))  # not now: the clock of files may not have moved since
    watch.look()
    assert read == ["b"]


def test_a_process_that_is_gone_is_noticed_without_a_change_of_files(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", status="running", rounds=9)
    watch = Watch(tmp_path)
    with held(run):
        first = looked(watch, 0)
    assert [entry["status"] for entry in first.entries] == ["running"]
    assert [entry["status"] for entry in looked(watch, first.version).entries] == ["interrupted"]


def test_a_grid_has_its_cells_and_then_those_that_changed(tmp_path: Path) -> None:
    methods = {"fedavg": None, "wild": "fedavg(server_lr=1e30)"}
    run_here(tmp_path / "study", title="a study", methods=methods, settings={"first": {}}, seeds=[0, 1])
    watch = Watch(tmp_path)
    watch.look()
    watch.look_at_studies()
    first = watch.changes_since(0)
    (study,) = first.studies
    assert (study["title"], study["methods"], study["settings"]) == ("a study", ["fedavg", "wild"], ["first"])
    states = {(cell["method"], cell["seed"]): cell["state"] for cell in study["cells"]}
    expected = {"fedavg": "finished", "wild": "diverged"}
    assert states == {(method, seed): state for method, state in expected.items() for seed in "01"}
    assert all(cell["reason"] for cell in study["cells"] if cell["state"] == "diverged")
    assert {cell["run"] for cell in study["cells"]} == {entry["id"] for entry in first.entries}
    watch.look_at_studies()
    assert watch.changes_since(first.version).studies == []
    shutil.rmtree(tmp_path / "study" / "cells" / "first" / "fedavg" / "seed-1")
    watch.look()
    # A cell that has ended stays so in one process; what is looked at anew has it open.
    other = Watch(tmp_path)
    other.look()
    other.look_at_studies()
    (again,) = other.changes_since(0).studies
    assert {cell["state"] for cell in again["cells"] if cell["method"] == "fedavg"} == {"finished", "open"}


def test_a_study_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text('{"study": {"methods": 7}}')
    watch = Watch(tmp_path)
    watch.look()
    watch.look_at_studies()
    (study,) = watch.changes_since(0).studies
    assert "cannot be read" in study["problem"] or "does not hold" in study["problem"]


def test_a_grid_follows_no_link_out_of_the_folder(tmp_path: Path) -> None:
    secret = write_run(tmp_path / "outside", status="failed", reason="a secret")
    run_here(tmp_path / "folder" / "study", methods={"fedavg": None}, seeds=[0])
    (status,) = (tmp_path / "folder" / "study" / "cells").rglob("status.json")
    status.unlink()
    status.symlink_to(secret / "status.json")
    watch = Watch(tmp_path / "folder")
    watch.look()
    watch.look_at_studies()
    (study,) = watch.changes_since(0).studies
    assert "leads out of the folder" in study["problem"]
    assert "a secret" not in str(study)


def test_ids_lead_to_what_was_found_and_to_nothing_else(tmp_path: Path) -> None:
    run = write_run(tmp_path / "folder" / "run")
    write_run(tmp_path / "outside")
    watch = Watch(tmp_path / "folder")
    (entry,) = looked(watch, 0).entries
    assert watch.path_of(entry["id"]) == run
    for text in ("", "run", "../outside", str(tmp_path / "outside"), "/etc/passwd", "%2e%2e", "\0", entry["id"][1:]):
        assert watch.path_of(text) is None
        assert watch.columns(text, None) == (None, None)
        assert watch.config_of(text) is None


def test_the_list_is_there_without_the_seconds_that_torch_takes(tmp_path: Path) -> None:
    write_run(tmp_path / "one")
    program = (
        "import sys; from pathlib import Path; import flatfed.dashboard.app; "
        "from flatfed.dashboard.watching import Watch; watch = Watch(Path(sys.argv[1])); watch.look(); "
        "print(len(watch.changes_since(0).entries), 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.split() == ["1", "False"]
