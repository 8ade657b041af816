"""Ways in which a file goes wrong: at the bytes, by the line, or in the structure of its JSON."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from flatfed.runs.records.files import KEY, digest, sealed, sealed_line

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
    actual = [so_far]
    if isinstance(value, dict):
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    for name, entry in inner:
        actual += places(entry, (*so_far, name))
    return actual


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
    kind = draw(st.sampled_from(["bit", "byte", "end", "gap", "repeat", "insert", "other"]))
    place = draw(st.integers(0, max(len(data) - 1, 0)))
    before, after = data[:place], data[place + 1 :]
    if kind == "bit":
        return before + bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in data[place : place + 1]) + after
    if kind == "byte":
        return before + bytes([draw(st.integers(0, 255))]) + after
    if kind == "end":
        return before
    if kind == "gap":
        return before + data[draw(st.integers(place, len(data))) :]
    if kind == "repeat":
        return data + data[place:]
    if kind == "insert":
        return before + draw(st.binary(max_size=20)) + data[place:]
    return draw(st.binary(max_size=200))


@st.composite
def damaged_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """Lines of which some are twice, missing or somewhere else."""
    kind = draw(st.sampled_from(["twice", "missing", "swapped", "turned"]))
    lines = data.splitlines(keepends=True)
    first, second = sorted(draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2)))
    if kind == "twice":
        lines.insert(second, lines[first])
    elif kind == "missing":
        del lines[first : second + 1]
    elif kind == "swapped":
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines = [*lines[first:], *lines[:first]]
    return b"".join(lines)


@st.composite
def edited_line(draw: st.DrawFn, data: bytes) -> bytes:
    """JSON lines of which one is well-formed and wrong."""
    lines = data.splitlines()
    place = draw(st.integers(0, len(lines) - 1))
    lines[place] = json.dumps(draw(restructured(json.loads(lines[place])))).encode()
    return b"\n".join([*lines, b""])


@st.composite
def edited(draw: st.DrawFn, data: bytes) -> bytes:
    """A JSON file of which a place or two are others, as by hand: a seal in it stays what it was."""
    return json.dumps(draw(restructured(json.loads(data))), indent=1).encode()


# Well-formed and wrong, under seals that fit: who can change a file can seal it.


@st.composite
def resealed(draw: st.DrawFn, data: bytes) -> bytes:
    """A record that is wrong: sealed, or as an earlier version wrote it."""
    content = json.loads(data)
    del content[KEY]
    wrong = draw(restructured(content))
    if not isinstance(wrong, dict):
        return json.dumps(wrong).encode()
    if draw(st.booleans()):
        return json.dumps({**wrong, "format": 1}).encode()
    return json.dumps(sealed(wrong)).encode()


@st.composite
def resealed_manifest(draw: st.DrawFn, data: bytes) -> bytes:
    """A checkpoint's record that is wrong."""
    manifest = draw(restructured(json.loads(data)["manifest"]))
    return json.dumps({"manifest": manifest, "sha256": digest(json.dumps(manifest).encode())}).encode()


@st.composite
def resealed_point(draw: st.DrawFn, data: bytes) -> bytes:
    """Points of a landscape of which one is wrong."""
    first, *lines = data.splitlines(keepends=True)
    point = json.loads(draw(st.sampled_from(lines)))
    del point[KEY]
    wrong = draw(restructured(point))
    if not isinstance(wrong, dict):
        return first + json.dumps(wrong).encode() + b"\n"
    return first + sealed_line(wrong, json.loads(first)[KEY])
