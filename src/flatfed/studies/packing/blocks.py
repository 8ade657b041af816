"""Rows as blocks of columns: names once, and once what is the same in all rows; numbers stay as they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from flatfed.runs.history import Row

Block = dict[str, Any]
"""`columns`, `rows` of their values, and `same`: the columns that have one value in all rows."""


def blocks_of(rows: Iterable[Row]) -> list[Block]:
    """Return rows as blocks, a block for rows one after the other that have the same columns."""
    return [_block(list(group)) for _, group in itertools.groupby(rows, key=_columns)]


def _columns(row: Row) -> tuple[str, ...]:
    return tuple(row)


def _block(rows: Sequence[Row]) -> Block:
    # By their text: 1 and True are equal, and a number that is none equals nothing.
    same = {name: value for name, value in rows[0].items() if len({repr(row[name]) for row in rows}) == 1}
    varying = [name for name in rows[0] if name not in same]
    values = [[row[name] for name in varying] for row in rows]
    return {"order": list(rows[0]), "same": same, "columns": varying, "rows": values}


def rows_of(blocks: Sequence[Block]) -> list[Row]:
    """Return the rows of blocks, each with its columns in the order that they had."""
    return [row for block in blocks for row in _rows(block)]


def _rows(block: Block) -> list[Row]:
    rows = []
    for values in block["rows"]:
        row = {**block["same"], **dict(zip(block["columns"], values, strict=True))}
        rows.append({name: row[name] for name in block["order"]})
    return rows
