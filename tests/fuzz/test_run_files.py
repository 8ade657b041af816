"""Files of a run that are well-formed and wrong, or damaged: read or refused, whoever reads them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.command import SMALL, flatfed
from fuzz.mutations import damaged_json, damaged_lines
from fuzz.readers import answered, load, read_comparison, read_run

MANY = bool(os.environ.get("FLATFED_FUZZ"))
few = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)

JSON_FILES = ["config.json", "status.json", "environment.json", "flatness/results.json"]
LINES = ["history.jsonl"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two methods over two rounds, one with flatness."""
    out = tmp_path_factory.mktemp("fuzz") / "two"
    arguments = ["--watch", "lambda_max:1", "--watch-samples", "50", "--flatness", "--rounds", "2"]
    outcome = flatfed("compare", "digits", "fedavg+swa", "scaffold", *SMALL, *arguments, "--out", out)
    assert outcome.code == 0, outcome.err
    return out


@pytest.fixture(scope="module")
def run(original: Path) -> Path:
    return original / "scaffold" / "seed-0"


@pytest.fixture(scope="module")
def place(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run that is damaged again and again."""
    return Path(shutil.copytree(run, tmp_path_factory.mktemp("damaged") / "run"))


def put(source: Path, place: Path, name: str, data: bytes) -> None:
    """Let one file of the copy be damaged, and all others as they were."""
    for other in [*JSON_FILES, *LINES]:
        (place / other).write_bytes((source / other).read_bytes())
    (place / name).write_bytes(data)


@given(data=st.data())
@settings(few, max_examples=2000 if MANY else 60)
def test_records(run: Path, place: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*JSON_FILES, *LINES]))
    damaged = damaged_lines if name in LINES else damaged_json
    put(run, place, name, data.draw(damaged((run / name).read_bytes())))
    read_run(place)


@given(data=st.data())
@settings(few, max_examples=500 if MANY else 15)
def test_show(run: Path, place: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*JSON_FILES, *LINES]))
    damaged = damaged_lines if name in LINES else damaged_json
    put(run, place, name, data.draw(damaged((run / name).read_bytes())))
    answered("show", place)
    answered("show", place, "--json", "--at", "1,2", "--target", "0.1")


@given(data=st.data())
@settings(few, max_examples=300 if MANY else 6)
def test_loading(run: Path, place: Path, data: st.DataObject) -> None:
    put(run, place, "config.json", data.draw(damaged_json((run / "config.json").read_bytes())))
    load(place)


@given(data=st.data())
@settings(few, max_examples=1000 if MANY else 25)
def test_comparisons(original: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    file = original / "comparison.json"
    whole = file.read_bytes()
    try:
        file.write_bytes(data.draw(damaged_json(whole)))
        read_comparison(original)
    finally:
        file.write_bytes(whole)
