"""Compact results of a study: exact, stable, without places; and a folder made from them is read as the real one."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.experiments.running.resume import prepare
from flatfed.published.claims import claims
from flatfed.reports.results.results import read_run
from flatfed.runs.directory import RunDirectory
from flatfed.runs.packed import rounds_of
from flatfed.runs.records.files import read_json, write_json
from flatfed.studies.claimed.claim_judge import ClaimJudge
from flatfed.studies.entering import recorded_study
from flatfed.studies.folder import StudyFolder
from flatfed.studies.packing.blocks import blocks_of, rows_of
from flatfed.studies.packing.pack import pack_study
from flatfed.studies.packing.thinning import thinned
from flatfed.studies.packing.unpack import unpack_study
from flatfed.studies.packing.without_places import without_places
from flatfed.studies.reporting.measuring import measure_study
from flatfed.studies.reporting.study_flatness import flatness_blocks
from flatfed.studies.reporting.study_runs import StudyResults
from flatfed.studies.reporting.study_statistics import statistics_of
from flatfed.studies.reporting.study_targets import target_lines
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small

STUDY: dict[str, Any] = {
    "rounds": 8,
    "evaluate_every": 3,
    "evaluate_last": 2,
    "methods": {"fedavg": None, "slow": "fedavg(server_lr=0.01)", "wild": "fedavg(server_lr=1e30)"},
    "settings": {"a": {"alpha": 1}, "b": {"alpha": 100}},
    "seeds": [0, 1],
    "grid": {"slow": {"server_lr": [0.01, 0.1]}},
    "select": {"rounds": 4},
    "report": {"reference": "fedavg", "targets": "reference", "flatness": "sharpness", "flatness_samples": 20},
}


def opened(folder: Path) -> RunningStudy:
    return RunningStudy(recorded_study(StudyFolder(folder)), folder)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a study that has ended and was measured."""
    folder = tmp_path_factory.mktemp("packing") / "study"
    running = run_here(folder, **STUDY)
    measure_study(running, lambda name, done, total: None, lambda text: None)
    return folder


@pytest.fixture(scope="module")
def packed(study: Path) -> Path:
    """Return the compact results of it."""
    destination = study.parent / "packed"
    pack_study(opened(study), destination)
    return destination


@pytest.fixture(scope="module")
def unpacked(packed: Path) -> Path:
    """Return the folder that is made from them."""
    folder = packed.parent / "unpacked"
    unpack_study(packed, folder)
    return folder


def test_what_is_unpacked_shows_the_same(study: Path, unpacked: Path) -> None:
    before, after = opened(study).table(), opened(unpacked).table()
    assert before.to_dict() == after.to_dict()
    assert statistics_of(before).to_dict() == statistics_of(after).to_dict()
    assert flatness_blocks(before) == flatness_blocks(after) != []


def test_costs_to_targets_and_totals_are_the_same(study: Path, unpacked: Path) -> None:
    tables = [opened(folder).table() for folder in (study, unpacked)]
    lines = [target_lines(table, StudyResults(table)) for table in tables]
    for before, after in zip(*lines, strict=True):
        # Times and vectors are sums of fractions, in another order.
        rounded = ("seconds", "transmissions")
        for name, value in before.to_dict().items():
            is_rounded = name.startswith(rounded) and value is not None
            assert after.to_dict()[name] == (pytest.approx(value) if is_rounded else value), name
    for path in tables[0].runs["a", "fedavg"].values():
        summaries = [RunDirectory.open(path).summary(), RunDirectory.open(unpacked / path.relative_to(study)).summary()]
        for name, value in summaries[0].items():
            assert summaries[1][name] == (pytest.approx(value) if "seconds" in name else value), name


def test_claims_are_judged_alike(study: Path, unpacked: Path) -> None:
    judges = [ClaimJudge(opened(folder), {"cifar10-0": "a"}) for folder in (study, unpacked)]
    costs = [claim for claim in claims() if claim.metric in ("bytes_per_round", "backprops", "accuracy")]
    assert [judges[0].judge(claim) for claim in costs] == [judges[1].judge(claim) for claim in costs]


def test_packing_again_changes_nothing(study: Path, packed: Path) -> None:
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in packed.rglob("*.json")}
    again = pack_study(opened(study), packed)
    assert not again.new and not again.renewed and again.unchanged == len(before) - 1
    assert before == {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in packed.rglob("*.json")}


def test_packing_adds_what_is_new_and_what_was_measured(study: Path, packed: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    shutil.copytree(packed, part)
    gone = sorted(part.glob("cells/a/fedavg/*.json"))
    before = {file: file.read_bytes() for file in gone}
    for file in gone:
        file.unlink()
    assert len(pack_study(opened(study), part).new) == len(gone)
    assert before == {file: file.read_bytes() for file in gone}


def test_a_study_that_goes_on_is_packed_as_far_as_it_is(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(study, folder)
    (folder / "cells/a/fedavg/seed-1/status.json").unlink()
    (folder / "cells/b/fedavg/seed-0/config.json").unlink()
    result = pack_study(opened(folder), tmp_path / "packed")
    assert result.left == 2
    unpack_study(tmp_path / "packed", tmp_path / "again")
    assert opened(tmp_path / "again").table().entry("a", "fedavg").ended == {1: "waiting"}


def test_another_run_of_a_cell_is_not_replaced(study: Path, packed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(study, other)
    config = other / "cells/a/fedavg/seed-0/config.json"
    write_json(config, read_json(config) | {"run": "another"})
    with pytest.raises(ConfigError, match="another run of this cell"):
        pack_study(opened(other), packed)


def test_a_failure_is_packed_with_its_reason_and_without_places(study: Path, tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    shutil.copytree(study, folder.path)
    cell = opened(folder.path).cells()[-1]
    folder.fail(cell, "cannot read /home/somebody/data/x.npz: gone", "Traceback, in /home/somebody/x.py")
    pack_study(opened(folder.path), tmp_path / "packed")
    unpack_study(tmp_path / "packed", tmp_path / "again")
    assert opened(tmp_path / "again").folder.standing(cell).reason == "cannot read x.npz: gone"
    texts = [file.read_text() for file in (tmp_path / "packed").rglob("*.json")]
    assert not any("somebody" in text or str(study) in text for text in texts)


def test_a_study_goes_on_where_it_was_unpacked(study: Path, packed: Path, tmp_path: Path) -> None:
    part, folder = tmp_path / "part", tmp_path / "again"
    shutil.copytree(packed, part)
    missing = part / "cells/a/fedavg/seed-1.json"
    missing.unlink()
    others = {file: file.read_bytes() for file in part.rglob("seed-*.json")}
    unpack_study(part, folder)
    running = run_here(folder, **STUDY)
    result = pack_study(opened(folder), part)
    assert result.new == ["fedavg, a, seed 1"] and not result.renewed and not result.left
    assert others == {file: file.read_bytes() for file in others}
    assert running.table().entry("a", "fedavg").values == opened(study).table().entry("a", "fedavg").values


def test_what_was_unpacked_is_packed_only_where_it_comes_from(unpacked: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pack into where it comes from"):
        pack_study(opened(unpacked), tmp_path / "elsewhere")


def test_compact_results_are_not_taken_for_a_study_without_runs(study: Path, packed: Path) -> None:
    before = sorted(packed.rglob("*"))
    wanted = rf"{re.escape(str(packed))} holds a packed study; make a folder of it first: flatfed study unpack "
    with pytest.raises(ConfigError, match=wanted):
        opened(packed)
    with pytest.raises(ConfigError, match=wanted):
        RunningStudy(opened(study).study, packed).enter()
    shown = flatfed("study", "show", packed)
    assert shown.code == 2
    assert "make a folder of it first" in shown.err
    assert sorted(packed.rglob("*")) == before


def test_a_run_that_was_unpacked_cannot_be_resumed(unpacked: Path) -> None:
    with pytest.raises(CheckpointError, match="train it anew"):
        prepare(unpacked / "cells/a/fedavg/seed-0", 20)


def test_thinned_rows_say_for_how_many_rounds_they_stand(unpacked: Path) -> None:
    rows = read_run(unpacked / "cells/a/fedavg/seed-0").rows
    assert [row["round"] for row in rows] == [2, 5, 6, 7]
    assert [rounds_of(row) for row in rows] == [3, 3, 1, 1]


def test_a_changed_file_is_refused(packed: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(packed, source)
    file = next(source.glob("cells/a/fedavg/seed-0.json"))
    file.write_text(file.read_text().replace('"finished"', '"diverged"', 1))
    with pytest.raises(CheckpointError, match="changed after it was written"):
        unpack_study(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_in_another_place_is_refused(packed: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(packed, source)
    shutil.move(source / "cells/a/fedavg/seed-0.json", source / "cells/b/fedavg/seed-7.json")
    with pytest.raises(CheckpointError, match="put it back"):
        unpack_study(source, tmp_path / "out")


def test_rounds_that_differ_in_clients_are_all_kept() -> None:
    rows: list[dict[str, Any]] = [
        {"round": 0, "clients": [1], "seconds": 1.0},
        {"round": 1, "clients": [1, 2], "seconds": 1.0},
    ]
    assert thinned(rows) == rows


def test_a_round_with_a_rejected_update_stands_alone() -> None:
    rows: list[dict[str, Any]] = [{"round": number, "clients": [1, 2], "seconds": 1.0} for number in range(5)]
    rows[3]["rejected"] = [[2, "not finite"]]
    kept = thinned(rows)
    assert [row["round"] for row in kept] == [2, 3, 4]
    assert [rounds_of(row) for row in kept] == [3, 1, 1]
    assert [row["seconds"] for row in kept] == [3.0, 1.0, 1.0] and kept[1] == rows[3]


def test_blocks_give_the_rows_back() -> None:
    rows: list[dict[str, Any]] = [
        {"round": 0, "x": 0.1, "y": 1, "z": True},
        {"round": 1, "x": float("inf"), "y": 1, "z": 1},
        {"round": 2, "y": None},
    ]
    back = rows_of(json.loads(json.dumps(blocks_of(rows))))
    assert back == rows and [list(row) for row in back] == [list(row) for row in rows]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("/home/me/data/a.npz", "a.npz"),
        ("~/data/a.npz is missing", "a.npz is missing"),
        ("C:\\data\\a.npz", "a.npz"),
        ("splits/a.npz", "splits/a.npz"),
        ("1/2 of 3/4", "1/2 of 3/4"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("λmax/λ5", "λmax/λ5"),
    ],
)
def test_paths_become_names(text: str, plain: str) -> None:
    assert without_places({"a": [text]}) == {"a": [plain]}


def test_the_commands_tell_what_they_did(study: Path, tmp_path: Path) -> None:
    outcome = flatfed("study", "pack", study, tmp_path / "packed")
    assert outcome.code == 0 and "16 new" in outcome.out
    outcome = flatfed("study", "unpack", tmp_path / "packed", tmp_path / "again")
    assert outcome.code == 0 and "16 cells" in outcome.out
    assert "unpacked from compact results" in flatfed("study", "show", tmp_path / "again").err
    assert flatfed("study", "unpack", tmp_path / "packed", tmp_path / "again").code == 2
    assert flatfed("study", "unpack", study, tmp_path / "third").code == 2
    assert flatfed("study", "unpack", tmp_path, tmp_path / "third").code == 2


def test_a_study_of_one_setting_is_packed_too(tmp_path: Path) -> None:
    run_here(tmp_path / "study", **small(rounds=1))
    pack_study(opened(tmp_path / "study"), tmp_path / "packed")
    unpack_study(tmp_path / "packed", tmp_path / "again")
    assert opened(tmp_path / "again").table().to_dict() == opened(tmp_path / "study").table().to_dict()
