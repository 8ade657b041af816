"""`flatfed evaluate`: a finished run's model, class by class and client by client."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flatfed.cli.options.values import Whole
from flatfed.cli.output.progress import Steps

SHARES = ("accuracy", "iou")
"""How the names of figures end that are shares: people read them in per cent."""


@click.command(short_help="Accuracy by class and by client of a run's model.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--data-dir", default=None, help="Where the data sets lie, if no longer where they were.")
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as the run]")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, every client included; shares are fractions.")
def evaluate(path: Path, data_dir: str | None, workers: int | str | None, as_json: bool) -> int:
    """Measure the model of RUN: on the test sets, by class, and on each client's own training examples.

    Where parts of the model stay on the clients, each client is measured with its own. With weight averaging, the
    global model is measured on the test sets too: global_accuracy and so on.
    """
    from flatfed.experiments.running.loading import load_run, open_run
    from flatfed.runs.results import finite

    chosen = open_run(path).config["workers"] if workers is None else workers
    with Steps("clients", at_once=False) as progress:
        run = load_run(path, data_dir=data_dir, say=progress.say)
        progress.show("test sets", 0, None)
        figures = run.figures(chosen)
        clients = run.client_figures(chosen, lambda done, total: progress.show("clients", done, total))
    if as_json:
        click.echo(json.dumps(finite({"tests": figures, "clients": clients}), indent=1, allow_nan=False))
        return 0
    lines = [*_of_tests(figures), *_of_clients(clients)]
    width = max((len(label) for label, _ in lines), default=0) + 2
    for label, text in lines:
        click.echo(f"{label:<{width}}{text}")
    return 0


def _of_tests(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in figures.items():
        if isinstance(value, list):
            yield _label(name), " ".join("–" if entry is None else _shown(name, entry, 1) for entry in value)
        else:
            yield _label(name), _shown(name, value)


def _of_clients(clients: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for name in ("accuracy", "loss"):
        values = [entry[name] for entry in clients if math.isfinite(entry.get(name, math.nan))]
        if values:
            ends = {"mean": statistics.fmean(values), "lowest": min(values)}
            ends |= {"median": statistics.median(values), "highest": max(values)}
            text = ", ".join(f"{which} {_shown(name, value)}" for which, value in ends.items())
            yield _label(f"{name} of {len(values)} clients", name), text
        missing = sum(name in entry for entry in clients) - len(values)
        if missing:
            yield "", f"not a finite number for {missing} of the clients"


def _label(text: str, name: str | None = None) -> str:
    return f"{text} (%)" if (name or text).endswith(SHARES) else text


def _shown(name: str, value: float, places: int = 2) -> str:
    """Return a figure as people read it: a share in per cent, like the tables."""
    return f"{100 * value:.{places}f}" if name.endswith(SHARES) else f"{value:.4f}"
