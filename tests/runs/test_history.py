"""The history: JSON lines that only grow, readable at any time, whole at any time."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flatfed as ff
from flatfed.runs.history import IN_MEMORY, History, read_history, read_rows, salvaged_rows
from runs.bench import ROUNDS, small_run

COST = {"bytes_down": 100, "bytes_up": 50, "backprops": 8, "seconds": 0.25}
NORMS = {"update_norm": 0.1, "model_norm": 2.0, "test_loss": None}
ROWS = [{"round": n, "clients": [n, n + 1], "lr": 0.1, "train_loss": 0.1 * n, **NORMS, **COST} for n in range(4)]


def filled(path: Path, rows: list[dict[str, Any]] = ROWS) -> History:
    history = History(path)
    for row in rows:
        history.append(row)
    return history


def test_a_row_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    path, history = tmp_path / "history.jsonl", History(tmp_path / "history.jsonl")
    for n, row in enumerate(ROWS):
        history.append(row)
        assert read_rows(path) == history.rows == ROWS[: n + 1]
    history.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [{**row, "seal": line["seal"]} for row, line in zip(ROWS, lines, strict=True)] == lines
    assert path.read_text().endswith("\n")


def test_the_file_of_a_run_only_grows_and_is_readable_meanwhile(tmp_path: Path) -> None:
    path, seen = tmp_path / "run/history.jsonl", [b""]

    def on_round(row: dict[str, Any]) -> None:
        content = path.read_bytes()
        assert content.startswith(seen[-1])
        assert [actual["round"] for actual in read_rows(path)] == list(range(row["round"] + 1))
        assert read_rows(path)[-1] == row
        seen.append(content)

    run = small_run(tmp_path / "run", on_round=on_round)
    assert len(seen) == ROUNDS + 1
    assert path.read_bytes() == seen[-1]
    assert read_rows(path) == run.history


def test_a_torn_last_line_is_left_out_wherever_it_was_torn(tmp_path: Path) -> None:
    filled(tmp_path / "whole").close()
    whole = (tmp_path / "whole").read_bytes()
    starts = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(len(whole)):
        (tmp_path / "torn").write_bytes(whole[:length])
        complete = sum(start - 1 <= length for start in starts)  # a line without its end of line is whole, too
        assert read_rows(tmp_path / "torn") == ROWS[:complete]


def test_a_missing_or_empty_history_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "nowhere") == []
    (tmp_path / "empty").touch()
    assert read_rows(tmp_path / "empty") == []


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_no_bytes_at_the_end_break_the_reader(tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        filled(path).close()
        with path.open("ab") as file:
            file.write(tail)
        assert read_rows(path) == ROWS


@pytest.mark.parametrize("line", [b"", b"{", b"[1, 2]", b'{"lr": 0.1}', b"\xff\xfe"])
def test_a_damaged_line_elsewhere_is_refused_with_its_place(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    filled(path).close()
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], line, *lines[2:]]))
    with pytest.raises(ff.CheckpointError, match=r"history\.jsonl, line 2"):
        read_rows(path)


def test_begin_puts_other_rows_in_place(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = filled(path)
    history.begin(ROWS[:2])
    assert history.rows == read_rows(path) == ROWS[:2]
    history.append(ROWS[2])
    assert history.rows == read_rows(path) == ROWS[:3]
    history.begin([])
    assert history.rows == read_rows(path) == []
    history.close()


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = filled(path)
    before, mark = path.read_bytes(), history.mark
    history.begin(ROWS)
    assert path.read_bytes() == before
    assert history.mark == mark == read_history(path).mark
    assert list(tmp_path.iterdir()) == [path], "a temporary file was left"


def test_a_torn_file_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    filled(path).close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5)
    history = History(path)
    history.begin(read_rows(path))
    history.append(ROWS[3])
    history.close()
    assert read_rows(path) == ROWS


def test_a_history_without_a_path_stays_in_memory() -> None:
    history = History(None)
    for row in ROWS:
        history.append(row)
    history.sync()
    history.begin(history.rows[:1])
    history.close()
    assert history.rows == ROWS[:1]


def test_every_changed_bit_of_a_row_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = filled(path)
    history.close()
    whole = path.read_bytes()
    for place in range(len(whole) - 1):  # the line break at the end says nothing
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 7]) + whole[place + 1 :])
        assert not read_history(path).holds(history.mark), place


def test_lines_that_are_missing_or_in_another_order_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = filled(path)
    history.close()
    lines = path.read_bytes().splitlines(keepends=True)
    for order in ([1, 2, 3], [0, 2, 3], [0, 1, 2], [1, 0, 2, 3], [0, 0, 1, 2, 3], []):
        path.write_bytes(b"".join(lines[n] for n in order))
        assert not read_history(path).holds(history.mark), order
    path.write_bytes(b"".join(lines))
    assert read_history(path).holds(history.mark)
    for count in range(4):
        earlier = History(None)
        earlier.begin(ROWS[:count])
        assert read_history(path).holds(earlier.mark), "a checkpoint of an earlier round"


def test_every_changed_bit_is_noticed_by_the_lines_alone(tmp_path: Path) -> None:
    """Where no mark covers them, as after the last checkpoint of a run that was killed."""
    path = tmp_path / "history.jsonl"
    for rows in (ROWS[:1], ROWS):
        path.unlink(missing_ok=True)
        filled(path, rows).close()
        whole = path.read_bytes()
        for place in range(len(whole)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 7]) + whole[place + 1 :])
            actual = read_history(path)
            assert list(actual.rows) == rows[: len(actual.rows)], place
            # A last line without its end may have been torn off by a crash, and its row is made again.
            ends = place >= len(whole) - len(b', "seal": "0123456789abcdef"}\n')
            assert actual.damage or (ends and len(actual.rows) >= len(rows) - 1), place


def test_a_changed_line_is_named_and_the_rows_before_it_are_good(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    filled(path).close()
    path.write_text(path.read_text().replace('"train_loss": 0.2,', '"train_loss": 0.7,'))
    assert (read_history(path).rows, read_history(path).damage) == (ROWS[:2], f"{path}, line 3 is damaged")
    with pytest.raises(ff.CheckpointError, match=r"history\.jsonl, line 3 is damaged: put the file back as it was"):
        read_rows(path)
    assert [row["train_loss"] for row in salvaged_rows(path)] == [0.0, 0.1, 0.7, ROWS[3]["train_loss"]]


def test_lines_that_are_missing_or_in_another_order_are_noticed_by_the_lines_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    filled(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    for order in ([1, 2, 3], [0, 2, 3], [1, 0, 2, 3], [0, 0, 1, 2, 3]):
        path.write_bytes(b"".join(lines[n] for n in order))
        assert read_history(path).damage, order


def unsealed(path: Path) -> bytes:
    """Return the lines of a history as an earlier version wrote them."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in read_rows(path))


def test_a_history_without_seals_is_read_and_has_the_same_mark(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history = filled(path)
    sealed, mark = path.read_bytes(), history.mark
    path.write_bytes(unsealed(path))
    assert read_rows(path) == ROWS
    assert read_history(path).mark == mark, "what a checkpoint of an earlier version notes"
    history.begin(read_rows(path))
    history.close()
    assert path.read_bytes() == sealed, "who goes on with it seals it"
    assert read_history(path).holds(mark), "a checkpoint from before the seals still fits"


@pytest.mark.parametrize("place", range(len(ROWS)))
def test_a_history_of_which_some_lines_have_seals_is_damaged(place: int, tmp_path: Path) -> None:
    """At the first line that is unlike the first one."""
    path = tmp_path / "history.jsonl"
    filled(path).close()
    sealed, plain = path.read_bytes().splitlines(), unsealed(path).splitlines()
    number = place + 1 if place else 2
    for lines, others in ((sealed, plain), (plain, sealed)):
        path.write_bytes(b"\n".join([*lines[:place], others[place], *lines[place + 1 :], b""]))
        assert read_history(path).damage == f"{path}, line {number} is damaged"


def test_a_seal_that_was_changed_itself_costs_no_row_that_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    filled(path).close()
    path.write_text(path.read_text().replace('"seal": "', '"seal": "x', 1))
    assert read_history(path).damage == f"{path}, line 1 is damaged"
    assert salvaged_rows(path) == ROWS


def test_a_long_history_does_not_stay_in_memory(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    for number in range(IN_MEMORY + 5):
        history.append(ROWS[0] | {"round": number})
    assert history._rows is None
    assert [row["round"] for row in history.rows] == list(range(IN_MEMORY + 5))
    assert history.last is not None
    assert history.last["round"] == IN_MEMORY + 4
    history.close()


def test_numbers_come_back_to_the_same_bits(tmp_path: Path) -> None:
    row = ROWS[0] | {"a": 0.1 + 0.2, "b": 5e-324, "c": 1.7976931348623157e308, "d": -0.0, "e": 2**53 + 1}
    filled(tmp_path / "history.jsonl", [row]).close()
    assert [json.dumps(actual) for actual in read_rows(tmp_path / "history.jsonl")] == [json.dumps(row)]
