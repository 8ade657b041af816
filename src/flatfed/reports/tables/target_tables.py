"""The tables of the cost to reach targets: for the terminal, as Markdown, and as records for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flatfed.reports.results.result import Result
from flatfed.reports.tables.columns import method_of
from flatfed.reports.tables.extras import Extras
from flatfed.reports.tables.grid import ALWAYS, LAST, NOTHING, Column, Spread, fitted, markdown_lines, megabytes
from flatfed.reports.tables.targets import COST_NAMES, Reaching

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

HOW = (
    "round: the first evaluated one that is as good as the target, and totals up to it; means over the seeds that "
    "reached it. Transmissions: model-sized vectors that a client exchanges, (bytes down + up) / (clients × bytes of "
    "the model), added up over the rounds"
)


def terminal_tables(results: Sequence[Result], extras: Extras, width: int) -> list[Table | Text]:
    """Return the tables of all targets, each below its title; at the end how to read them."""
    from rich.text import Text

    blocks: list[Table | Text] = []
    for reaching in Reaching.all(results, extras):
        # Not as titles of tables, which are as narrow as these. As `Text`: brackets in a label are not markup.
        blocks.append(Text(f"\n{reaching.title}"))
        blocks += fitted(results, columns(reaching), width)
    if blocks:
        blocks.append(Text(textwrap.fill(HOW, width, subsequent_indent="  ", break_on_hyphens=False)))
    return blocks


def markdown(results: Sequence[Result], extras: Extras) -> str:
    """Return the tables of all targets as Markdown, or nothing."""
    every = Reaching.all(results, extras)
    if not every:
        return ""
    return "".join(_section(reaching) for reaching in every) + f"\n{_capital(HOW)}.\n"


def _section(reaching: Reaching) -> str:
    return f"\n## {_capital(reaching.title)}\n\n{markdown_lines(reaching.results, columns(reaching))}\n"


def aggregates(results: Sequence[Result], extras: Extras) -> list[dict[str, Any]]:
    """Return one record per target and method, with means and deviations over the runs that reached it."""
    return [_aggregate(reaching, result) for reaching in Reaching.all(results, extras) for result in results]


def _aggregate(reaching: Reaching, result: Result) -> dict[str, Any]:
    record: dict[str, Any] = {
        "target": reaching.target.text,
        "metric": reaching.metric.column,
        "value": reaching.value,
        "method": result.method,
        "reached": reaching.reached(result),
        "runs": len(result.runs),
    }
    for name in COST_NAMES:
        mean, deviation = reaching.spread(result, name) or (None, None)
        record |= {name: mean, f"{name}_std": deviation}
    return record | {"speed_up": reaching.speed_up(result), "speed_up_over": reaching.reference_name}


def columns(reaching: Reaching) -> list[Column[Result]]:
    """Return the columns of one target's table; how many seeds reached it only where there are several."""
    return [
        Column("method", method_of, ALWAYS, words=True),
        *_reached(reaching),
        Column("round", _round(reaching), "reach"),
        Column("speed-up", _speed_up(reaching), "reach"),
        Column("transmissions", _cost(reaching, "transmissions", _one_decimal), LAST),
        Column("bytes", _cost(reaching, "bytes", megabytes), LAST),
        Column("backprops", _cost(reaching, "backprops", _whole), LAST),
        Column("seconds", _cost(reaching, "seconds", _one_decimal), LAST),
    ]


def _reached(reaching: Reaching) -> list[Column[Result]]:
    """Return the column of how many runs reached the target, where a method has several."""
    if all(len(result.runs) == 1 for result in reaching.results):
        return []

    def text(result: Result) -> str:
        return f"{reaching.reached(result)} of {len(result.runs)}"

    return [Column("reached", text, "reach")]


def _round(reaching: Reaching) -> Callable[[Result], str]:
    """Return what writes the round: its mean, with the deviation where several seeds reached the target."""

    def text(result: Result) -> str:
        return round_text(reaching.spread(result, "round"))

    return text


def round_text(spread: Spread | None) -> str:
    """Return a number of rounds: its mean, with the deviation where there is one, or a dash."""
    if spread is None:
        return NOTHING
    mean, deviation = spread
    if deviation is None:
        return _whole(mean)
    return f"{mean:,.1f} ± {deviation:,.1f}"


def _speed_up(reaching: Reaching) -> Callable[[Result], str]:
    def text(result: Result) -> str:
        ratio = reaching.speed_up(result)
        if ratio is None:
            return NOTHING
        return f"{ratio:.2f}×"

    return text


def _cost(reaching: Reaching, name: str, write: Callable[[float], str]) -> Callable[[Result], str]:
    """Return what writes the mean of a cost."""

    def text(result: Result) -> str:
        spread = reaching.spread(result, name)
        if spread is None:
            return NOTHING
        return write(spread[0])

    return text


def _whole(mean: float) -> str:
    return f"{mean:,.0f}"


def _one_decimal(mean: float) -> str:
    return f"{mean:,.1f}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
