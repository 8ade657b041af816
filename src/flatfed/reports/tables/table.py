"""The table of a comparison: for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatfed.reports.results.result import ACCURACIES, OneRun, Result, all_runs
from flatfed.reports.results.results import short
from flatfed.reports.tables import target_tables
from flatfed.reports.tables.columns import (
    PLAIN,
    Baseline,
    columns,
    has_client_seconds,
    measured,
    primary,
    spread_at,
    value_at,
)
from flatfed.reports.tables.extras import Extras
from flatfed.reports.tables.grid import (
    Column,
    Spread,
    chosen_columns,
    columns_of,
    csv_text,
    fitted,
    heads_of,
    known,
    markdown_lines,
    one_line,
    texts_of,
)
from flatfed.reports.tables.targets import Reaching

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Record = dict[str, Any]
COSTS = "traffic, backprops and seconds"
COST_NAMES = ("bytes_down", "bytes_up", "backprops", "seconds")
KINDS = ("final", "last_mean", "best")


def cells(result: Result, chosen: Sequence[Column[Result]] | None = None) -> list[str]:
    """Return one method's line of a table with these columns, by default of its own."""
    if chosen is None:
        return texts_of(result, columns([result]))
    return texts_of(result, chosen)


def headings(results: Sequence[Result], extras: Extras = PLAIN) -> list[str]:
    """Return the column heads, with the number of rounds behind the last-n mean where it is the same for all."""
    return heads_of(columns(results, extras))


def caption(results: Sequence[Result], extras: Extras = PLAIN) -> str:
    """Say what the numbers are."""
    title = primary(results).title
    return (
        f"{title}, {_seeds_caption(results)}"
        f"{_client_caption(results)}{_flatness_caption(results)}{_extras_caption(extras)}"
    )


def _seeds_caption(results: Sequence[Result]) -> str:
    """Say over which seeds means are taken, and with that what the costs are."""
    seeds = {_seeds(result) for result in results}
    several = {own for own in seeds if len(own) > 1}
    if not several:
        return f"{_single_seeds(seeds)}; {COSTS} are totals"
    return f"mean ± sample standard deviation over {_several_seeds(several)}; {COSTS} are means per run"


def _seeds(result: Result) -> tuple[int, ...]:
    return tuple(run.seed for run in result.runs)


def _single_seeds(seeds: set[tuple[int, ...]]) -> str:
    if len(seeds) > 1:
        return "one seed each"
    ((seed,),) = seeds
    return f"seed {seed}"


def _several_seeds(several: set[tuple[int, ...]]) -> str:
    if len(several) > 1:
        return "each method's seeds"
    (seeds,) = several
    return f"seeds {', '.join(map(str, seeds))}"


def _client_caption(results: Sequence[Result]) -> str:
    if not has_client_seconds(results):
        return ""
    return "; s/client is the mean time of a client per round"


def _flatness_caption(results: Sequence[Result]) -> str:
    """Say over which examples flatness was measured."""
    if not measured(results):
        return ""
    samples = set(known(run.summary.get("flatness_over") for run in all_runs(results)))
    if len(samples) == 1:
        return f"; λ and LPF over {samples.pop()}"
    return "; λ and LPF over different samples, which cannot be compared"


def _extras_caption(extras: Extras) -> str:
    text = ""
    if extras.at:
        text += "; at n: after n rounds"
    if extras.baseline:
        text += f"; improvement over {extras.baseline} by the last-n mean"
    return text


def terminal_tables(
    results: Sequence[Result], width: int, extras: Extras = PLAIN, wide: bool = True
) -> list[Table | Text]:
    """Return the tables for a terminal: one with the columns that fit; then targets.

    With `wide` no column is left out: what does not fit stands in further tables below.
    """
    every = columns(results, extras)
    main = fitted(results, every if wide else chosen_columns(results, every, width), width)
    if not extras.targets:
        return [*main]
    return [*main, *target_tables.terminal_tables(results, extras, width)]


def left_out(results: Sequence[Result], width: int, extras: Extras = PLAIN) -> list[str]:
    """Return the heads of the columns that a terminal of this width has no room for."""
    every = columns(results, extras)
    chosen = chosen_columns(results, every, width)
    return one_line([column.head for column in every if column not in chosen])


def notes(results: Sequence[Result], extras: Extras = PLAIN) -> list[str]:
    """Return a line for each result with the options in which they differ, and for rounds that were not evaluated."""
    lines = _differences(results)
    for round in extras.at:
        lines += _missing_evaluation(results, round)
    return lines


def _missing_evaluation(results: Sequence[Result], round: int) -> list[str]:
    missing = [result.method for result in results if spread_at(result, round) is None]
    if not missing:
        return []
    if len(missing) == len(results):
        return [f"at {round}: there is no evaluation after that round"]
    return [f"at {round}: there is no evaluation of {', '.join(missing)} after that round"]


def _differences(results: Sequence[Result]) -> list[str]:
    """Return the options in which results differ, unless their labels say it all."""
    if all(result.label_says_all for result in results):
        return []
    counts = _short_names(results)
    return [f"{result.method}: {_options(result, counts)}" for result in results]


def _short_names(results: Sequence[Result]) -> Counter[str]:
    """Return of how many options each short name is."""
    names = {name for result in results for name in result.differs}
    return Counter(map(short, names))


def _options(result: Result, counts: Counter[str]) -> str:
    """Return the options of a result; one whose short name is also another's stands with its full name."""
    texts = []
    for name, value in result.differs.items():
        is_clear = counts[short(name)] == 1
        shown = short(name) if is_clear else name
        texts.append(f"{shown}={value}")
    return ", ".join(texts)


def markdown(results: Sequence[Result], extras: Extras = PLAIN) -> str:
    """Return the tables as Markdown."""
    text = f"{markdown_lines(results, columns(results, extras))}\n\n{caption(results, extras)}.\n"
    lines = notes(results, extras)
    if lines:
        text += "".join(f"\n- {line}" for line in lines) + "\n"
    if extras.targets:
        text += target_tables.markdown(results, extras)
    return text


def records(results: Sequence[Result], extras: Extras = PLAIN) -> list[Record]:
    """Return one flat record per run: what the CSV and JSON files hold."""
    base = Baseline.of(results, extras)
    targets: list[Reaching] = []
    if extras.targets:
        targets = Reaching.all(results, extras)
    return [_run_record(result, run, extras, base, targets) for result in results for run in result.runs]


def _run_record(
    result: Result, run: OneRun, extras: Extras, base: Baseline | None, targets: Sequence[Reaching]
) -> Record:
    record: Record = {"method": result.method, "seed": run.seed, **run.summary}
    record |= {f"at_{round}": value_at(run, result.primary, round) for round in extras.at}
    if base is not None:
        record |= base.record(base.of_run(run))
    for reaching in targets:
        record |= reaching.record(run)
    return record | {"path": str(run.path)}


def as_csv(results: Sequence[Result], extras: Extras = PLAIN) -> str:
    """Return the records as CSV."""
    rows = records(results, extras)
    # Without runs there is still a header.
    return csv_text(columns_of(rows) or ["method"], rows)


def aggregates(results: Sequence[Result], extras: Extras = PLAIN) -> list[Record]:
    """Return one record per method: metrics with their deviations, mean costs, status, and how it differs."""
    base = Baseline.of(results, extras)
    flatness = measured(results)  # what one method has, all records have
    return [_method_record(result, flatness, extras, base) for result in results]


def _method_record(result: Result, flatness: Sequence[str], extras: Extras, base: Baseline | None) -> Record:
    record: Record = {"method": result.method, "seeds": list(_seeds(result))}
    record |= {"metric": result.primary.column, **result.primary.shown.to_dict()}
    record |= _metrics_record(result, flatness, extras)
    if base is not None:
        record |= {"baseline": base.name, **base.record(base.of_result(result))}
    record |= {name: result.mean(name) for name in COST_NAMES}
    return record | {"status": result.status, "differs": result.differs}


def _metrics_record(result: Result, flatness: Sequence[str], extras: Extras) -> Record:
    """Return the metrics of a method over its seeds, and those after the rounds that were asked for."""
    record: Record = {}
    # The accuracies are always there, None where they were not measured: a reader need not ask first.
    for name in dict.fromkeys((*ACCURACIES, *_summarised(result), *flatness)):
        record |= _with_deviation(name, result.spread(name))
    for round in extras.at:
        record |= _with_deviation(f"at_{round}", spread_at(result, round))
    return record


def _summarised(result: Result) -> list[str]:
    """Return the names of all metrics that some run's summary has."""
    summarised = {name for run in result.runs for name in run.summary}
    names = [f"{metric.stem}_{kind}" for metric in result.metrics for kind in KINDS]
    return [name for name in names if name in summarised]


def _with_deviation(name: str, spread: Spread | None) -> Record:
    mean, deviation = spread or (None, None)
    return {name: mean, f"{name}_std": deviation}


def as_json(results: Sequence[Result], extras: Extras = PLAIN) -> Record:
    """Return everything for machines: methods, runs and, where some were asked for, targets."""
    document: Record = {"methods": aggregates(results, extras), "runs": records(results, extras)}
    if extras.targets:
        document["targets"] = target_tables.aggregates(results, extras)
    return document
