"""Tables of published values, hyper-parameters and papers, as wide as the terminal.

What is the same in every row stands once, above the table: there is little room for a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from flatfed.cli.output.results import print_notes, print_tables, table_width
from flatfed.cli.output.streams import echo
from flatfed.published.lookup import tables
from flatfed.published.method_names import name_of
from flatfed.published.numbers import PublishedPaper, PublishedParameter, PublishedValue, papers, parameters, values
from flatfed.published.wording import UNCERTAIN, metric_text, setting_parts, value_text

NO_VALUE = "no published value for this choice"
NO_PARAMETER = "no published hyper-parameter for this choice"

WHOLE_WORDS = (40, 32, 24, 20, 16, 12, 8)
"""Words up to such a length are not divided between lines: the first that lets a table fit."""

GAP = 3
"""Characters between two columns."""

Cells = dict[str, str]
Entry = TypeVar("Entry")


def print_values(chosen: Sequence[PublishedValue]) -> None:
    """Print values with their settings; the reasons of uncertain ones stand below."""
    if not chosen:
        echo(NO_VALUE)
        return
    for group in _grouped(chosen, _place):
        _print_entries(group, _value_cells, setting_parts, last=("value",))
    reasons = dict.fromkeys(value.reason for value in chosen if not value.is_certain)
    print_notes(f"{UNCERTAIN} {reason}" for reason in reasons)


def _place(value: PublishedValue) -> tuple[str, str]:
    return value.paper, value.table


def _value_cells(value: PublishedValue) -> Cells:
    return {
        "paper": value.paper,
        "table": value.table,
        "method": name_of(value),
        "metric": metric_text(value),
        "value": value_text(value),
    }


def print_parameters(chosen: Sequence[PublishedParameter]) -> None:
    """Print hyper-parameters with what was searched and chosen."""
    if not chosen:
        echo(NO_PARAMETER)
        return
    for group in _grouped(chosen, _paper):
        _print_entries(group, _parameter_cells, _parameter_setting, last=("searched", "chosen", "where"))


def _paper(entry: PublishedParameter) -> str:
    return entry.paper


def _parameter_cells(entry: PublishedParameter) -> Cells:
    return {
        "paper": entry.paper,
        "method": entry.algorithm,
        "parameter": entry.parameter,
        "searched": entry.search_grid,
        "chosen": entry.chosen or "not known",
        "where": entry.chosen_source,
    }


def _parameter_setting(entry: PublishedParameter) -> list[str]:
    return [part for part in (entry.dataset, entry.model) if part]


def _grouped(entries: Sequence[Entry], key_of: Callable[[Entry], Hashable]) -> Iterable[list[Entry]]:
    """Return the entries that belong together, in the order in which their groups first appear."""
    groups: dict[Hashable, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key_of(entry), []).append(entry)
    return groups.values()


def _print_entries(
    entries: Sequence[Entry],
    cells_of: Callable[[Entry], Cells],
    setting_of: Callable[[Entry], list[str]],
    last: tuple[str, ...],
) -> None:
    """Print a row for every entry; what all have in common stands above, but for the columns that come last."""
    rows = [cells_of(entry) for entry in entries]
    settings = [setting_of(entry) for entry in entries]
    common = _common(rows, last)
    shared = [part for part in settings[0] if all(part in setting for setting in settings)]
    print_notes([", ".join([*common.values(), *shared])])
    for row, setting in zip(rows, settings, strict=True):
        row["setting"] = ", ".join(part for part in setting if part not in shared)
    names = ["setting", *(name for name in rows[0] if name not in common and name != "setting")]
    print_cells([name for name in names if _says_something(name, rows)], rows)


def _common(rows: Sequence[Cells], last: tuple[str, ...]) -> Cells:
    """Return the cells that are the same in every row; those of the columns that come last stay in the table."""
    first = rows[0]
    return {name: text for name, text in first.items() if name not in last and all(row[name] == text for row in rows)}


def _says_something(name: str, rows: Sequence[Cells]) -> bool:
    return any(row[name] for row in rows)


def print_papers() -> None:
    """Print what there is of each paper, and how to look further."""
    rows = [_paper_cells(paper) for paper in papers()]
    print_cells(list(rows[0]), rows)
    print_notes(f"{paper.id}: {paper.reference}{_read_from(paper)}" for paper in papers().values())
    echo("Choose with --paper, --table, --method, --dataset, --partition and --metric.")


def _paper_cells(paper: str) -> Cells:
    own = [value for value in values() if value.paper == paper]
    uncertain = sum(not value.is_certain for value in own)
    searched = sum(entry.paper == paper for entry in parameters())
    return {
        "paper": paper,
        "values": str(len(own)),
        "uncertain": str(uncertain),
        "parameters": str(searched),
        "tables": ", ".join(tables(own)),
    }


def _read_from(paper: PublishedPaper) -> str:
    """Say what the numbers were read from, where that is not the whole paper."""
    if paper.read_from == "paper":
        return ""
    return f"; read from the {paper.read_from}"


def print_cells(names: Sequence[str], rows: Sequence[Cells]) -> None:
    """Print rows below the names of their columns, with as few words divided as there is room for."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    width = table_width()
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name, least in _least_widths(names, rows, width).items():
        made.add_column(name, overflow="fold", min_width=least)
    for row in rows:
        # As texts, in which rich looks for no markup.
        made.add_row(*(Text(row[name]) for name in names))
    print_tables([made], width)


def _least_widths(names: Sequence[str], rows: Sequence[Cells], width: int) -> dict[str, int]:
    """Return the least width of every column, so that as few words are divided as there is room for."""
    longest = {name: _longest_word([name, *(row[name] for row in rows)]) for name in names}
    for whole in WHOLE_WORDS:
        least = {name: min(length, whole) for name, length in longest.items()}
        if sum(least.values()) + GAP * (len(least) + 1) <= width:
            return least
    return dict.fromkeys(names, 1)


def _longest_word(texts: Sequence[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)
