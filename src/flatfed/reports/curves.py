"""The figure of a comparison: accuracy, loss or any other number over rounds, mean and range over seeds."""

from __future__ import annotations

import importlib.util
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.reports.results import Result
from flatfed.runs.history import Row

# Okabe and Ito's palette, its yellow darkened: told apart with any kind of colour vision. Line styles add to it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
LEGEND_COLUMNS = 4
PANEL, HEIGHT, LINE = 4.5, 3.2, 0.22
"""Inches: a panel's width, the height without the legend, and that of one line of it."""
STYLES = ("-", "--", "-.", ":")
PERCENT = {"test_accuracy", "global_accuracy"}
LABELS = {
    "test_accuracy": "test accuracy (%)",
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

    `names` are columns of the history or numbers that methods watch, such as `c` or `divergence`; by default accuracy
    (or test loss) and training loss.
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
    for axes, name in zip(panels, chosen, strict=True):
        for index, result in enumerate(results):
            style = {"color": COLOURS[index % len(COLOURS)], "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}
            _curve(axes, result, name, 100.0 if name in PERCENT else 1.0, style)
        _finish(axes, LABELS.get(name, name.replace("_", " ")))
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
    """Return what is drawn by default: test accuracy, or the test loss of a regression, and the training loss."""
    rows = [row for result in results for run in result.runs for row in run.rows]
    is_regression = any("test_loss" in row for row in rows) and not any("test_accuracy" in row for row in rows)
    return ["test_loss" if is_regression else "test_accuracy", "train_loss"]


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
