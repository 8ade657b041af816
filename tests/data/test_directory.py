"""The data directory: what is found in it, and the errors about what is not."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.data.directory import DataDirectory, MissingData, MissingOption


def test_the_first_place_that_is_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "c").touch()
    assert DataDirectory(tmp_path).find("toy", "a", "b", "c") == tmp_path / "b"


def test_what_is_missing_is_an_error_with_its_places(tmp_path: Path) -> None:
    with pytest.raises(MissingData) as refused:
        DataDirectory(tmp_path).find("toy", "a", "b")
    error = refused.value
    assert (error.dataset, error.places) == ("toy", (tmp_path / "a", tmp_path / "b"))
    problem = f"toy: {tmp_path}/a or {tmp_path}/b is missing; put the files there, or name the folder that holds them"
    assert str(error) == f"{problem} with data_dir"
    assert error.worded("--data-dir") == f"{problem} with --data-dir"


def test_a_data_set_says_how_to_get_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingData) as refused:
        load("mnist", tmp_path)
    assert refused.value.advice == "get it with `flatfed data get mnist`, or put the official files there"


def test_an_option_that_must_be_given() -> None:
    with pytest.raises(MissingOption) as refused:
        load("image-folder")
    error = refused.value
    assert (error.dataset, error.option) == ("image-folder", "path")
    assert str(error) == "image-folder: say where the data are, data.path=folder"
    assert error.worded("--set data.path") == "image-folder: say where the data are, --set data.path=folder"


@pytest.mark.parametrize(
    "error",
    [MissingData("toy", (Path("a"),)), MissingOption("toy", "say where", "path", "FOLDER")],
    ids=["data", "option"],
)
def test_errors_cross_processes(error: ConfigError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_files_of_the_user_are_looked_for_here_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.chdir(tmp_path)
    (data / "pets").mkdir()
    assert DataDirectory(data).find_own("toy", "pets") == data / "pets"
    (tmp_path / "pets").mkdir()
    assert DataDirectory(data).find_own("toy", "pets") == Path("pets")
    with pytest.raises(ConfigError, match=r"^toy: cats is missing \(data\.path: seen from here, or in .*data\)$"):
        DataDirectory(data).find_own("toy", "cats")
