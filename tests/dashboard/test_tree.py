"""The folder is walked: what is a run, a comparison or a study; nothing hidden, nothing behind links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flatfed.dashboard.tree import Tree, links_out, walk
from reports.disk import write_run


def names(tree: Tree) -> list[str]:
    return sorted(place.name for place in tree.runs.values())


def test_runs_comparisons_and_studies_are_found(tmp_path: Path) -> None:
    write_run(tmp_path / "one")
    write_run(tmp_path / "comparison" / "fedavg" / "seed-0")
    (tmp_path / "comparison" / "comparison.json").write_text("{}")
    write_run(tmp_path / "study" / "cells" / "fedavg" / "seed-0")
    (tmp_path / "study" / "study.json").write_text("{}")
    tree = walk(tmp_path)
    assert names(tree) == ["comparison/fedavg/seed-0", "one", "study/cells/fedavg/seed-0"]
    assert [place.name for place in tree.comparisons.values()] == ["comparison"]
    assert [place.name for place in tree.studies.values()] == ["study"]
    (study,) = tree.studies.values()
    assert [tree.runs[id].name for id in tree.runs_below(study)] == ["study/cells/fedavg/seed-0"]


def test_the_folder_may_be_a_run_itself(tmp_path: Path) -> None:
    assert names(walk(write_run(tmp_path / "run"))) == ["run"]


def test_nothing_hidden_nothing_inside_of_a_run_and_nothing_behind_a_link(tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside")
    folder = tmp_path / "folder"
    write_run(folder / ".hidden" / "run")
    write_run(folder / "run")
    write_run(folder / "run" / "inner")
    (folder / "link").symlink_to(outside)
    (folder / "around").symlink_to(folder)
    tree = walk(folder)
    assert names(tree) == ["run"]
    assert links_out(folder, folder) == folder / "link"
    assert links_out(folder / "run", folder) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_there_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    ((place, reason),) = walk(tmp_path).unreadable.values()
    assert (place.name, reason) == ("closed", "the folder cannot be read: Permission denied")


def test_names_are_shown_and_ids_hold_no_path(tmp_path: Path) -> None:
    write_run(tmp_path / "a\x1b[31m\u202e")
    (place,) = walk(tmp_path).runs.values()
    assert place.name == r"a\x1b[31m\u202e"
    assert place.id.isalnum() and len(place.id) == 16
