"""Names beside points, where they cover neither each other nor what is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats
from flatfed.reports.figures.drawing.style import INK, SMALL

ANGLES = tuple(math.radians(angle) for angle in (90, 0, 180, 270, 45, 135, 315, 225))
GAPS = (3.0, 8.0, 14.0, 22.0)
"""Points between a name and its place; from the second on, a line leads to it."""
CLEAR = 4.0
"""Points around a place that names leave free."""
NEAR = 1.5
"""Points between a name and what else is written."""
Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in pixels."""


@dataclass(frozen=True)
class Tag:
    """A name and the place it stands for, in data coordinates."""

    text: str
    x: float
    y: float
    colour: str = INK


def place_tags(axes: Any, tags: Sequence[Tag], avoid: Sequence[Box] = (), drawn: Floats | None = None) -> None:
    """Write each name near its place, inside the axes, off the boxes in `avoid` and the points (pixels) in `drawn`.

    The figure's layout must stand: what is still added to the figure must not change the size of the axes.
    """
    figure = axes.figure
    scale = figure.dpi / 72
    inside: Box = tuple(axes.bbox.extents)
    points = np.empty((0, 2)) if drawn is None else drawn
    spots = [tuple(axes.transData.transform((tag.x, tag.y))) for tag in tags]
    taken = [_padded(box, NEAR * scale) for box in avoid]
    taken += [_padded((x, y, x, y), CLEAR * scale) for x, y in spots]
    names: list[Box] = []
    for tag, spot in zip(tags, spots, strict=True):
        text = _write(axes, tag)
        box = text.get_window_extent(figure.canvas.get_renderer())
        offsets = list(_offsets(box.width, box.height, scale))
        boxes = [_around(spot[0] + dx, spot[1] + dy, box.width, box.height) for dx, dy, _ in offsets]
        costs = [_cost(found, inside, taken, points) + 0.01 * rank for rank, found in enumerate(boxes)]
        astray = [_is_nearer(found, [other for other in spots if other != spot], spot) for found in boxes]
        leads = [_lead(spot, found) for found in boxes]
        crossing = [
            far and any(_hits(lead, name) for name in names) for lead, (_, _, far) in zip(leads, offsets, strict=True)
        ]
        best = int(np.argmin(np.array(costs) + 30.0 * np.array(astray) + 50.0 * np.array(crossing)))
        dx, dy, far = offsets[best]
        text.set_position((dx / scale, dy / scale))
        text.arrow_patch.set_visible(far)
        names.append(boxes[best])
        taken.append(_padded(boxes[best], NEAR * scale))
        points = np.concatenate([points, leads[best]]) if far else points


def _write(axes: Any, tag: Tag) -> Any:
    from matplotlib.patheffects import Normal, Stroke

    halo = [Stroke(linewidth=1.5, foreground="white"), Normal()]
    lead = {"arrowstyle": "-", "color": tag.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2, "path_effects": halo}
    text = axes.annotate(
        tag.text,
        (tag.x, tag.y),
        (0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=SMALL,
        color=tag.colour,
        annotation_clip=False,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "alpha": 0.8, "linewidth": 0},
        arrowprops=lead,
        zorder=6,
    )
    text.set_in_layout(False)
    return text


def _offsets(width: float, height: float, scale: float) -> Sequence[tuple[float, float, bool]]:
    """Return where the middle of a name may stand from its place, and whether a line has to lead there."""
    found = []
    for gap in GAPS:
        for angle in ANGLES:
            across, up = math.cos(angle), math.sin(angle)
            free = (gap + CLEAR) * scale
            found.append((across * (width / 2 + free), up * (height / 2 + free), gap > GAPS[0]))
    return found


def _around(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _padded(box: Box, by: float) -> Box:
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def _cost(box: Box, inside: Box, taken: Sequence[Box], drawn: Floats) -> float:
    """Return how bad a place is: what sticks out, what is covered, and how many drawn points are."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    outside = 1 - _common(box, inside) / area
    covered = sum(_common(box, other) for other in taken) / area
    return 1000 * outside + 100 * covered + min(_hits(drawn, box), 20)


def _hits(points: Floats, box: Box) -> int:
    """Return how many points lie in a box."""
    x, y = points[:, 0], points[:, 1]
    return int(np.count_nonzero((x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])))


def _lead(spot: tuple[float, float], box: Box) -> Floats:
    """Return points on the line from a place to the middle of its name, up to the name."""
    middle = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
    line = np.linspace(spot, middle, 40)
    inside = (line[:, 0] > box[0]) & (line[:, 0] < box[2]) & (line[:, 1] > box[1]) & (line[:, 1] < box[3])
    return np.asarray(line[~inside])


def _is_nearer(box: Box, others: Sequence[tuple[float, float]], spot: tuple[float, float]) -> bool:
    """Say whether a name would seem to belong to another place."""
    away = [math.hypot(max(box[0] - x, 0, x - box[2]), max(box[1] - y, 0, y - box[3])) for x, y in (spot, *others)]
    return bool(others) and min(away[1:]) < away[0] + CLEAR


def _common(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
