"""The table of a comparison: for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.results import ACCURACIES, Result, short
from flatfed.reports.tables import targets
from flatfed.reports.tables.columns import (
    PLAIN,
    columns,
    has_client_seconds,
    measured,
    primary,
    spread_at,
    value_at,
)
from flatfed.reports.tables.extras import Extras
from flatfed.reports.tables.grid import Column, fitted, markdown_lines, table
from flatfed.reports.tables.improvement import Baseline

if TYPE_CHECKING:
    from rich.table import Table

COSTS = "traffic, backprops and seconds"
KINDS = ("final", "last_mean", "best")


def cells(result: Result, chosen: Sequence[Column[Result]] | None = None) -> list[str]:
    """Return one method's line of a table with these columns, by default of its own."""
    return [column.text(result) for column in (columns([result]) if chosen is None else chosen)]


def headings(results: Sequence[Result], extras: Extras = PLAIN) -> list[str]:
    """Return the column heads, with the number of rounds behind the last-n mean where it is the same for all."""
    return [column.head for column in columns(results, extras)]


def caption(results: Sequence[Result], extras: Extras = PLAIN) -> str:
    """Say what the numbers are."""
    seeds, title = [tuple(run.seed for run in result.runs) for result in results], primary(results).title
    several = {own for own in seeds if len(own) > 1}
    if several:
        listed = f"seeds {', '.join(map(str, min(several)))}" if len(several) == 1 else "each method's seeds"
        told = f"{title}, mean ± sample standard deviation over {listed}; {COSTS} are means per run"
    else:
        one = f"seed {seeds[0][0]}" if len(set(seeds)) == 1 else "one seed each"
        told = f"{title}, {one}; {COSTS} are totals"
    return told + _cost_caption(results) + _flatness_caption(results) + _extras_caption(extras)


def _cost_caption(results: Sequence[Result]) -> str:
    return "; s/client is the mean time of a client per round" if has_client_seconds(results) else ""


def _flatness_caption(results: Sequence[Result]) -> str:
    """Say over which examples flatness was measured."""
    if not measured(results):
        return ""
    over = {run.summary["flatness_over"] for result in results for run in result.runs if "flatness_over" in run.summary}
    return f"; λ and LPF over {over.pop() if len(over) == 1 else 'differing samples, not to be compared'}"


def _extras_caption(extras: Extras) -> str:
    at = "; at n: after n rounds" if extras.at else ""
    return at + (f"; improvement over {extras.baseline} by the last-n mean" if extras.baseline else "")


def terminal_table(results: Sequence[Result], extras: Extras = PLAIN) -> Table:
    """Return the whole table for a wide terminal."""
    return table(results, columns(results, extras), caption(results, extras))


def terminal_tables(results: Sequence[Result], width: int, extras: Extras = PLAIN) -> list[Table]:
    """Return the tables for a terminal: in one where it fits, else metrics and cost below each other; then targets."""
    main = fitted(results, columns(results, extras), caption(results, extras), width)
    return main + targets.terminal_tables(results, extras, width)


def notes(results: Sequence[Result], extras: Extras = PLAIN) -> list[str]:
    """Return a line for each result with the options in which they differ, and for rounds that were not evaluated."""
    lines = _differences(results)
    for round in extras.at:
        missing = [result.method for result in results if spread_at(result, round) is None]
        whose = "" if len(missing) == len(results) else f" of {', '.join(missing)}"
        lines += [f"at {round}: there is no evaluation{whose} after that round"] if missing else []
    return lines


def _differences(results: Sequence[Result]) -> list[str]:
    """Return the options in which results differ, unless their labels say it all."""
    if all(result.told for result in results):
        return []
    names = {name for result in results for name in result.differs}
    shown = Counter(map(short, names))
    lines = []
    for result in results:
        values = ((short(n) if shown[short(n)] == 1 else n, value) for n, value in result.differs.items())
        lines.append(f"{result.method}: " + ", ".join(f"{name}={value}" for name, value in values))
    return lines


def markdown(results: Sequence[Result], extras: Extras = PLAIN) -> str:
    """Return the tables as Markdown."""
    below = "".join(f"\n- {note}" for note in notes(results, extras))
    text = f"{markdown_lines(results, columns(results, extras))}\n\n{caption(results, extras)}.\n"
    return (f"{text}{below}\n" if below else text) + targets.markdown(results, extras)


def records(results: Sequence[Result], extras: Extras = PLAIN) -> list[dict[str, Any]]:
    """Return one flat record per run: what the CSV and JSON files hold."""
    base, reached = Baseline.of(results, extras), targets.Reaching.all(results, extras)
    return [
        {"method": result.method, "seed": run.seed, **run.summary}
        | _on_demand(result, run, extras, base)
        | {name: value for one in reached for name, value in one.record(run).items()}
        | {"path": str(run.path)}
        for result in results
        for run in result.runs
    ]


def _on_demand(result: Result, run: OneRun, extras: Extras, base: Baseline | None) -> dict[str, Any]:
    at: dict[str, Any] = {f"at_{round}": value_at(run, result.primary, round) for round in extras.at}
    if base is None:
        return at
    better = base.of_run(run)
    return at | {"improvement": better, "improvement_relative": base.relative(better)}


def as_csv(results: Sequence[Result], extras: Extras = PLAIN) -> str:
    """Return the records as CSV."""
    rows = records(results, extras)
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["method"]
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def aggregates(results: Sequence[Result], extras: Extras = PLAIN) -> list[dict[str, Any]]:
    """Return one record per method: metrics with their deviations, mean costs, status, and how it differs."""
    base, found = Baseline.of(results, extras), []
    for result in results:
        record: dict[str, Any] = {"method": result.method, "seeds": [run.seed for run in result.runs]}
        record |= {"metric": result.primary.column, **result.primary.shown.to_dict()}
        every = [f"{metric.stem}_{kind}" for metric in result.metrics for kind in KINDS]
        summarised = [name for name in every if any(name in run.summary for run in result.runs)]
        for name in dict.fromkeys((*ACCURACIES, *summarised, *measured(results))):
            mean, std = result.spread(name) or (None, None)
            record |= {name: mean, f"{name}_std": std}
        for round in extras.at:
            mean, std = spread_at(result, round) or (None, None)
            record |= {f"at_{round}": mean, f"at_{round}_std": std}
        if base is not None:
            better = base.of_result(result)
            record |= {"baseline": base.name, "improvement": better, "improvement_relative": base.relative(better)}
        record |= {name: result.mean(name) for name in ("bytes_down", "bytes_up", "backprops", "seconds")}
        found.append(record | {"status": result.status, "differs": result.differs})
    return found


def as_json(results: Sequence[Result], extras: Extras = PLAIN) -> dict[str, Any]:
    """Return everything for machines: methods, runs and, where some were asked for, targets."""
    told = {"methods": aggregates(results, extras), "runs": records(results, extras)}
    return told | ({"targets": targets.aggregates(results, extras)} if extras.targets else {})
