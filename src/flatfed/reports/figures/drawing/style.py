"""One look for all figures: colours, sizes, words, and what stands above and below the axes."""

from __future__ import annotations

import functools
import importlib.util
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.drawing.writing import save

# Okabe and Ito's palette, its yellow darkened: distinct with any kind of colour vision. Line styles add to it.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
STYLES = ("-", "--", "-.", ":")


def available() -> bool:
    """Say whether figures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


def colour(index: int) -> str:
    """Return the colour of the curve, bar or surface with this number."""
    return COLOURS[index % len(COLOURS)]


def look(index: int) -> dict[str, Any]:
    """Return colour and line style of the curve with this number."""
    return {"color": colour(index), "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}


def alone(count: int, marker: str = "o", size: float = 5) -> dict[str, Any]:
    """Return a mark for a curve with this number of points: a single one makes no line."""
    if count == 1:
        return {"marker": marker, "markersize": size}
    return {}


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
}
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
    # Without pyplot: no screen is needed, and no figure stays open.
    FigureCanvasAgg(figure)
    return figure


def finish(
    figure: Any, files: Sequence[Path], note: str = "", title: str = "", keys: Sequence[tuple[Any, str]] = ()
) -> None:
    """Put the title above, the legend and the note below, and write each file; the ending decides the format."""
    width, body = figure.get_size_inches()
    foot = _add_foot(figure, note, keys)
    head = _add_head(figure, title)
    below, above = _height(foot), _height(head)
    total = body + below + above
    figure.set_size_inches(width, total)
    _stack(foot, total)
    for part in head:
        part.put(1 - GAP / total)
    _settle(figure, below / total, body / total)
    save(figure, files)


@dataclass(frozen=True)
class _Part:
    """What stands above or below the axes: what puts it at a share of the figure's height, and its own in inches."""

    put: Callable[[float], None]
    height: float


def _add_foot(figure: Any, note: str, keys: Sequence[tuple[Any, str]]) -> list[_Part]:
    """Add the note and, above it, the legend."""
    parts = []
    if note:
        parts.append(_add_note(figure, note))
    if keys:
        parts.append(_add_legend(figure, keys))
    return parts


def _add_head(figure: Any, title: str) -> list[_Part]:
    if not title:
        return []
    return [_add_title(figure, title)]


def _height(parts: Sequence[_Part]) -> float:
    return sum(part.height for part in parts)


def _stack(parts: Sequence[_Part], total: float) -> None:
    """Put parts one above the other, from the bottom of the figure on."""
    place = 0.0
    for part in parts:
        part.put(place / total)
        place += part.height


def _settle(figure: Any, below: float, body: float) -> None:
    """Bring the axes into the part of the figure that is theirs."""
    if figure.get_layout_engine():
        _lay_out(figure, below, body)
    else:
        _lift(figure, below, body)


def _lay_out(figure: Any, below: float, body: float) -> None:
    """Lay the axes out once, for all files alike; the library's solver is not exact to the last digit."""
    figure.get_layout_engine().set(rect=(0, below, 1, body))
    figure.draw_without_rendering()
    # None, not "none": with an engine that only keeps its place every file would be drawn twice.
    figure.set_layout_engine(None)
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


def _add_note(figure: Any, note: str) -> _Part:
    wrapped = fold(note, figure.get_figwidth() - 0.15)
    # Left out of the layout, because `finish` makes room for it.
    text = figure.text(0.5, 0, wrapped, ha="center", va="bottom", fontsize=SMALL, color=GREY, in_layout=False)

    def put(place: float) -> None:
        # The figure's height is known only now: the parts are added before it grows.
        text.set_y(place + GAP / figure.get_figheight())

    return _Part(put, _inches(figure, text)[1] + 2 * GAP)


def _add_title(figure: Any, title: str) -> _Part:
    wrapped = fold(title, figure.get_figwidth() - 0.15, LARGE)
    text = figure.text(0.5, 1, wrapped, ha="center", va="top", fontsize=LARGE, in_layout=False)
    return _Part(text.set_y, _inches(figure, text)[1] + 2 * GAP)


def _add_legend(figure: Any, keys: Sequence[tuple[Any, str]]) -> _Part:
    """Add a legend in as few rows as fit, and as few columns as these need."""
    rows = 1
    legend = _legend(figure, keys, rows)
    while rows < len(keys) and _inches(figure, legend)[0] > figure.get_figwidth():
        legend.remove()
        rows += 1
        legend = _legend(figure, keys, rows)

    def put(place: float) -> None:
        legend.set_bbox_to_anchor((0.5, place))

    return _Part(put, _inches(figure, legend)[1])


def _legend(figure: Any, keys: Sequence[tuple[Any, str]], rows: int) -> Any:
    handles = [handle for handle, _ in keys]
    labels = [fold(label, figure.get_figwidth() - 0.6) for _, label in keys]
    spacing = {"borderaxespad": 0, "columnspacing": 1.2, "handletextpad": 0.5}
    columns = -(-len(keys) // rows)
    legend = figure.legend(handles, labels, ncols=columns, loc="lower center", frameon=False, **spacing)
    legend.set_in_layout(False)
    return legend


NO_BREAK = "\xa0"
APART = "; "
LETTERS = 119
"""Letters of a type of one point that fit into an inch, about; of a type n times as large, n times fewer."""


def short(value: float) -> str:
    """Return a number in three digits."""
    if not math.isfinite(value):
        return "not finite"
    return f"{value:.3g}"


def plain(value: float) -> str:
    """Return the number of a tick: as it is, or as a power of ten where it would have many digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    digits, exponent = f"{value:.2e}".split("e")
    # 1 · 10^5 is written as 10^5.
    factor = {1.0: "", -1.0: "-"}.get(float(digits), f"{float(digits):g}\\cdot ")
    return f"${factor}10^{{{int(exponent)}}}$"


def named(name: str, log: bool) -> str:
    """Return the name of an axis, which tells of a logarithmic scale."""
    if not log:
        return name
    return f"{name} (log scale)"


def fold(text: str, width: float, size: float = 7.0) -> str:
    """Break text of a size (points) into lines of at most `width` inches."""
    letters = max(int(LETTERS / size * width), 8)
    # Only up to here do these spaces keep words on one line.
    return textwrap.fill(text, letters, break_on_hyphens=False).replace(NO_BREAK, " ")


def together(text: str) -> str:
    """Return words that a legend leaves on one line."""
    return text.replace(" ", NO_BREAK)


def one_note(items: Iterable[Any]) -> str:
    """Return the note of all that is drawn: what is the same said once, the rest by label."""
    labels = _labels_by_note(items)
    if len(labels) == 1:
        return next(iter(labels))
    common = _common_parts(list(labels))
    parts = []
    for note, names in labels.items():
        rest = _without(note, common)
        if rest:
            parts.append(f"{', '.join(names)}: {rest}")
    return APART.join([*parts, *common])


def _labels_by_note(items: Iterable[Any]) -> dict[str, list[str]]:
    """Return for each note the labels of what it belongs to; a panel stands for all in it."""
    labels: dict[str, list[str]] = {}
    for item in items:
        label = getattr(item, "panel", "") or item.label
        names = labels.setdefault(item.note, [])
        if label not in names:
            names.append(label)
    return labels


def _common_parts(notes: Sequence[str]) -> list[str]:
    """Return the parts that all notes have."""
    first, *others = [note.split(APART) for note in notes]
    return [part for part in first if part and _in_all(part, others)]


def _in_all(part: str, notes: Sequence[Sequence[str]]) -> bool:
    return all(part in note for note in notes)


def _without(note: str, common: Sequence[str]) -> str:
    return APART.join(part for part in note.split(APART) if part not in common)
