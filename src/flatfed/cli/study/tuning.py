"""`flatfed study tune`: what came of it, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.studies.tuning.outcome import Tuned


def print_tuned(tuned: Tuned) -> None:
    """Print the best parameters, the method with them, and the lines to paste into the study file."""
    from flatfed.studies.study import spelled_point

    best = tuned.best
    echo(f"{len(tuned.trials)} trials: {tuned.counts}")
    if best is None or tuned.metric is None:
        echo("no trial has finished: nothing can be chosen", err=True)
        return
    metric = tuned.metric
    echo(f"best: trial {best.number}, {metric.title} {metric.scale * (tuned.value(best) or 0.0):.2f}")
    echo(f"parameters: {spelled_point(best.point)}")
    echo(f"method: {tuned.method}")
    echo("lines for the study file:")
    echo(tuned.lines.rstrip("\n"))
