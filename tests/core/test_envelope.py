"""Envelopes come back as they were sent; whatever else is read is a `WireError`."""

from __future__ import annotations

import contextlib
import json
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flatfed.core.method.envelope import MAGIC, MOST_HEADER_BYTES, PREFIX, VERSION, Envelope
from flatfed.core.method.wire import WireError

words = st.text(st.characters(codec="utf-8"), max_size=8)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | words
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
envelopes = st.builds(
    Envelope, words, st.dictionaries(words, values, max_size=4), st.lists(st.binary(max_size=40), max_size=5)
)
WHOLE = Envelope("exchange", {"run": "r", "round": 3}, [b"first", b"", b"third"]).to_bytes()


@given(envelopes)
def test_any_envelope_comes_back(sent: Envelope) -> None:
    found = Envelope.from_bytes(sent.to_bytes())
    assert (found.kind, found.facts, list(found.parts)) == (sent.kind, sent.facts, list(sent.parts))


def test_every_part_that_is_cut_or_longer_is_refused() -> None:
    for length in range(len(WHOLE)):
        with pytest.raises(WireError):
            Envelope.from_bytes(WHOLE[:length])
    with pytest.raises(WireError, match="cut off, or longer"):
        Envelope.from_bytes(WHOLE + b"\0")


def read_or_refuse(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(Envelope.from_bytes(data), Envelope)


def test_a_byte_that_was_changed_is_refused_or_read() -> None:
    for place in range(len(WHOLE)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            damaged = bytearray(WHOLE)
            damaged[place] ^= flip
            read_or_refuse(bytes(damaged))


@given(changes=st.lists(st.tuples(st.integers(0), st.binary(max_size=5)), max_size=4), cut=st.integers(0))
@example(changes=[], cut=0)
def test_forged_bytes_are_read_or_refused(changes: list[tuple[int, bytes]], cut: int) -> None:
    data = WHOLE
    for place, piece in changes:
        at = place % len(data)
        data = data[:at] + piece + data[at + len(piece) :]
    read_or_refuse(data[: len(data) - cut % len(data)])


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)
    read_or_refuse(MAGIC + bytes([VERSION]) + len(data).to_bytes(4, "big") + data)


def with_header(header: Any, rest: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MAGIC + bytes([VERSION]) + len(text).to_bytes(4, "big") + text + rest


GOOD = {"kind": "k", "facts": {}, "sizes": []}
HEADERS: dict[str, Any] = {
    "none": b"",
    "text": b"\xff\xfe",
    "list": [],
    "number": 3,
    "deep": b"[" * 50_000,
    "long-number": b'{"kind":"k","facts":{},"sizes":[' + b"9" * 9000 + b"]}",
    "no-kind": {"facts": {}, "sizes": []},
    "kind": GOOD | {"kind": 3},
    "facts": GOOD | {"facts": []},
    "sizes": GOOD | {"sizes": {}},
    "negative": GOOD | {"sizes": [-1, 1]},
    "real": GOOD | {"sizes": [0.0]},
    "truth": GOOD | {"sizes": [False]},
    "word": GOOD | {"sizes": ["0"]},
    "large": GOOD | {"sizes": [2**70]},
    "endless": b'{"kind":"k","facts":{},"sizes":[Infinity]}',
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_is_something_else_is_refused(header: Any) -> None:
    with pytest.raises(WireError):
        Envelope.from_bytes(with_header(header))


def test_a_header_that_is_too_long_is_refused_before_it_is_read() -> None:
    claimed = MAGIC + bytes([VERSION]) + (2**32 - 1).to_bytes(4, "big")
    with pytest.raises(WireError, match=r"a header of 4,294,967,295 bytes is too long"):
        Envelope.from_bytes(claimed + b"{}")
    with pytest.raises(WireError, match="is too long"):
        Envelope.from_bytes(with_header(b" " * (MOST_HEADER_BYTES + 1)))


def test_another_version_is_refused_with_advice() -> None:
    with pytest.raises(WireError, match="version 9, and this flatfed speaks 1; take the same release"):
        Envelope.from_bytes(MAGIC + bytes([9]) + WHOLE[PREFIX - 4 :])


def test_the_size_is_bounded_before_anything_is_read() -> None:
    Envelope.from_bytes(WHOLE, len(WHOLE))
    with pytest.raises(WireError, match=f"{len(WHOLE)} bytes, above the bound {len(WHOLE) - 1}"):
        Envelope.from_bytes(WHOLE, len(WHOLE) - 1)


class Harm:
    """Would end the interpreter if it were unpickled."""

    def __reduce__(self) -> Any:
        return exit, (3,)


def test_pickle_is_never_read() -> None:
    for data in (pickle.dumps(Harm()), with_header(pickle.dumps(Harm()))):
        with pytest.raises(WireError):
            Envelope.from_bytes(data)
