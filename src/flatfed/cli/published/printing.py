"""Tables of published values, hyper-parameters and papers, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.cli.output.results import print_notes, print_tables, table_width
from flatfed.cli.output.streams import echo
from flatfed.published.lookup import tables
from flatfed.published.method_names import name_of
from flatfed.published.numbers import PublishedPaper, PublishedParameter, PublishedValue, papers, parameters, values
from flatfed.published.wording import UNCERTAIN, metric_text, setting_text, value_text

NO_VALUE = "no published value for this choice"
NO_PARAMETER = "no published hyper-parameter for this choice"

Cells = tuple[str, ...]


def print_values(chosen: Sequence[PublishedValue]) -> None:
    """Print values with their settings; the reasons of uncertain ones stand below."""
    if not chosen:
        echo(NO_VALUE)
        return
    _print(("paper", "table", "setting", "method", "metric", "value"), [_value_cells(value) for value in chosen])
    reasons = dict.fromkeys(value.reason for value in chosen if not value.is_certain)
    print_notes(f"{UNCERTAIN} {reason}" for reason in reasons)


def _value_cells(value: PublishedValue) -> Cells:
    place = (value.paper, value.table, setting_text(value))
    return (*place, name_of(value), metric_text(value), value_text(value))


def print_parameters(chosen: Sequence[PublishedParameter]) -> None:
    """Print hyper-parameters with what was searched and chosen."""
    if not chosen:
        echo(NO_PARAMETER)
        return
    heads = ("paper", "data", "model", "method", "parameter", "searched", "chosen", "where")
    _print(heads, [_parameter_cells(entry) for entry in chosen])


def _parameter_cells(entry: PublishedParameter) -> Cells:
    place = (entry.paper, entry.dataset, entry.model, entry.algorithm, entry.parameter)
    return (*place, entry.search_grid, entry.chosen or "not known", entry.chosen_source)


def print_papers() -> None:
    """Print what there is of each paper, and how to look further."""
    heads = ("paper", "values", "uncertain", "parameters", "tables")
    _print(heads, [_paper_cells(paper) for paper in papers()])
    print_notes(f"{paper.id}: {paper.reference}{_read_from(paper)}" for paper in papers().values())
    echo("Choose with --paper, --table, --method, --dataset, --partition and --metric.")


def _paper_cells(paper: str) -> Cells:
    own = [value for value in values() if value.paper == paper]
    uncertain = sum(not value.is_certain for value in own)
    searched = sum(entry.paper == paper for entry in parameters())
    return (paper, str(len(own)), str(uncertain), str(searched), ", ".join(tables(own)))


def _read_from(paper: PublishedPaper) -> str:
    """Say what the numbers were read from, where that is not the whole paper."""
    if paper.read_from == "paper":
        return ""
    return f"; read from the {paper.read_from}"


def _print(heads: Cells, rows: Sequence[Cells]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for head in heads:
        made.add_column(head, overflow="fold")
    for row in rows:
        # As texts, in which rich looks for no markup.
        made.add_row(*map(Text, row))
    print_tables([made], table_width())
