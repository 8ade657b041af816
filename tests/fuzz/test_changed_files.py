"""Files of a run that are not what was written: whoever reads them refuses them, or shows what was there before."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults, Points
from fuzz.mutations import damaged_bytes, damaged_lines, edited, edited_line
from fuzz.readers import answered
from fuzz.trained import KEY, LANDSCAPE, PLACES, Copy, measured_run

MANY = bool(os.environ.get("FLATFED_FUZZ"))

TEXTS = ["config.json", "status.json", "environment.json", "flatness/results.json", "checkpoints/*/checkpoint.json"]
LINES = ["history.jsonl", "flatness/*.jsonl"]
TENSORS = ["task.safetensors", "checkpoints/*/server.safetensors", "checkpoints/states/*"]


@dataclass(frozen=True)
class Seen:
    """What a reader made of a run: a value, or that it refused to say one."""

    value: Any
    refused: bool = False
    remarks: tuple[str, ...] = ()


def seen(read: Callable[[Path], Any], path: Path) -> Seen:
    """Read something of a run."""
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        try:
            value = read(path)
        except ff.FlatfedError as error:
            assert str(path) in str(error)
            return Seen(None, refused=True)
    return Seen(value, remarks=tuple(str(remark.message) for remark in remarks))


def text_of(value: Any) -> str:
    """Return values to be compared; in which order names stand does not matter."""
    return json.dumps(value, sort_keys=True)


def shown(path: Path) -> str:
    """What `show` prints; an error of the command is one of the function."""
    outcome = answered("show", path, "--json", "--at", "1,2", "--target", "0.1")
    if outcome.code:
        raise ff.FlatfedError(outcome.err)
    return text_of(outcome.json)


def summary(path: Path) -> str:
    """What a run says of itself."""
    return text_of(RunDirectory.open(path).summary())


def loaded(path: Path) -> str:
    """What is loaded: the model and the history."""
    run = ff.load_run(path)
    return text_of([run.vector.tolist(), run.history, run.status])


def results(path: Path) -> str:
    """What was measured."""
    return text_of(KeptResults(path).of_round(range(10)))


READERS: list[Callable[[Path], Any]] = [shown, summary, loaded, results]


def losses(path: Path) -> list[Any]:
    """What is known of a landscape."""
    points = Points(path, LANDSCAPE, KEY)
    return [points.get(place) for place in PLACES]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    place = tmp_path_factory.mktemp("changed")
    return Copy(measured_run(place / "run"), place / "copy")


@pytest.fixture(scope="module")
def before(copy: Copy) -> dict[str, Any]:
    """What each reader sees of the run as it should be."""
    return {read.__name__: read(copy.path) for read in [*READERS, losses]}


@pytest.fixture(scope="module")
def earlier(copy: Copy, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is loaded where the newest checkpoint is gone."""
    place = Copy(copy.source, tmp_path_factory.mktemp("earlier") / "copy")
    newest = place.files("checkpoints/round-*")[-1]
    (place.path / newest / "checkpoint.json").unlink()
    with pytest.warns(UserWarning, match="cannot be used"):
        return loaded(place.path)


def changed(pattern: str) -> Callable[[bytes], st.SearchStrategy[bytes]]:
    """Return what damages the files of a pattern."""
    if pattern in TENSORS:
        return damaged_bytes
    by_hand = edited_line if pattern in LINES else edited
    return lambda whole: st.one_of(damaged_bytes(whole), damaged_lines(whole), by_hand(whole))


@pytest.mark.parametrize("name", ["config.json", "status.json", "environment.json", "flatness/results.json"])
def test_a_lost_seal_is_noticed(name: str, copy: Copy) -> None:
    content = json.loads(copy.whole(name))
    del content["seal"]
    copy.put(name, json.dumps(content).encode())
    assert any(seen(read, copy.path).refused for read in READERS)
    copy.mend()


def test_a_changed_row_is_not_loaded(copy: Copy) -> None:
    copy.put("history.jsonl", copy.whole("history.jsonl").replace(b'"test_loss": 1', b'"test_loss": 0', 1))
    assert seen(loaded, copy.path).refused
    copy.mend()


def test_a_model_of_an_earlier_checkpoint_is_not_loaded_without_a_word(before: dict[str, Any], earlier: str) -> None:
    assert before["loaded"] != earlier


@pytest.mark.parametrize("pattern", [*TEXTS, *LINES, *TENSORS])
@given(data=st.data())
@settings(max_examples=400 if MANY else 8)
def test_never_another_number(
    pattern: str, copy: Copy, before: dict[str, Any], earlier: str, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(copy.files(pattern)))
    copy.put(name, data.draw(changed(pattern)(copy.whole(name))))
    for read in READERS:
        actual = seen(read, copy.path)
        if actual.value == earlier and read is loaded:
            assert "cannot be used" in " ".join(actual.remarks)
        else:
            assert actual.refused or actual.value == before[read.__name__], read.__name__
    points = seen(losses, copy.path)
    if not points.refused:
        # A point that is lost is evaluated again.
        assert all(now in (None, then) for now, then in zip(points.value, before["losses"], strict=True))
    copy.mend()
