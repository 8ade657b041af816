"""The table of a comparison: for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatfed.reports.results import ACCURACIES, Result, short

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("method", "final", "{last}", "best")
COST_HEADINGS = ("down", "up", "backprops", "seconds")
FLATNESS = {"lambda_max": "λmax", "lambda_ratio": "λmax/λ5", "lpf": "LPF"}
NOTHING = "–"
COSTS = "traffic, backprops and seconds"


def cells(result: Result, flatness: Sequence[str] = ()) -> list[str]:
    """Return one method's line of the table, with these measures of flatness."""
    accuracies = [percent(result.spread(name)) for name in ACCURACIES]
    loss = result.spread("test_loss_final")
    if accuracies[0] == NOTHING and loss is not None:  # a regression
        accuracies[0] = f"loss {loss[0]:.4g}" + (f" ± {loss[1]:.2g}" if loss[1] is not None else "")
    cost = [megabytes(result.mean("bytes_down")), megabytes(result.mean("bytes_up"))]
    work = [f"{result.mean('backprops'):,.0f}", f"{result.mean('seconds'):.1f}"]
    return [
        result.method,
        *accuracies,
        *(number(result.spread(name)) for name in flatness),
        *cost,
        *work,
        result.status,
    ]


def measured(results: Sequence[Result]) -> list[str]:
    """Return the measures of flatness that some run has."""
    runs = [run for result in results for run in result.runs]
    return [name for name in FLATNESS if any(run.summary.get(name) is not None for run in runs)]


def headings(results: Sequence[Result]) -> list[str]:
    """Return the column heads, with the number of rounds behind the last-n mean where it is the same for all."""
    counts = {run.summary["last_count"] for result in results for run in result.good} - {0}
    last = f"last-{counts.pop()} mean" if len(counts) == 1 else "last mean"
    accuracies = [heading.format(last=last) for heading in HEADINGS]
    return [*accuracies, *(FLATNESS[name] for name in measured(results)), *COST_HEADINGS, "status"]


def caption(results: Sequence[Result]) -> str:
    """Say what the figures are."""
    seeds = [tuple(run.seed for run in result.runs) for result in results]
    several = {own for own in seeds if len(own) > 1}
    if several:
        listed = f"seeds {', '.join(map(str, min(several)))}" if len(several) == 1 else "each method's seeds"
        told = f"test accuracy in %, mean ± sample standard deviation over {listed}; {COSTS} are means per run"
    else:
        one = f"seed {seeds[0][0]}" if len(set(seeds)) == 1 else "one seed each"
        told = f"test accuracy in %, {one}; {COSTS} are totals"
    return told + _flatness_caption(results)


def _flatness_caption(results: Sequence[Result]) -> str:
    """Say over which examples flatness was measured."""
    if not measured(results):
        return ""
    over = {run.summary["flatness_over"] for result in results for run in result.runs if "flatness_over" in run.summary}
    return f"; λ and LPF over {over.pop() if len(over) == 1 else 'differing samples, not to be compared'}"


def terminal_table(results: Sequence[Result]) -> Table:
    """Return the whole table for a wide terminal."""
    return _table(results, range(len(headings(results))), caption(results))


def terminal_tables(results: Sequence[Result], width: int) -> list[Table]:
    """Return the table for a terminal: in one where it fits, else accuracy and cost one below the other."""
    from rich.console import Console

    whole = terminal_table(results)
    if Console(width=1000).measure(whole).maximum <= width:
        return [whole]
    last = len(headings(results)) - 1
    costs = range(last - len(COST_HEADINGS), last)
    figures = _table(results, [*range(costs.start), last], "")
    parts = [figures]
    if Console(width=1000).measure(figures).maximum > width and measured(results):
        flat = range(len(HEADINGS), costs.start)
        parts = [_table(results, [*range(len(HEADINGS)), last], ""), _table(results, [0, *flat], "")]
    return [*parts, _table(results, [0, *costs], caption(results))]


def _table(results: Sequence[Result], columns: Sequence[int], text: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, caption=text or None, caption_justify="left", padding=(0, 1))
    heads, flatness = headings(results), measured(results)
    for index in columns:
        # Where it is narrow, labels and states are wrapped; numbers are not.
        words = index in (0, len(heads) - 1)
        table.add_column(heads[index], justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for result in results:
        line = cells(result, flatness)
        table.add_row(*(line[index] for index in columns))
    return table


def notes(results: Sequence[Result]) -> list[str]:
    """Return a line for each result with the options in which they differ, unless their labels say it all."""
    if all(result.told for result in results):
        return []
    names = {name for result in results for name in result.differs}
    shown = Counter(map(short, names))
    lines = []
    for result in results:
        values = ((short(n) if shown[short(n)] == 1 else n, value) for n, value in result.differs.items())
        lines.append(f"{result.method}: " + ", ".join(f"{name}={value}" for name, value in values))
    return lines


def markdown(results: Sequence[Result]) -> str:
    """Return the table as Markdown."""
    heads, flatness = headings(results), measured(results)
    rule = [":--" if i in (0, len(heads) - 1) else "--:" for i in range(len(heads))]
    lines = [heads, rule, *(cells(result, flatness) for result in results)]
    below = "".join(f"\n- {note}" for note in notes(results))
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{caption(results)}.\n"
    return f"{text}{below}\n" if below else text


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
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["method"]
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def aggregates(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one record per method: accuracies with their deviations, mean costs, status, and how it differs."""
    found = []
    for result in results:
        record: dict[str, Any] = {"method": result.method, "seeds": [run.seed for run in result.runs]}
        for name in (*ACCURACIES, *measured(results)):
            mean, std = result.spread(name) or (None, None)
            record |= {name: mean, f"{name}_std": std}
        record |= {name: result.mean(name) for name in ("bytes_down", "bytes_up", "backprops", "seconds")}
        found.append(record | {"status": result.status, "differs": result.differs})
    return found


def percent(spread: tuple[float, float | None] | None) -> str:
    """Return mean ± deviation in per cent, or a dash."""
    if spread is None:
        return NOTHING
    mean, std = spread
    return f"{100 * mean:.2f}" + (f" ± {100 * std:.2f}" if std is not None else "")


def number(spread: tuple[float, float | None] | None) -> str:
    """Return mean ± deviation of a plain number, or a dash."""
    if spread is None:
        return NOTHING
    mean, std = spread
    return f"{mean:.4g}" + (f" ± {std:.2g}" if std is not None else "")


def megabytes(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    value, unit = count, "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:,.1f} {unit}"
