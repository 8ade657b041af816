"""The figure of a comparison: a metric, loss or any other number over rounds, mean and range over seeds."""

from __future__ import annotations

import importlib.util
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.reports.results.results import Result
from flatfed.reports.tables.columns import primary
from flatfed.runs.history import Row

# Okabe and Ito's palette, its yellow darkened: told apart with any kind of colour vision. Line styles add to it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
LEGEND_COLUMNS = 4
PANEL, HEIGHT, LINE = 4.5, 3.2, 0.22
"""Inches: a panel's width, the height without the legend, and that of one line of it."""
STYLES = ("-", "--", "-.", ":")
CENTRALISED = "centralised"
"""The id of training on the pooled data: no federated rounds, so a line to hold the others against."""
REFERENCE = {"linestyle": (0, (6, 3)), "linewidth": 1.2}
LABELS = {
    "global_accuracy": "test accuracy of the global model (%)",
    "train_loss": "training loss",
    "divergence": "client divergence",
    "lr": "learning rate",
    "lambda_max": "λmax",
    "lambda_ratio": "λmax/λ5",
    "lpf": "LPF",
}


def available() -> bool:
    """Say whether figures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_curves(results: Sequence[Result], files: Sequence[Path], title: str = "", names: Sequence[str] = ()) -> None:
    """Draw the curves into each of the files; the ending decides the format.

    `names` are columns of the history or numbers that methods watch, such as `c` or `divergence`; by default the
    primary metric (accuracy, say) and the training loss. A centralised run among federated ones is a dashed line at
    its final value.
    """
    if not available():
        raise ConfigError("figures need matplotlib; pip install 'flatfed[plots]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chosen = list(names) or default_names(results)
    figure = Figure(figsize=(PANEL * max(len(chosen), 1), HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(chosen), squeeze=False)[0]
    known: dict[str, Any] = {}
    metrics = {metric.column: metric for result in results for metric in result.metrics}
    federated = any(not is_centralised(result) for result in results)
    for axes, name in zip(panels, chosen, strict=True):
        scale = metrics[name].scale if name in metrics else 1.0
        for index, result in enumerate(results):
            style = {"color": COLOURS[index % len(COLOURS)], "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}
            draw = _reference if federated and is_centralised(result) else _curve
            draw(axes, result, name, scale, style)
        plain = metrics[name].axis if name in metrics else name.replace("_", " ")
        _finish(axes, LABELS.get(name, plain))
        if name == "train_loss":
            _scale_loss(axes, results)
        known = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True)) | known
    if known:
        _add_legend(figure, known)
    if title:
        figure.suptitle(textwrap.fill(title, _letters(figure)), fontsize=10)
    for file in files:
        figure.savefig(file, dpi=160)


def _add_legend(figure: Any, known: dict[str, Any]) -> None:
    """Put the legend below, in as many columns as fit, and make room for it."""
    labels = [textwrap.fill(label, _letters(figure) - 8) for label in known]
    for columns in range(min(LEGEND_COLUMNS, len(known)), 0, -1):
        legend = figure.legend(known.values(), labels, loc="outside lower center", ncols=columns, frameon=False)
        if columns == 1 or legend.get_window_extent(figure.canvas.get_renderer()).width <= figure.bbox.width:
            break
        legend.remove()
    lines = sum(label.count("\n") + 1 for label in labels)
    figure.set_size_inches(figure.get_figwidth(), HEIGHT + LINE * -(-lines // columns))


def _letters(figure: Any) -> int:
    """Return how many letters of text fit side by side."""
    return int(11 * figure.get_figwidth())


def default_names(results: Sequence[Result]) -> list[str]:
    """Return what is drawn by default: the primary metric (of a regression, the test loss) and the training loss."""
    return [primary(results).column, "train_loss"]


def is_centralised(result: Result) -> bool:
    """Say whether a result is of training on the pooled data."""
    return all(run.config["algorithm"].get("id") == CENTRALISED for run in result.runs)


def drawable(results: Sequence[Result]) -> list[str]:
    """Return the names of all numbers in the histories, those that methods watch included."""
    rows = [row for result in results for run in result.runs for row in run.rows]
    numbers = {name for row in rows for name, value in row.items() if isinstance(value, int | float)} - {"round"}
    return sorted(numbers | {name for row in rows for name in row.get("watch", {})})


def undrawable(results: Sequence[Result]) -> dict[str, str]:
    """Return the columns that hold more than a number, and what it is."""
    rows = [row for result in results for run in result.runs for row in run.rows]
    lists = {name: "a list" for row in rows for name, value in row.items() if isinstance(value, list)}
    return lists | {name: "numbers by name" for row in rows for name, value in row.items() if isinstance(value, dict)}


def _value(row: Row, name: str) -> float | None:
    """Return a number of a history row: a column, or one that a method watches."""
    found: float | None = row.get(name, row.get("watch", {}).get(name))
    return found


def _curve(axes: Any, result: Result, name: str, scale: float, style: dict[str, Any]) -> None:
    """Draw the mean over seeds, the range over seeds, and a cross where a run diverged."""
    points: dict[int, list[float]] = {}
    for run in result.runs:
        found = [(row["round"] + 1, _value(row, name)) for row in run.rows]
        told = [(round, scale * value) for round, value in found if value is not None]
        for round, value in told:
            points.setdefault(round, []).append(value)
        if told and run.summary["status"] == "diverged":
            axes.plot(*told[-1], marker="x", color=style["color"], markersize=7, markeredgewidth=2)
    rounds = sorted(points)
    if not rounds:
        return
    alone = {"marker": "o", "markersize": 5} if len(rounds) == 1 else {}  # one point makes no line
    means = [statistics.fmean(points[r]) for r in rounds]
    axes.plot(rounds, means, label=result.method, linewidth=1.5, **style, **alone)
    if len(result.runs) > 1:
        low, high = [min(points[r]) for r in rounds], [max(points[r]) for r in rounds]
        axes.fill_between(rounds, low, high, color=style["color"], alpha=0.15, linewidth=0)
        if alone:
            axes.vlines(rounds, low, high, color=style["color"], alpha=0.3, linewidth=4)


def _reference(axes: Any, result: Result, name: str, scale: float, style: dict[str, Any]) -> None:
    """Draw a dashed line at the final value, the mean over seeds."""
    runs = [[value for row in run.rows if (value := _value(row, name)) is not None] for run in result.good]
    finals = [scale * values[-1] for values in runs if values]
    if finals:
        axes.axhline(statistics.fmean(finals), label=result.method, **style | REFERENCE)


def _scale_loss(axes: Any, results: Sequence[Result]) -> None:
    """Scale by the runs that did not diverge: one that did would press the others into a line."""
    good = [row["train_loss"] for result in results for run in result.good for row in run.rows]
    positive = [value for value in good if value is not None and value > 0]
    if positive:
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(min(positive) / 1.3, max(positive) * 1.3)


def _finish(axes: Any, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
