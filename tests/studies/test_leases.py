"""Leases: each cell has one owner, whoever tries, whoever dies."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import nursery
from flatfed.machine import machine_name, start_of_process
from flatfed.studies.workers.leases import CellProgress, Lease, Leases
from studies.bench import until

CELL = "fedavg-0-0123"
CELLS = 50
CLAIMERS = 6

CLAIM = """
import json, sys, time
from pathlib import Path
from flatfed.studies.workers.leases import Leases

folder = Path(sys.argv[1])
leases = Leases(folder / "leases")
(folder / f"ready-{leases.owner}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
mine = [cell for cell in range(int(sys.argv[2])) if leases.claim(f"cell {cell}")]
print(json.dumps(mine), flush=True)
(folder / f"done-{leases.owner}").touch()
while not (folder / "end").exists():
    time.sleep(0.001)
"""

HOLD = """
import sys, time
from pathlib import Path
from flatfed.studies.workers.leases import Leases

assert Leases(Path(sys.argv[1])).claim(sys.argv[2])
Path(sys.argv[3]).touch()
time.sleep(600)
"""


def elsewhere(lease: Lease, folder: Path, **changes: Any) -> None:
    """Let a lease be of an owner on another machine."""
    content = json.loads(lease.to_bytes()) | {"machine": "another", "owner": "somebody", **changes}
    (folder / lease.file).write_text(json.dumps(content))


def test_of_many_that_claim_all_cells_at_once_each_cell_has_one(tmp_path: Path) -> None:
    processes = [nursery.start("-c", CLAIM, str(tmp_path), str(CELLS)) for _ in range(CLAIMERS)]
    until(lambda: len(list(tmp_path.glob("ready-*"))) == CLAIMERS)
    (tmp_path / "go").touch()
    # All live until all have tried: what one has is never free for another.
    until(lambda: len(list(tmp_path.glob("done-*"))) == CLAIMERS)
    (tmp_path / "end").touch()
    ended = [process.end() for process in processes]
    assert [end.returncode for end in ended] == [0] * CLAIMERS, [end.stderr for end in ended]
    owners = Counter(cell for end in ended for cell in json.loads(end.stdout))
    assert owners == dict.fromkeys(range(CELLS), 1)


def test_what_is_given_back_can_be_taken_and_numbers_grow(tmp_path: Path) -> None:
    first, second = Leases(tmp_path), Leases(tmp_path)
    for number in range(1, 8):
        owner, other = (first, second) if number % 2 else (second, first)
        lease = owner.claim(CELL)
        assert lease is not None
        assert lease.number == number
        assert other.claim(CELL) is None
        owner.release(lease)
    assert [file.name for file in (tmp_path / CELL).iterdir()] == ["000007"]


def test_numbers_beyond_the_digits_of_a_name(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    lease = leases.claim(CELL)
    assert lease is not None
    last = Lease(CELL, 999_999, "x", machine_name(), os.getpid(), "", released=True)
    (tmp_path / last.file).write_bytes(last.to_bytes())
    for number in (1_000_000, 1_000_001):
        lease = leases.claim(CELL)
        assert lease is not None
        assert lease.number == number
        leases.release(lease)


def test_the_cell_of_a_killed_owner_is_free_at_once_also_before_anybody_asked_how_it_ended(tmp_path: Path) -> None:
    process = nursery.start("-c", HOLD, str(tmp_path / "leases"), CELL, str(tmp_path / "held"))
    until((tmp_path / "held").exists)
    leases = Leases(tmp_path / "leases")
    assert leases.claim(CELL) is None
    os.kill(process.pid, signal.SIGKILL)
    # Not yet waited for by the one that started it: its number is still taken.
    until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert leases.claim(CELL) is not None
    assert process.end().returncode == -signal.SIGKILL


def test_a_later_process_with_the_number_of_an_owner_is_another(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    leases.claim(CELL)
    lease = leases.newest(CELL)
    assert lease is not None
    assert lease.process == start_of_process(os.getpid())
    content = json.loads(lease.to_bytes()) | {"process": "1"}
    (tmp_path / lease.file).write_text(json.dumps(content))
    assert Leases(tmp_path).claim(CELL) is not None


def test_an_owner_elsewhere_has_its_cell_until_it_has_not_changed_for_the_patience(tmp_path: Path) -> None:
    owner, patient, hasty = Leases(tmp_path), Leases(tmp_path, patience=1e9), Leases(tmp_path, patience=0)
    lease = owner.claim(CELL)
    assert lease is not None
    elsewhere(lease, tmp_path)
    # The time is counted from when it was first seen, however short the patience is.
    assert [patient.claim(CELL), hasty.claim(CELL)] == [None, None]
    for beat in range(1, 4):
        elsewhere(lease, tmp_path, beat=beat)
        assert hasty.claim(CELL) is None  # a sign of life: counted anew
    assert patient.claim(CELL) is None
    assert patient.claim(CELL) is None
    taken = hasty.claim(CELL)
    assert taken is not None
    assert taken.number == lease.number + 1


def test_an_owner_of_this_machine_that_is_there_has_its_cell_however_long_it_shows_nothing(tmp_path: Path) -> None:
    owner, other = Leases(tmp_path), Leases(tmp_path, patience=0)
    assert owner.claim(CELL) is not None
    assert [other.claim(CELL) for _ in range(3)] == [None] * 3


def test_an_owner_that_was_taken_over_notices_and_gives_nothing_back(tmp_path: Path) -> None:
    owner = Leases(tmp_path)
    lease = owner.claim(CELL)
    assert lease is not None
    renewed = owner.renew(lease, CellProgress(1, 3))
    assert renewed is not None
    assert renewed.beat == 1
    elsewhere(renewed, tmp_path, owner="other", beat=9)
    taken = Lease(CELL, 2, "other", "another", 1, "")
    (tmp_path / taken.file).write_bytes(taken.to_bytes())
    assert owner.renew(renewed, CellProgress(2, 3)) is None
    owner.release(renewed)
    assert owner.newest(CELL) == taken


DAMAGE = [
    b"",
    b"{",
    b"5",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b"[" * 100_000,
    json.dumps({"owner": 1, "machine": "x", "pid": 1, "process": "", "progress": {}}).encode(),
    json.dumps({"owner": "", "machine": "x", "pid": "1", "process": "", "progress": {}}).encode(),
    json.dumps({"owner": "", "machine": "x", "pid": 1, "process": "", "progress": {"seconds_left": "x"}}).encode(),
    json.dumps({"owner": "", "machine": "x", "pid": 1, "process": "", "progress": {}, "more": 1}).encode(),
]


@pytest.mark.parametrize("content", DAMAGE, ids=lambda content: content[:60].decode("latin1"))
def test_a_damaged_lease_is_taken_over_after_the_patience(content: bytes, tmp_path: Path) -> None:
    leases = Leases(tmp_path, patience=0)
    lease = leases.claim(CELL)
    assert lease is not None
    leases.release(lease)
    (tmp_path / CELL / "000002").write_bytes(content)
    assert leases.claim(CELL) is None
    assert [held.cell for held in Leases(tmp_path).held()] == [CELL]
    taken = leases.claim(CELL)
    assert taken is not None
    assert taken.number == 3


def test_what_is_no_lease_is_left_alone(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    for name in ("note.txt", ".hidden", "12a"):
        (tmp_path / CELL).mkdir(exist_ok=True)
        (tmp_path / CELL / name).write_text("mine")
    (tmp_path / "README").write_text("mine")
    lease = leases.claim(CELL)
    assert lease is not None
    assert [held.cell for held in leases.held()] == [CELL]
    assert (tmp_path / CELL / "note.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["a b", "[x]", "a.b.000009", "*", "ü-λ", "x" * 120, "-rf", "%s{0}"])
def test_names_with_odd_characters(name: str, tmp_path: Path) -> None:
    owner, other = Leases(tmp_path), Leases(tmp_path)
    lease = owner.claim(name)
    assert lease is not None
    assert owner.claim(f"{name}2") is not None
    assert other.claim(name) is None
    owner.release(lease)
    again = other.claim(name)
    assert again is not None
    assert again.number == 2


def test_looking_writes_nothing(tmp_path: Path) -> None:
    assert Leases(tmp_path / "none").held() == []
    assert not (tmp_path / "none").exists()
