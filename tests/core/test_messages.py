"""Messages: counted exactly, carried bit for bit, and safe to read from a stranger."""

from __future__ import annotations

import copy
import json
import keyword
import pickle
import struct

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import flatfed as ff
from flatfed.core.method.messages import SCALAR_BYTES, Message

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
names = st.text("abcdefgh_wzAZ0Ωé", min_size=1, max_size=8).filter(
    lambda name: name.isidentifier() and not keyword.iskeyword(name)
)
numbers = st.floats(allow_nan=False) | st.sampled_from([5e-324, -0.0, 1.7976931348623157e308, 2.2250738585072014e-308])
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def vectors(draw: st.DrawFn) -> Tensor:
    shape, dtype = draw(shapes), draw(st.sampled_from(DTYPES))
    count = torch.Size(shape).numel()
    raw = torch.frombuffer(
        bytearray(draw(st.binary(min_size=8 * count, max_size=8 * count)) + b"\0"), dtype=torch.uint8
    )
    if dtype is torch.bool:
        return (raw[:count] > 127).view(shape)
    return raw[: count * torch.tensor([], dtype=dtype).element_size()].clone().view(dtype).view(shape)


contents = st.dictionaries(names, vectors() | numbers, max_size=5)


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


@settings(max_examples=100, deadline=None)
@given(contents=contents)
def test_the_wire_form_brings_every_bit_back(contents):
    message = Message(**contents)
    back = Message.from_bytes(message.to_bytes())
    assert back.vectors.keys() == message.vectors.keys()
    for name, tensor in message.vectors.items():
        assert (back.vectors[name].dtype, back.vectors[name].shape) == (tensor.dtype, tensor.shape)
        assert bits(back.vectors[name]) == bits(tensor)
    # a scalar that is not a number stays one; which of the many it was is not said
    packed = {name: struct.pack("d", value) for name, value in message.scalars.items() if value == value}
    assert {name: struct.pack("d", value) for name, value in back.scalars.items() if value == value} == packed
    assert back.scalars.keys() == message.scalars.keys()
    assert back.nbytes == message.nbytes


@settings(deadline=None)
@given(contents=contents)
def test_bytes_are_those_of_the_vectors_and_eight_for_each_scalar(contents):
    message = Message(**contents)
    vectors = [v for v in contents.values() if isinstance(v, Tensor) and v.ndim]
    expected = sum(len(bits(v)) for v in vectors) + SCALAR_BYTES * (len(contents) - len(vectors))
    assert message.nbytes == expected
    assert len(message.to_bytes()) >= sum(len(bits(v)) for v in vectors)


def test_views_and_transposes_travel_by_value():
    base = torch.arange(12.0)
    message = Message(w=base[2:6], b=base.view(3, 4).t(), c=base[::3])
    back = Message.from_bytes(message.to_bytes())
    assert all(torch.equal(back.vectors[name], v) for name, v in message.vectors.items())


@pytest.mark.parametrize("other", [lambda w: w, lambda w: w[:2], lambda w: w.view(2, 2)], ids=["same", "part", "view"])
def test_two_names_may_hold_one_tensor(other):
    w = torch.arange(4.0)
    back = Message.from_bytes(Message(w=w, previous=other(w)).to_bytes())
    assert torch.equal(back.w, w)
    assert torch.equal(back.previous, other(w))


def wire() -> bytes:
    return Message(w=torch.arange(5.0), c=torch.zeros(2, dtype=torch.float64), rho=0.1, steps=7).to_bytes()


def assert_read_or_refused(data: bytes) -> None:
    try:
        Message.from_bytes(data)
    except ff.FlatfedError as error:
        assert "not a flatfed message" in str(error)


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, len(wire()) - 1), value=st.integers(0, 255))
def test_a_changed_byte_is_read_as_a_message_or_refused(position, value):
    data = bytearray(wire())
    data[position] = value
    assert_read_or_refused(bytes(data))


@settings(max_examples=100, deadline=None)
@given(end=st.integers(0, len(wire()) - 1), tail=st.binary(max_size=4))
def test_truncated_bytes_are_refused(end, tail):
    with pytest.raises(ff.FlatfedError, match="not a flatfed message"):
        Message.from_bytes(wire()[:end])
    with pytest.raises(ff.FlatfedError, match="not a flatfed message"):
        Message.from_bytes(wire() + tail + b"\0")


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200))
@example(data=b"")
@example(data=pickle.dumps({"w": 1}))
def test_foreign_bytes_are_refused(data):
    with pytest.raises(ff.FlatfedError, match="not a flatfed message"):
        Message.from_bytes(data)


def forged(scalars: str | None = "{}", body: bytes = b"", **tensors: dict) -> bytes:
    """Return well-formed safetensors bytes with contents that flatfed never writes."""
    header = json.dumps(({"__metadata__": {"scalars": scalars}} if scalars is not None else {}) | tensors).encode()
    return len(header).to_bytes(8, "little") + header + body


def entry(shape: list[int], size: int, dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}


FORGED = {
    "no-scalars": forged(None),
    "scalars-not-json": forged("{"),
    "scalars-a-list": forged("[1]"),
    "scalar-null": forged('{"a": null}'),
    "scalar-text": forged('{"a": "x"}'),
    "scalar-huge-integer": forged('{"a": 1' + "0" * 400 + "}"),
    "scalars-nested-deeply": forged("[" * 100_000),
    "name-in-both": forged('{"w": 1.0}', bytes(4), w=entry([1], 4)),
    "unknown-type": forged("{}", bytes(1), w=entry([1], 1, "F8_E8M0")),
    "impossible-shape": forged("{}", b"", w=entry([0, 2**62, 4], 0)),
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED.keys())
def test_forged_bytes_are_refused_and_raise_nothing_else(data):
    with pytest.raises(ff.FlatfedError, match="not a flatfed message"):
        Message.from_bytes(data)


def test_any_name_in_the_bytes_is_read_or_refused():
    assert_read_or_refused(forged('{"self": 1.0}'))
    assert_read_or_refused(forged("{}", bytes(4), self=entry([1], 4)))


def test_messages_are_never_pickled():
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="never pickled"):
            pickle.dumps(Message(w=torch.zeros(2)), protocol)
    with pytest.raises(TypeError, match="never pickled"):
        copy.copy(Message(w=torch.zeros(2)))


def test_reading_and_joining():
    left, right = Message(w=torch.ones(2), a=1), Message(a=2.0, c=torch.zeros(1))
    both = left | right
    assert (both.w is left.w, both.c is right.c, both.scalars) == (True, True, {"a": 2.0})
    assert "a" in both
    assert "x" not in both
    assert not Message()
    assert (left | Message()).contents == left.contents
    with pytest.raises(AttributeError, match=r"no vector 'v'.*'c', 'w'"):
        _ = both.v
