"""Names beside points, where they cover neither each other nor what is drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.flatness.drawable import Floats
from flatfed.reports.figures.drawing.style import INK, LETTERS, SMALL, fold

ANGLES = tuple(math.radians(angle) for angle in (90, 0, 180, 270, 45, 135, 315, 225))
GAPS = (3.0, 8.0, 14.0, 22.0)
"""Points between a name and its place; from the second on, a line leads to it."""
CLEAR = 4.0
"""Points around a place that names leave free."""
NEAR = 1.5
"""Points between a name and what else is written."""
EDGE = 1.0
"""Points between a name and the frame: letters begin at whole pixels, which may lie beyond the place they are given."""
Spot = tuple[float, float]
"""A place, in pixels."""
Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in pixels."""


@dataclass(frozen=True)
class Tag:
    """A name and the place it stands for, in data coordinates."""

    text: str
    x: float
    y: float
    colour: str = INK


@dataclass(frozen=True)
class _Offer:
    """Where a name may stand.

    Attributes:
        rank: the lower, the more it is liked.
        across: from the place to the middle of the name, in pixels.
        up: the same upwards.
        is_far: whether a line has to lead there.
        box: the name's.
        lead: points on that line.
    """

    rank: int
    across: float
    up: float
    is_far: bool
    box: Box
    lead: Floats


def place_tags(axes: Any, tags: Sequence[Tag], avoid: Sequence[Box] = (), drawn: Floats | None = None) -> None:
    """Write each name near its place, inside the axes, off the boxes in `avoid` and the points (pixels) in `drawn`.

    The figure's layout must stand: what is still added to the figure must not change the size of the axes.
    """
    figure = axes.figure
    scale = figure.dpi / 72
    points = np.empty((0, 2)) if drawn is None else drawn
    spots = [tuple(axes.transData.transform((tag.x, tag.y))) for tag in tags]
    frame = padded(tuple(axes.bbox.extents), -EDGE * scale)
    room = _Room(frame, spots, avoid, points, scale)
    for tag, spot in zip(tags, spots, strict=True):
        text = _write(axes, tag)
        size = text.get_window_extent(figure.canvas.get_renderer())
        offer = room.best(spot, _offers(spot, (size.width, size.height), frame, scale))
        text.set_position((offer.across / scale, offer.up / scale))
        text.arrow_patch.set_visible(offer.is_far)
        room.take(offer)


class _Room:
    """The room inside the axes, and what takes it: it becomes less with each name."""

    def __init__(self, inside: Box, spots: Sequence[Spot], avoid: Sequence[Box], drawn: Floats, scale: float) -> None:
        self._inside, self._spots, self._drawn, self._scale = inside, spots, drawn, scale
        self._names: list[Box] = []
        self._taken = [padded(box, NEAR * scale) for box in avoid]
        self._taken += [padded((x, y, x, y), CLEAR * scale) for x, y in spots]

    def best(self, spot: Spot, offers: Sequence[_Offer]) -> _Offer:
        """Return the best offer for the name of a spot; of equal ones the first."""
        others = [other for other in self._spots if other != spot]
        costs = [self._cost(offer, spot, others) for offer in offers]
        return offers[int(np.argmin(costs))]

    def take(self, offer: _Offer) -> None:
        """Keep later names off this one and off the line that leads to it."""
        self._names.append(offer.box)
        self._taken.append(padded(offer.box, NEAR * self._scale))
        if offer.is_far:
            self._drawn = np.concatenate([self._drawn, offer.lead])

    def _cost(self, offer: _Offer, spot: Spot, others: Sequence[Spot]) -> float:
        """Return how bad an offer is: a name that seems to be another's, or a line through a name, is a last resort."""
        # The rank is small against every fault: it decides between equals only.
        cost = _cost(offer.box, self._inside, self._taken, self._drawn) + 0.01 * offer.rank
        if _is_nearer(offer.box, others, spot):
            cost += 30.0
        if offer.is_far and self._crosses_names(offer.lead):
            cost += 50.0
        return cost

    def _crosses_names(self, lead: Floats) -> bool:
        return any(_hits(lead, name) for name in self._names)


def _write(axes: Any, tag: Tag) -> Any:
    from matplotlib.patheffects import Normal, Stroke

    # A white rim keeps a name readable on any colour.
    halo = [Stroke(linewidth=1.5, foreground="white"), Normal()]
    lead = {"arrowstyle": "-", "color": tag.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2, "path_effects": halo}
    text = axes.annotate(
        _folded(axes, tag.text),
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
    # Else the layout would make room for the name, and its place would no longer be right.
    text.set_in_layout(False)
    return text


def _folded(axes: Any, text: str) -> str:
    """Return a name in lines much shorter than the frame is wide, or it would leave it; words stay whole."""
    longest = (max(map(len, text.split()), default=0) + 1) * SMALL / LETTERS
    return fold(text, max(0.6 * axes.bbox.width / axes.figure.dpi, longest), SMALL)


def _offers(spot: Spot, size: tuple[float, float], frame: Box, scale: float) -> list[_Offer]:
    """Return where a name of this size may stand, the nearest first."""
    ways = enumerate(itertools.product(GAPS, ANGLES))
    return [_offer(rank, spot, size, frame, (gap + CLEAR) * scale, angle) for rank, (gap, angle) in ways]


def _offer(rank: int, spot: Spot, size: tuple[float, float], frame: Box, free: float, angle: float) -> _Offer:
    """Return the offer in one direction, `free` pixels off the place."""
    width, height = size
    across = math.cos(angle) * (width / 2 + free)
    up = math.sin(angle) * (height / 2 + free)
    if abs(up) >= height / 2:  # above or below the place, a name can be moved to the side without covering it
        across = _moved_inside(spot[0] + across, width, frame[0], frame[2]) - spot[0]
    elif abs(across) >= width / 2:  # and at its side up or down
        up = _moved_inside(spot[1] + up, height, frame[1], frame[3]) - spot[1]
    box = _around(spot[0] + across, spot[1] + up, width, height)
    return _Offer(rank, across, up, rank >= len(ANGLES), box, _lead(spot, box))


def _moved_inside(middle: float, size: float, first: float, last: float) -> float:
    """Return where the middle of a name must be for its ends to lie between the frame's, if it is that small."""
    return float(np.clip(middle, first + size / 2, max(last - size / 2, first + size / 2)))


def _around(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def padded(box: Box, by: float) -> Box:
    """Return a box that is larger on each side."""
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def _cost(box: Box, inside: Box, taken: Sequence[Box], drawn: Floats) -> float:
    """Return how bad a place is: what sticks out, what is covered, and how many drawn points are."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    outside = 1 - _common(box, inside) / area
    covered = sum(_common(box, other) for other in taken) / area
    # Points of curves count little, and at most 20: a name on a curve is still better than one on another name.
    return 1000 * outside + 100 * covered + min(_hits(drawn, box), 20)


def _hits(points: Floats, box: Box) -> int:
    """Return how many points lie in a box."""
    return int(np.count_nonzero(_are_inside(points, box)))


def _are_inside(points: Floats, box: Box) -> npt.NDArray[np.bool_]:
    x, y = points[:, 0], points[:, 1]
    return (x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])


def _lead(spot: Spot, box: Box) -> Floats:
    """Return points on the line from a place to the middle of its name, up to the name."""
    middle = np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2])
    line = np.linspace(spot, middle, 40)
    return np.asarray(line[~_are_inside(line, box)])


def _is_nearer(box: Box, others: Sequence[Spot], spot: Spot) -> bool:
    """Say whether a name would seem to belong to another place."""
    if not others:
        return False
    nearest = min(_distance(box, other) for other in others)
    return nearest < _distance(box, spot) + CLEAR


def _distance(box: Box, spot: Spot) -> float:
    """Return how far a place is from a box; 0 inside it."""
    x, y = spot
    return math.hypot(max(box[0] - x, 0, x - box[2]), max(box[1] - y, 0, y - box[3]))


def _common(box: Box, other: Box) -> float:
    """Return the area that two boxes share."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
