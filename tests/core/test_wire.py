"""Jobs and replies as bytes: every bit comes back, and what a stranger sends is a `WireError`, whatever is in it."""

from __future__ import annotations

import contextlib
import json
import math
import pickle
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from flatfed.core.method.engine import Job, Reply, failure, no_reply
from flatfed.core.method.messages import Message, metadata_of, pack, unpack
from flatfed.core.method.state import State
from flatfed.core.method.wire import (
    MOST_HEADER_BYTES,
    WireError,
    decode_job,
    decode_reply,
    encode_job,
    encode_reply,
)

LARGEST = 2**62
TINY = 5e-324


def job() -> Job:
    kept = State({"sigma": torch.tensor([1.5, -0.0]), "count": torch.tensor(3.0, dtype=torch.float64)})
    personal = Message(v=torch.tensor([math.nan, math.inf, TINY], dtype=torch.float64), n=-0.0, tiny=TINY)
    return Job(7, 11, 1, 0.1, kept, personal, shows_model=True, attempt=2)


def reply() -> Reply:
    return Reply(
        client=7,
        round=11,
        exchange=1,
        message=Message(w=torch.randn(5), counters=torch.tensor([LARGEST, -LARGEST]), n=1 / 3),
        samples=120,
        steps=9,
        backprops=18,
        loss=0.1 + 0.2,
        kept=State({"sigma": torch.randn(3).bfloat16(), "none": torch.zeros(0)}),
        watch={"cosine": -0.0, "ratio": 1e300},
        drift=TINY,
        model=torch.randn(4),
        seconds=0.25,
        attempt=3,
    )


def plain(value: Any) -> Any:
    """Return something whose equality is equality of bits."""
    if isinstance(value, Tensor):
        raw = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return str(value.dtype), tuple(value.shape), raw
    if isinstance(value, Message):
        return plain(value.vectors), plain(value.scalars)
    if isinstance(value, State):
        return plain(value.tensors())
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    return type(value).__name__, value


def contents(sent: Job | Reply) -> dict[str, Any]:
    return {field.name: plain(getattr(sent, field.name)) for field in fields(sent)}


JOBS = {
    "full": job(),
    "empty": Job(0, 0, 0, 0.0, State({})),
    "only a state": Job(1, 2, 0, -0.0, State({"a/b": torch.ones(2), "count": torch.tensor(4)})),
}
REPLIES = {
    "full": reply(),
    "empty": Reply(0, 0, 0, Message(), 0, 0, 0, None),
    "no state": replace(reply(), kept=None, model=None),
    "an empty state": replace(reply(), kept=State({})),
    "a loss that is not a number": replace(reply(), loss=math.nan, drift=math.inf),
    "minus zero": replace(reply(), loss=-0.0, drift=-0.0, seconds=-0.0),
    "whole numbers": replace(reply(), watch={"n": 3.0}, steps=2**40),
    "a failure": failure(job(), "the site is offline: „Müller“"),
    "late": no_reply(job(), 1.5),
}


@pytest.mark.parametrize("sent", JOBS.values(), ids=JOBS.keys())
def test_a_job_comes_back_to_the_bit(sent: Job) -> None:
    assert contents(decode_job(encode_job(sent))) == contents(sent)


@pytest.mark.parametrize("sent", REPLIES.values(), ids=REPLIES.keys())
def test_a_reply_comes_back_to_the_bit(sent: Reply) -> None:
    assert contents(decode_reply(encode_reply(sent))) == contents(sent)


def test_views_and_shared_memory_travel_by_value() -> None:
    base = torch.arange(12.0)
    sent = replace(reply(), message=Message(w=base[2:6], v=base[::3]), kept=State({"a": base, "b": base}), model=base)
    assert contents(decode_reply(encode_reply(sent))) == contents(sent)


numbers = st.floats() | st.sampled_from([-0.0, TINY, 1.7976931348623157e308])
wholes = st.integers(0, 2**53)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
vectors = st.lists(st.floats(width=32), max_size=4).map(torch.tensor)


@given(wholes, numbers, st.dictionaries(names, vectors, max_size=3), st.dictionaries(names, numbers, max_size=3))
def test_any_job_comes_back(number: int, lr: float, kept: dict[str, Tensor], scalars: dict[str, float]) -> None:
    sent = Job(number, number, 0, lr, State(kept), Message.of({}, scalars), attempt=number)
    assert contents(decode_job(encode_job(sent))) == contents(sent)


# --- what is no message ------------------------------------------------------------------------------------------

Decode = Callable[[bytes], Any]
WIRES = {"job": (decode_job, encode_job(job())), "reply": (decode_reply, encode_reply(reply()))}
both = pytest.mark.parametrize(("decode", "whole"), WIRES.values(), ids=WIRES.keys())


def test_a_job_is_no_reply() -> None:
    with pytest.raises(WireError, match="are a flatfed 'job', not a reply"):
        decode_reply(WIRES["job"][1])
    with pytest.raises(WireError, match="are a flatfed 'reply', not a job"):
        decode_job(WIRES["reply"][1])
    with pytest.raises(WireError, match="no flatfed job"):
        decode_job(Message(w=torch.zeros(2)).to_bytes())


def changed(whole: bytes, **metadata: Any) -> bytes:
    """Return a message with other metadata, or without an entry where it is None."""
    entries = {name: value for name, value in (metadata_of(whole) | metadata).items() if value is not None}
    return pack(unpack(whole), entries)


def with_facts(whole: bytes, **facts: Any) -> bytes:
    known = json.loads(metadata_of(whole)["facts"])
    entries = {name: value for name, value in (known | facts).items() if value is not ...}
    return changed(whole, facts=json.dumps(entries))


@both
def test_another_version_is_refused_with_advice(decode: Decode, whole: bytes) -> None:
    with pytest.raises(WireError, match=r"wire version '2', and this flatfed speaks 1; take the same release"):
        decode(changed(whole, version="2"))


@pytest.mark.parametrize("facts", [None, "", "[]", "7", "null", '{"round": 1', "[" * 9999, '{"round": 1e999999}'])
@both
def test_numbers_that_are_none_are_refused(decode: Decode, whole: bytes, facts: str | None) -> None:
    with pytest.raises(WireError):
        decode(changed(whole, facts=facts))


WRONG: list[tuple[str, Any]] = [
    *(("client", value) for value in (..., None, "7", 7.5, True, [7], 1e400)),
    *(("attempt", value) for value in (..., None, False, "0")),
    *(
        ("scalars", value)
        for value in (..., None, 3, "ab", ["a"], {"n": "x"}, {"n": None}, {"n": True}, {"n": 10**400})
    ),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(value)[:20])
@both
def test_a_number_of_another_kind_is_refused_by_name(decode: Decode, whole: bytes, name: str, value: Any) -> None:
    with pytest.raises(WireError, match="is missing or not what it should be"):
        decode(with_facts(whole, **{name: value}))


@pytest.mark.parametrize(
    ("name", "value"), [("loss", "low"), ("missing", 3), ("keeps", 1), ("watch", [1]), ("drift", None)]
)
def test_the_numbers_of_a_reply_too(name: str, value: Any) -> None:
    with pytest.raises(WireError, match="is missing or not what it should be"):
        decode_reply(with_facts(WIRES["reply"][1], **{name: value}))


@both
def test_a_vector_and_a_number_of_one_name_are_refused(decode: Decode, whole: bytes) -> None:
    name = next(name.partition("/")[2] for name in unpack(whole) if name.partition("/")[0] in ("vector", "personal"))
    with pytest.raises(WireError, match="a vector and a number at once"):
        decode(with_facts(whole, scalars={name: 1.0}))


@pytest.mark.parametrize("name", ["other", "other/w", "kept", "vectors/w", "/w", ""])
@both
def test_a_tensor_without_a_place_is_refused(decode: Decode, whole: bytes, name: str) -> None:
    with pytest.raises(WireError, match="no place for a tensor"):
        decode(pack(unpack(whole) | {name: torch.zeros(2)}, metadata_of(whole)))


def test_a_state_that_a_reply_says_it_lacks_is_refused() -> None:
    with pytest.raises(WireError, match="no place for a tensor 'kept/"):
        decode_reply(with_facts(WIRES["reply"][1], keeps=False))


@both
def test_the_size_is_bounded_before_anything_is_read(decode: Any, whole: bytes) -> None:
    decode(whole, limit=len(whole))
    with pytest.raises(WireError, match=f"{len(whole):,} bytes, above the bound {len(whole) - 1:,}"):
        decode(whole, limit=len(whole) - 1)
    with pytest.raises(WireError, match="above the bound 10"):
        decode(b"\xff" * 1000, limit=10)


@both
def test_a_header_that_is_too_long_is_refused_before_it_is_read(decode: Decode, whole: bytes) -> None:
    claimed = struct.pack("<Q", MOST_HEADER_BYTES + 1) + whole[8:]
    with pytest.raises(WireError, match="a header of 1,048,577 bytes, above the bound"):
        decode(claimed)
    with pytest.raises(WireError, match="above the bound"):
        decode(changed(whole, more="x" * MOST_HEADER_BYTES))


class Harm:
    """Would end the interpreter if it were unpickled."""

    def __reduce__(self) -> Any:
        return exit, (3,)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"{}", bytes(8), b"\xff" * 64, pickle.dumps({"w": 1.0}), pickle.dumps(Harm())]
)
@both
def test_what_is_something_else_is_refused(decode: Decode, whole: bytes, data: bytes) -> None:
    with pytest.raises(WireError, match="no flatfed"):
        decode(data)
    with pytest.raises(WireError):
        decode(struct.pack("<Q", len(data)) + data)


@both
def test_what_is_cut_short_or_longer_is_refused(decode: Decode, whole: bytes) -> None:
    for length in range(len(whole)):
        with pytest.raises(WireError):
            decode(whole[:length])
    with pytest.raises(WireError):
        decode(whole + b"\0")


@both
def test_a_byte_that_was_flipped_is_refused_or_reads_as_numbers(decode: Decode, whole: bytes) -> None:
    """Bytes of a tensor may become any numbers: what they mean is checked where they are used."""
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        read_or_refuse(decode, bytes(damaged))


def read_or_refuse(decode: Decode, data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert isinstance(decode(data), Job | Reply)


@both
@given(changes=st.lists(st.tuples(st.integers(0), st.binary(max_size=5)), max_size=4), cut=st.integers(0))
@example(changes=[], cut=0)
def test_forged_bytes_are_read_or_refused(
    decode: Decode, whole: bytes, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = whole
    for place, piece in changes:
        at = place % len(data)
        data = data[:at] + piece + data[at + len(piece) :]
    read_or_refuse(decode, data[: len(data) - cut % len(data)])


@both
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(decode: Decode, whole: bytes, data: bytes) -> None:
    read_or_refuse(decode, data)
    read_or_refuse(decode, struct.pack("<Q", len(data)) + data)
