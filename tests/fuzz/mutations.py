"""Ways in which a file goes wrong: at the bytes, by the line, or in the structure of its JSON."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    3,
    10**18,
    10**400,
    -(10**30),
    0.5,
    float("nan"),
    float("inf"),
    1e308,
    "",
    "x",
    "12",
    "é\u200b",
    "a\0b",
    "\ud800",
    "../..",
    "2020-13-45",
    [],
    [1],
    ["x"],
    [[None]],
    {},
    {"id": "x"},
    {"id": 3},
    {"x": {"y": [1]}},
]


def nested(depth: int) -> Any:
    """Return lists inside one another."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def places(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every value inside, the whole included."""
    found = [so_far]
    if isinstance(value, dict):
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    for name, entry in inner:
        found += places(entry, (*so_far, name))
    return found


def changed(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    """Return a copy with another value at a place."""
    if not way:
        return new
    whole = copy.deepcopy(value)
    holder = whole
    for name in way[:-1]:
        holder = holder[name]
    holder[way[-1]] = new
    return whole


def without(value: Any, way: tuple[Any, ...]) -> Any:
    """Return a copy that lacks a place."""
    if not way:
        return {}
    whole = copy.deepcopy(value)
    holder = whole
    for name in way[:-1]:
        holder = holder[name]
    del holder[way[-1]]
    return whole


odd_values = st.one_of(st.sampled_from(ODD_VALUES), st.builds(nested, st.sampled_from([50, 150, 900])))


@st.composite
def restructured(draw: st.DrawFn, value: Any) -> Any:
    """JSON of which one or two places are replaced by something else, or missing."""
    for _ in range(draw(st.integers(1, 2))):
        way = draw(st.sampled_from(places(value)))
        if draw(st.booleans()):
            value = changed(value, way, draw(odd_values))
        else:
            value = without(value, way)
    return value


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes of which some are others, gone, or twice."""
    kind = draw(st.sampled_from(["flip", "cut", "repeat", "insert", "other"]))
    place = draw(st.integers(0, max(len(data) - 1, 0)))
    if kind == "flip":
        return data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
    if kind == "cut":
        return data[:place]
    if kind == "repeat":
        return data + data[place:]
    if kind == "insert":
        return data[:place] + draw(st.binary(max_size=20)) + data[place:]
    return draw(st.binary(max_size=200))


@st.composite
def damaged_json(draw: st.DrawFn, data: bytes) -> bytes:
    """A JSON file that is well-formed and wrong, or damaged at its bytes."""
    if draw(st.integers(0, 3)) == 0:
        return draw(damaged_bytes(data))
    return json.dumps(draw(restructured(json.loads(data)))).encode()


@st.composite
def damaged_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """A file of JSON lines of which one is wrong, twice, missing or somewhere else."""
    kind = draw(st.sampled_from(["bytes", "line", "line", "line", "twice", "missing", "swapped"]))
    if kind == "bytes":
        return draw(damaged_bytes(data))
    lines = data.splitlines()
    place = draw(st.integers(0, len(lines) - 1))
    if kind == "line":
        lines[place] = json.dumps(draw(restructured(json.loads(lines[place])))).encode()
    elif kind == "twice":
        lines.insert(place, lines[place])
    elif kind == "missing":
        del lines[place]
    else:
        lines = [*lines[place:], *lines[:place]]
    return b"\n".join([*lines, b""])
