"""Rows that users have: lists of dicts, dicts of lists, or tables of the library `datasets`; all become columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flatfed.core.errors import ConfigError

Columns = dict[str, Any]
"""Entries of all rows by the name of their column: lists, or tensors."""


def columns_of(source: Any, label: str) -> Columns:
    """Return the columns of a table; `label` says whose it is."""
    if isinstance(source, Mapping):
        columns = dict(source)
    elif hasattr(source, "column_names"):
        columns = {name: _listed(source[name]) for name in source.column_names}
    elif isinstance(source, Sequence) and not isinstance(source, str | bytes):
        columns = _of_rows(source, label)
    else:
        raise ConfigError(f"{label} must be a list of dicts, a dict of lists or a table, not {type(source).__name__}")
    _check_counts(columns, label)
    return columns


def _listed(column: Any) -> Any:
    """Return a column of a table; those of newer versions are read when they are looked at."""
    return column if hasattr(column, "shape") else list(column)


def _of_rows(rows: Sequence[Any], label: str) -> Columns:
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"{label} must be a list of dicts, each with the entries of one example")
    try:
        return {name: [row[name] for row in rows] for name in rows[0]}
    except KeyError as error:
        raise ConfigError(f"{label}: some examples have {error} and others do not") from None


def _check_counts(columns: Columns, label: str) -> None:
    counts = {name: len(entries) for name, entries in columns.items()}
    if len(set(counts.values())) > 1:
        raise ConfigError(f"{label}: columns differ in length: {counts}")


def rows_of(columns: Columns, indices: Sequence[int]) -> Columns:
    """Return some of the rows."""
    return {name: [entries[int(i)] for i in indices] for name, entries in columns.items()}


def count_of(columns: Columns) -> int:
    """Return how many rows there are."""
    return len(next(iter(columns.values()), ()))
