"""Histories are read from their ends and followed from where reading stopped."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from flatfed.core.errors import CheckpointError
from flatfed.dashboard.tails import BLOCK, HistoryFollower, last_rows
from flatfed.runs.history import History
from reports.disk import row


def written(path: Path, count: int, first: int = 0) -> History:
    history = History(path)
    for round in range(first, first + count):
        history.append(row(round, None))
    return history


@pytest.mark.parametrize("count", [0, 1, 2, 60, 200])
def test_the_last_rows_come_backwards_whatever_the_blocks(count: int, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    written(path, count).close()
    if count == 200:
        assert path.stat().st_size > 2 * BLOCK
    rounds = [row["round"] for row in last_rows(path, tmp_path)]
    assert rounds == list(range(count))[::-1]
    assert [row["round"] for row in islice(last_rows(path, tmp_path), 1)] == rounds[:1]


def test_a_row_that_is_being_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    written(path, 3).close()
    whole = path.read_bytes()
    for cut in (1, 2, 20):
        path.write_bytes(whole[:-cut])
        assert next(iter(last_rows(path, tmp_path)))["round"] == 1
        follower = HistoryFollower(path, tmp_path)
        follower.restarted()
        assert [row["round"] for row in follower.new_rows()] == [0, 1]
        with path.open("ab") as file:
            file.write(whole[-cut:])
        assert not follower.restarted()
        assert [row["round"] for row in follower.new_rows()] == [2]
        assert follower.damage == ""


def test_only_what_is_added_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = written(path, 2)
    follower = HistoryFollower(path, tmp_path)
    assert follower.restarted()
    assert [row["round"] for row in follower.new_rows()] == [0, 1]
    assert list(follower.new_rows()) == []
    history.append(row(2, 0.5))
    history.close()
    assert not follower.restarted()
    assert [row["round"] for row in follower.new_rows()] == [2]


def test_a_history_that_was_cut_back_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = written(path, 5)
    follower = HistoryFollower(path, tmp_path)
    follower.restarted()
    assert len(list(follower.new_rows())) == 5
    history.begin([row(0, None), row(1, None)])
    history.append(row(2, None))
    history.close()
    assert follower.restarted()
    assert [row["round"] for row in follower.new_rows()] == [0, 1, 2]


DAMAGED = [b"no JSON", b"{}", b"[1]", b'{"round": -2}', b"[" * 9999]


@pytest.mark.parametrize("line", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_ends_what_is_shown_and_says_so(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    written(path, 2).close()
    path.write_bytes(path.read_bytes() + line + b"\n")
    follower = HistoryFollower(path, tmp_path)
    follower.restarted()
    assert len(list(follower.new_rows())) == 2
    assert follower.damage == "history.jsonl, line 3 is damaged"
    assert next(iter(last_rows(path, tmp_path)))["round"] == 1


def test_a_damaged_history_is_read_again_only_when_it_was_written_to(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    written(path, 2).close()
    good = path.read_bytes()
    follower = HistoryFollower(path, tmp_path)
    follower.restarted()
    assert len(list(follower.new_rows())) == 2
    before = follower.generation
    path.write_bytes(good + b"no JSON\n")
    assert not follower.restarted() and list(follower.new_rows()) == []
    assert follower.damage and follower.generation > before, "the damage is news"
    assert not follower.restarted()
    path.write_bytes(good)
    assert follower.restarted() and len(list(follower.new_rows())) == 2
    assert not follower.damage


def test_a_row_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    written(path, 3).close()
    path.write_bytes(path.read_bytes().replace(b'"backprops": 40', b'"backprops": 41', 1))
    follower = HistoryFollower(path, tmp_path)
    follower.restarted()
    assert list(follower.new_rows()) == []
    assert follower.damage == "history.jsonl, line 1 is damaged"


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    written(secret, 1).close()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "history.jsonl").symlink_to(secret)
    (tmp_path / "other").symlink_to(folder)
    for path, root in ((folder / "history.jsonl", tmp_path), (tmp_path / "other" / "history.jsonl", tmp_path)):
        with pytest.raises(CheckpointError, match="link"):
            list(last_rows(path, root))
    with pytest.raises(CheckpointError, match="leads out"):
        list(last_rows(tmp_path / "other" / "history.jsonl", tmp_path / "other" / "elsewhere"))
