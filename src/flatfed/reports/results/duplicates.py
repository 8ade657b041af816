"""Runs of one method, setting and seed: they are no replicates, and count once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.core.round.federation import TIMES
from flatfed.reports.results.one_run import OneRun
from flatfed.runs.history import Row

MEASURED = (*TIMES, "clients_watch")
"""What a row holds besides results: times, and measurements that one may have asked for and another not."""


def once_each(runs: Sequence[OneRun], say: Callable[[str], None]) -> list[OneRun]:
    """Return one run of each seed.

    Of two that agree, bit for bit, as far as both have come, the one with more rounds stays, so that one which is
    still under way does not hide one that is finished. Two that differ cannot both be this seed's: an error.
    """
    kept: dict[int, OneRun] = {}
    for run in runs:
        other = kept.get(run.seed)
        if other is None:
            kept[run.seed] = run
            continue
        _refuse_different(other, run)
        kept[run.seed], dropped = (run, other) if len(run.rows) > len(other.rows) else (other, run)
        so_far = "" if len(run.rows) == len(other.rows) else f" as far as it has come ({len(dropped.rows)} rounds)"
        say(f"{dropped.path} repeats {kept[run.seed].path} (seed {run.seed}){so_far}; it is counted once")
    return list(kept.values())


def _refuse_different(one: OneRun, other: OneRun) -> None:
    for first, second in zip(one.rows, other.rows, strict=False):
        if not _same(first, second):
            raise ConfigError(
                f"{one.path} and {other.path} are both seed {one.seed} of {one.config['method']} in one setting, but "
                f"differ from round {first['round'] + 1} on; name one of them"
            )


def _same(one: Row, other: Row) -> bool:
    """Say whether two rows hold the same results; columns that only one of them has are not compared."""
    return all(_equal(one[name], other[name]) for name in one if name in other and name not in MEASURED)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_equal(one[name], other[name]) for name in one if name in other)
    return bool(one == other) or (one != one and other != other)
