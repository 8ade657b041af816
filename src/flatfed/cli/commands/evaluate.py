"""`flatfed evaluate`: a finished run's model, class by class and client by client."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_data_option,
    data_dir_option,
    option,
    trust_option,
    workers_option,
)
from flatfed.cli.output.progress import StepProgress
from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.engines.choice import Workers

Metrics = dict[str, Any]

SHARES = ("accuracy", "iou")
"""How the names of metrics end that are shares: people read them in per cent."""


@dataclass(frozen=True)
class EvaluatedRun:
    """What was measured.

    Args:
        round: after how many rounds: those of the newest good checkpoint.
        rounds: how many the run has when it is whole.
        tests: the metrics on the test sets.
        clients: those of each client.
    """

    round: int
    rounds: int
    tests: Metrics
    clients: list[Metrics]


@click.command(cls=GroupedCommand, short_help="Accuracy by class and by client of a run's model.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@data_dir_option
@accept_data_option
@workers_option
@trust_option
@option(
    "--model",
    "Which model: that of the newest checkpoint, or the best one of a run with --keep-best.",
    click.Choice(("newest", "best")),
    "newest",
)
@option("--json as_json", "Print as JSON, every client included; shares are fractions.", is_flag=True)
def evaluate(path: Path, workers: Workers | None, as_json: bool, model: str, **opening: Any) -> int:
    """Measure the model of RUN: on the test sets, by class, and on each client's own training examples.

    The model is that of the newest good checkpoint, or of the best evaluation; the round that it is of stands first.

    Where parts of the model stay on the clients, each client is measured with its own. With weight averaging, the
    global model is measured on the test sets too: global_accuracy and so on.
    """
    from flatfed.runs.results import finite

    measured = _measure(path, workers, opening | {"best": model == "best"})
    if as_json:
        # JSON has no words for infinity and what is not a number.
        content = finite({"round": measured.round, "tests": measured.tests, "clients": measured.clients})
        echo(json.dumps(content, indent=1, allow_nan=False))
        return 0
    round = "round", f"{measured.round} of {measured.rounds}"
    _print([round, *_of_tests(measured.tests), *_of_clients(measured.clients)])
    return 0


def _print(lines: list[tuple[str, str]]) -> None:
    width = max((len(label) for label, _ in lines), default=0) + 2
    for label, text in lines:
        echo(f"{label:<{width}}{text}")


def _measure(path: Path, workers: Workers | None, opening: dict[str, Any]) -> EvaluatedRun:
    """Measure the model of a run on the test sets and on each client's examples."""
    from flatfed.engines.choice import recorded_workers
    from flatfed.experiments.running.model_metrics import check_asked
    from flatfed.experiments.running.run import load_run

    check_asked(workers)
    with StepProgress("clients", at_once=False) as progress:
        run = load_run(path, say=progress.say, **opening)
        assert run.directory is not None
        config = run.directory.config
        if workers is None:
            workers = recorded_workers(config)
        progress.show("test sets", 0, None)
        tests = run.metrics(workers)
        clients = run.client_metrics(workers, partial(progress.show, "clients"))
        return EvaluatedRun(run.round, config["settings"]["rounds"], tests, clients)


def _of_tests(metrics: Metrics) -> Iterator[tuple[str, str]]:
    for name, value in metrics.items():
        if isinstance(value, list):
            yield _label(name), " ".join(map(partial(_of_class, name), value))
        else:
            yield _label(name), _shown(name, value)


def _of_class(name: str, value: float | None) -> str:
    """Return a metric of one class; there is none where the test set has no example of it."""
    if value is None:
        return "–"
    return _shown(name, value, 1)


def _of_clients(clients: list[Metrics]) -> Iterator[tuple[str, str]]:
    for name in ("accuracy", "loss"):
        yield from _of_metric(name, [entry[name] for entry in clients if name in entry])


def _of_metric(name: str, measured: list[float]) -> Iterator[tuple[str, str]]:
    # One value that is not finite would hide all others in the mean.
    values = list(filter(math.isfinite, measured))
    if values:
        yield _label(f"{name} of {len(values)} clients", name), _spread(name, values)
    if len(values) < len(measured):
        yield "", f"not a finite number for {len(measured) - len(values)} of the clients"


def _spread(name: str, values: list[float]) -> str:
    """Return the mean of some values, and between what they lie."""
    numbers = {
        "mean": statistics.fmean(values),
        "lowest": min(values),
        "median": statistics.median(values),
        "highest": max(values),
    }
    return ", ".join(f"{which} {_shown(name, value)}" for which, value in numbers.items())


def _label(text: str, name: str | None = None) -> str:
    if (name or text).endswith(SHARES):
        return f"{text} (%)"
    return text


def _shown(name: str, value: float, places: int = 2) -> str:
    """Return a number as people read it: a share in per cent, like the tables."""
    if name.endswith(SHARES):
        return f"{100 * value:.{places}f}"
    return f"{value:.4f}"
