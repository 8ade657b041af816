"""Thinned histories: the evaluated rounds, exact, with what the rounds between them cost added up.

The totals of bytes, backprops and seconds are as before, and so is what was spent up to each evaluated round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatfed.runs.history import Row
from flatfed.runs.packed import ROUNDS

SUMMED = ("bytes_down", "bytes_up", "backprops", "seconds")
AVERAGED = "client_seconds"
ORDINARY = frozenset(
    {
        *("round", "clients", "lr", "train_loss", "update_norm", "model_norm", *SUMMED, AVERAGED),
        *("watch", "attempts", "rejected", "clients_watch", "sites"),
    }
)
"""What a row has in every round; the rest was evaluated, or measured by a monitor, now and then."""
LEFT_OUT = frozenset({"update_norm", "model_norm", AVERAGED, "watch", "clients_watch", "sites"})
"""What runs that choose parameters do without: nothing of it is reported."""


def thinned(rows: Sequence[Row], short: bool = False) -> list[Row]:
    """Return the rows that are kept; `short` leaves out what is not reported of runs that choose.

    A round in which an update was rejected stands alone, and so do those that differ in their number of clients from
    the ones before: sums would not say it.
    """
    kept = [_summed(group) for group in _groups(rows)]
    if short:
        kept = [{name: value for name, value in row.items() if name not in LEFT_OUT} for row in kept]
    return [_without_lists(row) for row in kept[:-1]] + kept[-1:]


def _without_lists(row: Row) -> Row:
    """Return a row without lists such as the accuracy of each class, which the last row alone has."""
    return {name: value for name, value in row.items() if name in ORDINARY or not isinstance(value, list)}


def _is_troubled(row: Row) -> bool:
    """Say whether an update was rejected, or the round tried again."""
    return bool(row.get("rejected")) or row.get("attempts", 1) > 1


def _goes_with(row: Row, group: Sequence[Row]) -> bool:
    """Say whether a round may be one row with those before it."""
    if _is_troubled(row) or _is_troubled(group[-1]):
        return False
    return len(row.get("clients", ())) == len(group[-1].get("clients", ()))


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield rounds that become one row: each ends with an evaluated one, with the last, or before one that differs."""
    group: list[Row] = []
    for row in rows:
        if group and not _goes_with(row, group):
            yield group
            group = []
        group.append(row)
        if not row.keys() <= ORDINARY:
            yield group
            group = []
    if group:
        yield group


def _summed(group: Sequence[Row]) -> Row:
    """Return the last row of a group with the costs of all."""
    row = dict(group[-1])
    if len(group) == 1:
        return row
    row |= {name: sum(one[name] for one in group) for name in SUMMED if name in row}
    times = [one[AVERAGED] for one in group if one.get(AVERAGED) is not None]
    if times:
        row[AVERAGED] = sum(times) / len(times)
    return row | {ROUNDS: len(group)}
