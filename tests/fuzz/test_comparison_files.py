"""The files of a comparison by name: wrong under seals that fit, or changed by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.command import SMALL, flatfed
from flatfed.core.errors import FlatfedError
from flatfed.experiments.comparing.comparison import load_comparison
from flatfed.experiments.running.resume import prepare
from flatfed.experiments.running.run import load_run
from fuzz.mutations import damaged_bytes, damaged_lines, edited, resealed
from fuzz.readers import answered, good_or_refused, read_comparison
from fuzz.trained import Copy
from records import unmark

MANY = bool(os.environ.get("FLATFED_FUZZ"))
FILE, RUN = "comparison.json", Path("scaffold/seed-0")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A comparison of two methods over a round; no checkpoint knows the configuration of its run."""
    place = tmp_path_factory.mktemp("comparison")
    outcome = flatfed("compare", "digits", "fedavg+swa", "scaffold", *SMALL, "--rounds", "1", "--out", place / "two")
    assert outcome.code == 0, outcome.err
    unmark(place / "two" / RUN)
    return Copy(place / "two", place / "copy")


@given(data=st.data())
@settings(max_examples=600 if MANY else 25)
def test_wrong(copy: Copy, data: st.DataObject) -> None:
    copy.put(FILE, data.draw(resealed(copy.whole(FILE))))
    read_comparison(copy.path)


@given(data=st.data())
@settings(max_examples=300 if MANY else 6)
def test_a_wrong_configuration_of_a_run(copy: Copy, data: st.DataObject) -> None:
    name = str(RUN / "config.json")
    copy.put(name, data.draw(resealed(copy.whole(name))))
    good_or_refused(lambda: load_run(copy.path / RUN))
    good_or_refused(lambda: prepare(copy.path / RUN))


@given(data=st.data())
@settings(max_examples=400 if MANY else 15)
def test_changed(copy: Copy, data: st.DataObject) -> None:
    copy.mend()
    before, shown = load_comparison(copy.path).to_dict(), answered("show", copy.path, "--json").json
    whole = copy.whole(FILE)
    copy.put(FILE, data.draw(st.one_of(damaged_bytes(whole), damaged_lines(whole), edited(whole))))
    try:
        assert load_comparison(copy.path).to_dict() == before
        assert answered("show", copy.path, "--json").json == shown
    except FlatfedError as error:
        assert FILE in str(error)
        assert answered("show", copy.path, "--json").code == 2
