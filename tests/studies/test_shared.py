"""Several processes share a study and die at any moment; it ends with the bits of one that nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import nursery
from methods.designs import WHOLE
from studies.bench import begin, digests, rows, run_here, until, written

ROUNDS = 3
SHARED: dict[str, Any] = {
    "rounds": ROUNDS,
    "methods": {"fedavg": None, "with states": "feddyn+sam", "no ADMM": "fedgloss(admm=false)"},
    "settings": {"one class": {"alpha": 0}, "mild": {"alpha": 10}},
    "seeds": "0..9" if WHOLE else "0..2",
}
CELLS = 60 if WHOLE else 18
PROCESSES = 4 if WHOLE else 3
KILLS = 20 if WHOLE else 5


def test_killed_processes_and_one_that_is_left_alone_come_to_the_same_bits(tmp_path: Path) -> None:
    expected = run_here(tmp_path / "alone", **SHARED)
    assert expected.count == CELLS
    file = written(tmp_path, **SHARED)
    out = tmp_path / "out"
    draw = random.Random(20)
    # Moments are rounds played in all: about evenly spread, the last long before the end.
    moments = sorted(draw.sample(range(1, CELLS * ROUNDS * 9 // 10), KILLS))
    working = [begin(file, "--jobs", "1") for _ in range(PROCESSES)]
    for moment in moments:
        until(lambda moment=moment: rows(out) >= moment)  # type: ignore[misc]
        number = draw.randrange(PROCESSES)
        kill(working[number], draw.choice([os.kill, os.killpg]))
        working[number] = begin(file, "--jobs", "1")
    ended = [process.end() for process in working]
    assert [end.returncode for end in ended] == [0] * PROCESSES, [end.stderr for end in ended]
    assert len({end.stdout for end in ended}) == 1
    found, alone = digests(out), digests(tmp_path / "alone")
    assert len(alone) == CELLS
    assert {name: run["rounds"] for name, run in found.items()} == {name: list(range(ROUNDS)) for name in alone}
    assert [name for name in alone if found[name] != alone[name]] == []
    assert not list(out.glob("failures/*.json"))
    for process in working:
        assert is_gone(process)


def kill(process: nursery.Fresh, how: Any) -> None:
    """Kill a process alone, or with all that it has started."""
    # Not before it has a group of its own; it may have come to its end by now.
    until((process.folder / "err").exists)
    with suppress(ProcessLookupError):
        how(process.pid, signal.SIGKILL)
    process.end()
    until(lambda: is_gone(process))


def is_gone(process: nursery.Fresh) -> bool:
    """Say whether nobody of a process's group is left."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return True
    return False
