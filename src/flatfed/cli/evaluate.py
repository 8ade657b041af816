"""`flatfed evaluate`: a finished run's model, class by class and client by client."""

from __future__ import annotations

import json
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
        click.echo(json.dumps({"tests": figures, "clients": clients}, indent=1))
        return 0
    for name, value in figures.items():
        click.echo(f"{name:<24}{_shown(value)}")
    for name in ("accuracy", "loss"):
        values = sorted(entry[name] for entry in clients if entry.get(name) is not None)
        if values:
            low, middle, high = values[0], values[len(values) // 2], values[-1]
            mean = sum(values) / len(values)
            text = f"mean {mean:.4f}, lowest {low:.4f}, median {middle:.4f}, highest {high:.4f}"
            click.echo(f"{f'{name} of {len(values)} clients':<24}{text}")
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join("–" if entry is None else f"{entry:.3f}" for entry in value)
    return f"{value:.4f}"
