"""One look for all figures: palette, sizes, and what stands above and below the axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from flatfed.core.errors import ConfigError
from flatfed.reports.curves import COLOURS, STYLES, available
from flatfed.reports.figures.drawing.words import fold

COLUMN, PAGE = 3.4, 7.0
"""Inches: the width of a paper's column, and that of its page."""
INK, GREY, PALE = "#222222", "#6B6B6B", "#D9D9D9"
SMALL, MEDIUM, LARGE = 7.0, 8.0, 9.0
"""Points: ticks, legends and notes; names of axes and panels; titles."""
GAP = 0.06
"""Inches between the axes, the legend, the note and the edge."""
SETTINGS: dict[str, Any] = {
    **dict.fromkeys(["font.size", "axes.labelsize", "axes.titlesize"], MEDIUM),
    **dict.fromkeys(["xtick.labelsize", "ytick.labelsize", "legend.fontsize"], SMALL),
    **dict.fromkeys(["axes.linewidth", "xtick.major.width", "ytick.major.width"], 0.6),
    **dict.fromkeys(["axes.edgecolor", "axes.labelcolor", "text.color"], INK),
    **dict.fromkeys(["axes.spines.top", "axes.spines.right"], False),
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "svg.fonttype": "none",  # words stay words
    "svg.hashsalt": "flatfed",  # the same figure is the same file
    "pdf.fonttype": 42,
}
UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}

P = ParamSpec("P")


def require_matplotlib() -> None:
    """Raise a `ConfigError` where figures cannot be drawn."""
    if not available():
        raise ConfigError("figures need matplotlib; pip install 'flatfed[plots]'")


def require_some(items: Sequence[Any]) -> None:
    """Raise a `ConfigError` where there is nothing to draw."""
    if not items:
        raise ConfigError("there is nothing to draw")


def in_style(draw: Callable[P, None]) -> Callable[P, None]:
    """Let a function draw with the settings above, whatever the caller's are, and leave the caller's as they were."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        require_matplotlib()
        from matplotlib import style

        with style.context(["default", SETTINGS]):
            draw(*args, **kwargs)

    return drawn


def new_figure(width: float, height: float, layout: Any = "constrained") -> Any:
    """Return an empty figure; the title, the legend and the note will make it taller than `height`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def finish(
    figure: Any, files: Sequence[Path], note: str = "", title: str = "", keys: Sequence[tuple[Any, str]] = ()
) -> None:
    """Put the title above, the legend and the note below, and write each file; the ending decides the format."""
    width, body = figure.get_size_inches()
    foot = [_add_note(figure, note)] if note else []
    foot += [_add_legend(figure, keys)] if keys else []
    head = [_add_title(figure, title)] if title else []
    below, above = (sum(height for _, height in part) for part in (foot, head))
    total = body + below + above
    figure.set_size_inches(width, total)
    place = 0.0
    for put, height in foot:
        put(place / total)
        place += height
    for put, _ in head:
        put(1 - GAP / total)
    settle = _lay_out if figure.get_layout_engine() else _lift
    settle(figure, below / total, body / total)
    for file in files:
        figure.savefig(file, dpi=200, metadata=UNDATED.get(Path(file).suffix.lower()))


def _lay_out(figure: Any, below: float, body: float) -> None:
    """Lay the axes out once, for all files alike; the library's solver is not exact to the last digit."""
    figure.get_layout_engine().set(rect=(0, below, 1, body))
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(float(part), 5) for part in axes.get_position(original=True).bounds])


def _lift(figure: Any, below: float, body: float) -> None:
    """Bring axes with fixed places from the whole figure into the part that is theirs."""
    for axes in figure.axes:
        x, y, width, height = axes.get_position(original=True).bounds
        axes.set_position((x, below + y * body, width, height * body))


def _inches(figure: Any, artist: Any) -> tuple[float, float]:
    box = artist.get_window_extent(figure.canvas.get_renderer())
    return float(box.width) / figure.dpi, float(box.height) / figure.dpi


def _add_note(figure: Any, note: str) -> tuple[Callable[[float], None], float]:
    wrapped = fold(note, figure.get_figwidth() - 0.15)
    text = figure.text(0.5, 0, wrapped, ha="center", va="bottom", fontsize=SMALL, color=GREY, in_layout=False)
    return lambda place: text.set_y(place + GAP / figure.get_figheight()), _inches(figure, text)[1] + 2 * GAP


def _add_title(figure: Any, title: str) -> tuple[Callable[[float], None], float]:
    wrapped = fold(title, figure.get_figwidth() - 0.15, LARGE)
    text = figure.text(0.5, 1, wrapped, ha="center", va="top", fontsize=LARGE, in_layout=False)
    return text.set_y, _inches(figure, text)[1] + 2 * GAP


def _add_legend(figure: Any, keys: Sequence[tuple[Any, str]]) -> tuple[Callable[[float], None], float]:
    """Add a legend in as few rows as fit, and as few columns as these need."""
    handles = [handle for handle, _ in keys]
    labels = [fold(label, figure.get_figwidth() - 0.6) for _, label in keys]
    look = {"loc": "lower center", "frameon": False, "borderaxespad": 0, "columnspacing": 1.2, "handletextpad": 0.5}
    for rows in range(1, len(keys) + 1):
        legend = figure.legend(handles, labels, ncols=-(-len(keys) // rows), **look)
        legend.set_in_layout(False)
        width, height = _inches(figure, legend)
        if rows == len(keys) or width <= figure.get_figwidth():
            break
        legend.remove()
    return lambda place: legend.set_bbox_to_anchor((0.5, place)), height


def look(index: int) -> dict[str, Any]:
    """Return colour and line style of the curve with this number."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}
