"""Files of a run that are well-formed and wrong, under seals that fit: read or refused, whoever reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.mutations import edited_line, resealed, resealed_manifest, resealed_point
from fuzz.readers import answered, read_run
from fuzz.trained import Copy, measured_run
from records import unmark

MANY = bool(os.environ.get("FLATFED_FUZZ"))

Wrong = Callable[[bytes], st.SearchStrategy[bytes]]
UNMARKED: dict[str, Wrong] = {"config.json": resealed, "history.jsonl": edited_line}
"""Files that status and checkpoints have marks of, and what makes them wrong."""
MARKED: dict[str, Wrong] = {
    "status.json": resealed,
    "environment.json": resealed,
    "flatness/results.json": resealed,
    "flatness/*.jsonl": resealed_point,
    "checkpoints/*/checkpoint.json": resealed_manifest,
}


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    place = tmp_path_factory.mktemp("marked")
    return Copy(measured_run(place / "run"), place / "copy")


@pytest.fixture(scope="module")
def unmarked(marked: Copy, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The same where no file says what another must be."""
    place = tmp_path_factory.mktemp("unmarked")
    source = Copy(marked.source, place / "run")
    unmark(source.path)
    return Copy(source.path, place / "copy")


def make_wrong(copy: Copy, pattern: str, wrong: Wrong, data: st.DataObject) -> Path:
    """Let a file of a copy be wrong."""
    name = data.draw(st.sampled_from(copy.files(pattern)))
    copy.put(name, data.draw(wrong(copy.whole(name))))
    return copy.path


@pytest.mark.parametrize("pattern", UNMARKED)
@given(data=st.data())
@settings(max_examples=1000 if MANY else 25)
def test_files_that_others_have_marks_of(pattern: str, unmarked: Copy, data: st.DataObject) -> None:
    read_run(make_wrong(unmarked, pattern, UNMARKED[pattern], data))


@pytest.mark.parametrize("pattern", MARKED)
@given(data=st.data())
@settings(max_examples=400 if MANY else 8)
def test_other_files(pattern: str, marked: Copy, data: st.DataObject) -> None:
    read_run(make_wrong(marked, pattern, MARKED[pattern], data))


@given(data=st.data())
@settings(max_examples=300 if MANY else 10)
def test_show(unmarked: Copy, data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from([*UNMARKED, "status.json", "environment.json"]))
    path = make_wrong(unmarked, pattern, UNMARKED.get(pattern, resealed), data)
    answered("show", path)
    answered("show", path, "--json", "--at", "1,2", "--target", "0.1")
