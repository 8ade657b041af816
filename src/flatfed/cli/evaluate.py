"""`flatfed evaluate`: a finished run's model, class by class and client by client."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import click


@click.command(short_help="Accuracy by class and by client of a run's model.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--data-dir", default=None, help="Where the data sets lie, if no longer where they were.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, every client included.")
def evaluate(path: Path, data_dir: str | None, as_json: bool) -> int:
    """Measure the model of RUN: on the test sets, by class, and on each client's own training examples.

    Where parts of the model stay on the clients, each client is measured with its own.
    """
    from flatfed.experiments.loading import load_run

    run = load_run(path, data_dir=data_dir, say=lambda text: click.echo(text, err=True))
    figures, clients = run.figures(), run.client_figures()
    if as_json:
        click.echo(json.dumps(_finite({"tests": figures, "clients": clients}), indent=1, allow_nan=False))
        return 0
    for name, value in figures.items():
        click.echo(f"{name:<24}{_shown(value)}")
    for name in ("accuracy", "loss"):
        values = [entry[name] for entry in clients if math.isfinite(entry.get(name, math.nan))]
        if values:
            mean, middle = statistics.fmean(values), statistics.median(values)
            text = f"mean {mean:.4f}, lowest {min(values):.4f}, median {middle:.4f}, highest {max(values):.4f}"
            click.echo(f"{f'{name} of {len(values)} clients':<24}{text}")
        missing = sum(name in entry for entry in clients) - len(values)
        if missing:
            click.echo(f"{'':<24}not a finite number for {missing} of the clients")
    return 0


def _finite(value: Any) -> Any:
    """Return what JSON can hold: null for a number that is not finite."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join("–" if entry is None else f"{entry:.3f}" for entry in value)
    return f"{value:.4f}"
