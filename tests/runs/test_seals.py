"""Files of a run that were changed after they were written: each is a sentence, and never a result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

import flatfed as ff
from cli.command import SMALL, Outcome, flatfed, refused
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import Points
from records import unseal_rows
from runs.bench import small_run, small_task

FLIPS = 60
LONGER = ("--rounds", "5")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a checkpoint after each round; not to be changed."""
    path = tmp_path_factory.mktemp("seals") / "run"
    assert flatfed("run", "digits", "scaffold", *SMALL, "--checkpoint-every", "1", "--out", path).code == 0
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(trained, tmp_path / "run")


def flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def not_resumed(outcome: Outcome, *parts: str) -> None:
    """Check that a run was refused, after the summary of what it is, with a sentence that holds `parts`."""
    assert outcome.code == 2, outcome
    last = outcome.err.splitlines()[-1]
    assert last.startswith("Error: ")
    for part in parts:
        assert part in last


def every_flip_is_noticed(file: Path, read: Callable[[], object]) -> None:
    """Change a bit in many places: what is read is what it was, or an error for people."""
    whole, expected = file.read_bytes(), read()
    step = max(1, len(whole) // FLIPS)
    for number, place in enumerate(range(0, len(whole), step)):
        file.write_bytes(flipped(whole, place, number % 7))
        try:
            assert read() == expected, f"byte {place}"
        except ff.FlatfedError as error:
            assert str(file.parent) in str(error)
    file.write_bytes(whole)


@pytest.mark.parametrize("name", ["history.jsonl", "config.json", "status.json"])
def test_no_flipped_bit_shows_another_number(name: str, run: Path) -> None:
    every_flip_is_noticed(run / name, lambda: RunDirectory.open(run).summary())


def test_a_changed_row_is_not_shown_and_not_resumed(run: Path) -> None:
    file = run / "history.jsonl"
    file.write_text(file.read_text().replace('"test_accuracy": 0.', '"test_accuracy": 0.9'))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    refused(flatfed("show", run), "history.jsonl", "put the file back")
    not_resumed(flatfed("resume", run, *LONGER), "history.jsonl", "--accept-changed-history")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_changed_row_can_be_accepted(run: Path) -> None:
    file = run / "history.jsonl"
    file.write_text(file.read_text().replace('"test_accuracy": 0.', '"test_accuracy": 0.9'))
    assert flatfed("resume", run, *LONGER, "--accept-changed-history").code == 0
    assert flatfed("show", run).code == 0
    assert flatfed("resume", run, "--rounds", "6").code == 0, "what was accepted once need not be accepted again"


def test_a_row_that_is_lost_is_noticed(run: Path) -> None:
    lines = (run / "history.jsonl").read_bytes().splitlines(keepends=True)
    (run / "history.jsonl").write_bytes(b"".join(lines[:-1]))
    refused(flatfed("show", run), "history.jsonl")


def test_a_damaged_last_row_is_made_again_from_the_checkpoint_before(run: Path, trained: Path) -> None:
    """Two checkpoints are kept: the newest builds on the damaged row, the one before does not."""
    file = run / "history.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"round": 2', b'"round": 2, "x": 1')]))
    outcome = flatfed("resume", run)
    assert outcome.code == 0
    assert "checkpoint of round 3 cannot be used" in outcome.err
    expected = ff.load_run(trained)
    assert torch.equal(ff.load_run(run).vector, expected.vector)


@pytest.fixture
def unsaved(run: Path) -> Path:
    """The run as a process leaves it that was killed after three rounds, of which two were saved."""
    shutil.rmtree(run / "checkpoints/round-000003")
    RunDirectory.open(run).set_status("running")
    return run


def test_a_changed_row_after_the_last_checkpoint_of_a_killed_run_is_not_shown(unsaved: Path, trained: Path) -> None:
    file = unsaved / "history.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    place = lines[-1].index(b'"test_accuracy": ') + len(b'"test_accuracy": 0.')
    file.write_bytes(b"".join([*lines[:-1], flipped(lines[-1], place, 0)]))
    refused(flatfed("show", unsaved, "--json"), "history.jsonl, line 3 is damaged: put the file back", "flatfed resume")
    assert flatfed("resume", unsaved).code == 0
    assert torch.equal(ff.load_run(unsaved).vector, ff.load_run(trained).vector)
    assert flatfed("show", unsaved).code == 0


def test_every_flipped_bit_after_the_last_checkpoint_is_noticed(unsaved: Path) -> None:
    file = unsaved / "history.jsonl"
    whole, rows = file.read_bytes(), RunDirectory.open(unsaved).rows
    assert len(rows) == 3
    start = len(b"".join(whole.splitlines(keepends=True)[:2]))
    for place in range(start, len(whole) - len(b', "seal": "0123456789abcdef"}\n'), 3):
        file.write_bytes(flipped(whole, place, place % 7))
        with pytest.raises(ff.CheckpointError, match="line 3 is damaged"):
            _ = RunDirectory.open(unsaved).rows


def test_a_run_from_before_the_seals_of_rows_gets_them_and_its_checkpoints_still_fit(run: Path, trained: Path) -> None:
    unseal_rows(run)
    assert flatfed("show", run).code == 0
    assert flatfed("resume", run, "--rounds", "4").code == 0
    assert all(b'"seal": ' in line for line in (run / "history.jsonl").read_bytes().splitlines())
    # The newest is damaged: the one before was saved when lines had no seals.
    (run / "checkpoints/round-000004/server.safetensors").write_bytes(b"")
    outcome = flatfed("resume", run)
    assert outcome.code == 0, outcome.err
    assert "that of round 3 is used instead" in outcome.err


@pytest.mark.parametrize("name, value", [("lr", 0.5), ("seed", 1), ("local_epochs", 3)])
def test_a_changed_setting_is_not_resumed(name: str, value: float, run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["settings"][name] = value
    (run / "config.json").write_text(json.dumps(config))
    for command in (["resume", run, *LONGER], ["show", run], ["evaluate", run]):
        refused(flatfed(*command), "config.json was changed after it was written")


def test_a_configuration_with_another_valid_seal_is_not_the_checkpoints(run: Path) -> None:
    from flatfed.runs.records.files import read_json, write_json

    config = read_json(run / "config.json")
    config["settings"]["lr"] = 0.5
    write_json(run / "config.json", config)
    not_resumed(flatfed("resume", run, *LONGER), "not what the checkpoint of round")
    refused(flatfed("evaluate", run), "not what the checkpoint of round")


def test_more_rounds_and_moved_data_are_no_change(run: Path, tmp_path: Path) -> None:
    assert flatfed("resume", run, *LONGER, "--data-dir", tmp_path).code == 0
    assert flatfed("resume", run, "--rounds", "6").code == 0
    assert flatfed("evaluate", run).code == 0


def test_every_flipped_bit_of_a_tasks_tensors_is_noticed(tmp_path: Path) -> None:
    small_run(tmp_path / "run")
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")  # where no task is in memory
    file = elsewhere / "task.safetensors"
    whole = file.read_bytes()
    for number, place in enumerate(range(0, len(whole), len(whole) // 20)):
        file.write_bytes(flipped(whole, place, number % 8))
        with pytest.raises(ff.CheckpointError, match=r"task\.safetensors was changed"):
            ff.load_run(elsewhere)
    file.write_bytes(whole)
    assert torch.equal(ff.load_run(elsewhere).vector, ff.load_run(tmp_path / "run", task=small_task()).vector)


def test_changed_points_of_a_landscape_are_refused(tmp_path: Path) -> None:
    points = Points(tmp_path, "plane", {"run": "a"})
    for number in range(4):
        points.add((float(number), 0.0), {"loss": number / 7})
    file = tmp_path / "flatness" / "plane.jsonl"
    every_flip_is_noticed(file, lambda: _losses(tmp_path))


def _losses(path: Path) -> list[object]:
    points = Points(path, "plane", {"run": "a"})
    known = [points.get((float(number), 0.0)) for number in range(4)]
    # At the very end a line may look torn off; that point is evaluated again.
    return [*known[:3], known[3] or {"loss": 3 / 7}]


def pictures(folder: Path, shade: int) -> None:
    for part, count in (("train", 12), ("test", 4)):
        for label in ("a", "b"):
            place = folder / part / label
            place.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                value = (shade + 10 * number + 5 * (label == "b")) % 256
                Image.new("RGB", (8, 8), (value, value, 40)).save(place / f"{number}.png")


def test_other_pictures_under_the_same_names_are_noticed(tmp_path: Path) -> None:
    pictures(tmp_path / "pictures", 0)
    data = ("--set", f"data.path={tmp_path / 'pictures'}", "--set", "data.size=8", "--set", "data.crop=0")
    small = ("--rounds", "2", "--clients", "2", "--per-round", "2", "--workers", "0", "--model", "logreg")
    out = tmp_path / "run"
    outcome = flatfed("run", "image-folder", "fedavg", *data, *small, "--alpha", "100", "--out", out)
    assert outcome.code == 0, outcome.err
    elsewhere = shutil.copytree(out, tmp_path / "elsewhere")
    # One picture in a part that a partition does not look at, of the same size in bytes or not.
    Image.new("RGB", (8, 8), (255, 0, 0)).save(tmp_path / "pictures" / "test" / "a" / "0.png")
    from flatfed.experiments.tasks import recipe

    recipe._pool.cache_clear()
    refused(flatfed("resume", elsewhere, "--rounds", "3"), "examples or labels", "--accept-changed-data")
    refused(flatfed("evaluate", elsewhere), "examples or labels", "--accept-changed-data")
    assert flatfed("evaluate", elsewhere, "--accept-changed-data").code == 0
    assert flatfed("resume", elsewhere, "--rounds", "3", "--accept-changed-data").code == 0
    assert flatfed("resume", elsewhere, "--rounds", "4").code == 0, "what was accepted once need not be again"
