"""Which tests `make test` runs, and which it leaves to `make test-rest`; pytest by itself runs them all.

`shares.txt` names the tests that take long, and how many cases of each stay in `make test`: some of them, evenly spread
over all, or none. So `make test` takes minutes and still comes by everywhere, and nothing is in neither.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

SHORT, REST = "short", "rest"
SHARE = os.environ.get("FLATFED_SHARE", "")
LIST = Path(__file__).with_name("shares.txt")


def cases_in_short() -> dict[str, int]:
    """Return for each test function that takes long how many of its cases `make test` runs."""
    counts: dict[str, int] = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, count = words
        assert name not in counts, f"{LIST.name} names {name} twice"
        counts[name] = int(count)
    return counts


def function_of(nodeid: str) -> str:
    """Return a test's function, without its case."""
    return nodeid.partition("[")[0]


def spread(cases: Sequence[str], count: int) -> set[str]:
    """Return this number of cases, evenly spread over all; one of them is in the middle."""
    total = len(cases)
    count = min(count, total)
    return {cases[(2 * number + 1) * total // (2 * count)] for number in range(count)}


def in_short(nodeids: Sequence[str]) -> set[str]:
    """Return the tests that `make test` runs."""
    families: dict[str, list[str]] = {}
    for nodeid in nodeids:
        families.setdefault(function_of(nodeid), []).append(nodeid)
    counts = cases_in_short()
    chosen: set[str] = set()
    for function, cases in families.items():
        chosen |= spread(cases, counts.get(function, len(cases)))
    return chosen


def files_with_rest() -> set[Path]:
    """Return the files that have tests which `make test` leaves out; no other file is read for `make test-rest`."""
    root = LIST.parents[1]
    return {root / name.partition("::")[0] for name in cases_in_short()}


def in_share(nodeids: Sequence[str], share: str) -> set[str]:
    """Return the tests of a share."""
    if share == SHORT:
        return in_short(nodeids)
    if share == REST:
        return set(nodeids) - in_short(nodeids)
    assert not share, f"FLATFED_SHARE is {SHORT} or {REST}, not {share}"
    return set(nodeids)
