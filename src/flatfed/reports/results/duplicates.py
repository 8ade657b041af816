"""Runs of one method, setting and seed: they are no replicates, and count once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        if run.seed not in kept:
            kept[run.seed] = run
            continue
        other = kept[run.seed]
        _check_agreement(other, run)
        kept[run.seed], dropped = _longer_first(other, run)
        say(_repeats(dropped, kept[run.seed]))
    return list(kept.values())


def _longer_first(earlier: OneRun, later: OneRun) -> tuple[OneRun, OneRun]:
    """Return two runs, the one with more rounds first; of equal ones the earlier."""
    if len(later.rows) > len(earlier.rows):
        return later, earlier
    return earlier, later


def _repeats(dropped: OneRun, kept: OneRun) -> str:
    """Say which run is left out, and how far it repeats the one that is kept."""
    so_far = ""
    if len(dropped.rows) < len(kept.rows):
        so_far = f" as far as it has come ({len(dropped.rows)} rounds)"
    return f"{dropped.path} repeats {kept.path} (seed {kept.seed}){so_far}; it is counted once"


def _check_agreement(first: OneRun, second: OneRun) -> None:
    """Raise a `ConfigError` where two runs of a seed differ in a round that both have."""
    # One of the two may still be under way.
    for row, other in zip(first.rows, second.rows, strict=False):
        if not _same(row, other):
            raise ConfigError(
                f"{first.path} and {second.path} are both seed {first.seed} of {first.config['method']} in one "
                f"setting, but differ from round {row['round'] + 1} on; name one of them"
            )


def _same(row: Row, other: Row) -> bool:
    """Say whether two rows hold the same results; columns that only one of them has are not compared."""
    return _equal_in((row.keys() & other.keys()).difference(MEASURED), row, other)


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, dict) and isinstance(other, dict):
        return _equal_in(value.keys() & other.keys(), value, other)
    return bool(value == other) or _both_nan(value, other)


def _equal_in(names: Iterable[str], first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return all(_equal(first[name], second[name]) for name in names)


def _both_nan(value: Any, other: Any) -> bool:
    # Only NaN differs from itself; a history may hold values of any type.
    return bool(value != value and other != other)
