"""The table of a comparison: for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatfed.reports.results import ACCURACIES, Result

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("method", "final", "last-{n} mean", "best", "down", "up", "backprops", "seconds", "status")


def cells(result: Result) -> list[str]:
    """Return one method's line of the table."""
    accuracies = [percent(result.spread(name)) for name in ACCURACIES]
    cost = [megabytes(result.mean("bytes_down")), megabytes(result.mean("bytes_up"))]
    work = [f"{result.mean('backprops'):,.0f}", f"{result.mean('seconds'):.1f}"]
    return [result.method, *accuracies, *cost, *work, result.status]


def headings(results: Sequence[Result]) -> list[str]:
    """Return the column heads, with the number of rounds behind the last-n mean."""
    counts = {run.summary["last_count"] for result in results for run in result.good}
    return [heading.format(n=max(counts, default=0)) for heading in HEADINGS]


def caption(results: Sequence[Result]) -> str:
    """Say what the figures are."""
    seeds = sorted({run.seed for result in results for run in result.runs})
    spread = "mean ± sample standard deviation over" if len(seeds) > 1 else "seed"
    which = f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else str(seeds[0]) if seeds else ""
    return f"test accuracy in %, {spread} {which}; traffic, backprops and seconds are means per run".replace("  ", " ")


def terminal_table(results: Sequence[Result]) -> Table:
    """Return the table for the terminal."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, caption=caption(results), caption_justify="left")
    for index, heading in enumerate(headings(results)):
        left = index in (0, len(HEADINGS) - 1)
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for result in results:
        table.add_row(*cells(result))
    return table


def markdown(results: Sequence[Result]) -> str:
    """Return the table as Markdown."""
    heads = headings(results)
    rule = [":--" if i in (0, len(heads) - 1) else "--:" for i in range(len(heads))]
    lines = [heads, rule, *(cells(result) for result in results)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{caption(results)}.\n"


def records(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one flat record per run: what the CSV and JSON files hold."""
    return [
        {"method": result.method, "seed": run.seed, **run.summary, "path": str(run.path)}
        for result in results
        for run in result.runs
    ]


def as_csv(results: Sequence[Result]) -> str:
    """Return the records as CSV."""
    rows = records(results)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def aggregates(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one record per method: mean and standard deviation of the accuracies, mean costs, status."""
    found = []
    for result in results:
        record: dict[str, Any] = {"method": result.method, "seeds": [run.seed for run in result.runs]}
        for name in ACCURACIES:
            mean, std = result.spread(name) or (None, None)
            record |= {name: mean, f"{name}_std": std}
        record |= {name: result.mean(name) for name in ("bytes_down", "bytes_up", "backprops", "seconds")}
        found.append(record | {"status": result.status})
    return found


def percent(spread: tuple[float, float | None] | None) -> str:
    """Return mean ± deviation in per cent, or a dash."""
    if spread is None:
        return "–"
    mean, std = spread
    return f"{100 * mean:.2f}" + (f" ± {100 * std:.2f}" if std is not None else "")


def megabytes(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} B"
