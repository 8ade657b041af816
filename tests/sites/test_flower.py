"""Bytes in Flower's messages, and the bound on arrays before they are put together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict
from flwr.app.message.array import ArrayChunk
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    add_header_to_object_body,
    get_all_nested_objects,
    get_object_children_ids_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from flatfed.core.errors import ConfigError, EngineError
from flatfed.core.method.envelope import Envelope
from flatfed.engines.sites.transport import NoAnswer
from flatfed.flower import client_app
from flatfed.flower.grid_transport import GridTransport
from flatfed.flower.inflation import bounded_arrays
from flatfed.flower.records import from_records, to_records
from flatfed.flower.server_app import wanted
from sites.bench import Forked

CHUNK = 5 << 20
"""What Flower cuts arrays into."""


@given(st.binary(max_size=2000))
def test_any_bytes_come_back(data: bytes) -> None:
    assert from_records(to_records(data)) == data


def array(data: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(data),), stype="bytes", data=data)


def inflated(sent: Array, limit: int) -> Array:
    with bounded_arrays(limit):
        return Array.inflate(sent.deflate(), sent.children)


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7])
def test_an_array_is_read_up_to_the_bound_and_not_above(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    sent = array(data[:size])
    assert inflated(sent, size).data == data[:size]
    if size:
        with pytest.raises(ValueError, match="above the bound"):
            inflated(sent, size - 1)


def test_equal_pieces_are_counted_as_often_as_they_are_named() -> None:
    sent = array(bytes(3 * CHUNK))
    assert len(sent.children) == 1
    assert len(inflated(sent, 3 * CHUNK).data) == 3 * CHUNK
    with pytest.raises(ValueError, match=r"15,728,640 bytes, above the bound 15,728,639"):
        inflated(sent, 3 * CHUNK - 1)


def test_one_piece_named_a_thousand_times_is_refused_before_it_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = ArrayChunk(memoryview(bytes(1 << 20)))
    sent = array(bytes(1 << 20))
    body = json.loads(sent.deflate().partition(b"\0")[2])
    forged = json.dumps(body | {"arraychunk_ids": [0] * 1000}).encode()
    content = add_header_to_object_body(object_body=forged, obj=sent)
    assert get_object_children_ids_from_object_content(content) == [piece.object_id]
    joined: list[Any] = []
    real = Array.inflate
    monkeypatch.setattr(Array, "inflate", classmethod(lambda cls, *given: joined.append(given) or real(*given)))
    with bounded_arrays(1 << 24), pytest.raises(ValueError, match=r"1,048,576,000 bytes, above the bound"):
        Array.inflate(content, {piece.object_id: piece})
    assert joined == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"3", b"{}", b'{"arraychunk_ids": [7]}', b'{"arraychunk_ids": ["a"]}', b"\xff"]
)
def test_a_forged_array_is_a_value_error(body: bytes) -> None:
    sent = array(b"some")
    content = add_header_to_object_body(object_body=body, obj=sent)
    with bounded_arrays(100), pytest.raises(ValueError, match=r"cannot be put together"):
        Array.inflate(content, sent.children)


def test_several_arrays_of_a_message_share_the_bound() -> None:
    first, second = array(b"a" * 60), array(b"b" * 60)
    with bounded_arrays(100):
        Array.inflate(first.deflate(), first.children)
        with pytest.raises(ValueError, match="120 bytes, above the bound 100"):
            Array.inflate(second.deflate(), second.children)


def test_the_bound_ends_with_the_message() -> None:
    sent = array(b"a" * 60)
    with bounded_arrays(10), pytest.raises(ValueError, match="above the bound"):
        Array.inflate(sent.deflate(), sent.children)
    assert Array.inflate(sent.deflate(), sent.children).data == sent.data
    assert len(get_all_nested_objects(to_records(b"abc"))) > 1


ODD = {
    "nothing": RecordDict({}),
    "other-name": RecordDict({"x": ArrayRecord({"envelope": array(b"a")})}),
    "other-entry": RecordDict({"flatfed": ArrayRecord({"x": array(b"a")})}),
    "other-kind": RecordDict({"flatfed": ArrayRecord({"envelope": Array("uint8", (1,), "numpy.ndarray", b"a")})}),
}


@pytest.mark.parametrize("records", ODD.values(), ids=ODD.keys())
def test_records_that_hold_something_else(records: RecordDict) -> None:
    with pytest.raises(ValueError, match="this message holds"):
        from_records(records)


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let messages be made, as in the process of an app."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Store(Grid):
    """Messages as a SuperLink stores them: in pieces, put together when they are pulled. `answer` is the node."""

    def __init__(self, answer: Callable[[Message], Message | Exception | None]) -> None:
        self.answer, self.forge = answer, dict[str, bytes]()
        self.waiting: dict[str, Message] = {}

    def get_node_ids(self) -> list[int]:
        return [7, 5]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        pushed = {str(number): message for number, message in enumerate(messages)}
        self.waiting |= pushed
        return list(pushed)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        (identity,) = message_ids
        reply = self.answer(self.waiting[identity])
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            return []
        if reply.has_error():
            return [reply]
        records = reply.content
        contents = {name: part.deflate() for name, part in get_all_nested_objects(records).items()}
        for name, content in contents.items():
            contents[name] = self.forge.get(content.partition(b" ")[0].decode(), content)
        reply.content = cast(RecordDict, inflate_object_from_contents(records.object_id, contents))
        return [reply]

    def set_run(self, *given: Any) -> None: ...
    def create_message(self, *given: Any) -> Any: ...
    def get_nodes(self) -> Any: ...
    def send_and_receive(self, *given: Any, **more: Any) -> Any: ...
    @property
    def run(self) -> Any: ...


def echoed(message: Message) -> Message:
    return Message(to_records(from_records(message.content)[::-1]), reply_to=delivered(message))


def delivered(message: Message) -> Message:
    """Return a message as a node has it."""
    message.metadata.__dict__["_message_id"] = "1"
    return message


def asked(store: Store, seconds: float = 300.0, limit: int = 1000) -> dict[str, Any]:
    return dict(GridTransport(store).ask({"5": b"abc", "7": b"xyz"}, seconds, limit, lambda: None))


def test_bytes_go_to_nodes_and_back() -> None:
    assert GridTransport(Store(echoed)).addresses() == ["5", "7"]
    assert asked(Store(echoed)) == {"5": b"cba", "7": b"zyx"}


def test_a_node_that_does_not_answer_is_given_up() -> None:
    answers = asked(Store(lambda message: None), 0.01)
    assert answers == {"5": NoAnswer("no reply within 0.01 s"), "7": NoAnswer("no reply within 0.01 s")}


def test_an_answer_above_the_bound_is_not_put_together() -> None:
    reasons = [answer.reason for answer in asked(Store(echoed), limit=2).values()]
    assert reasons == ["an answer that cannot be read: 3 bytes, above the bound 2"] * 2


@pytest.mark.parametrize("kind", ["Array", "ArrayRecord", "RecordDict", "ArrayChunk"])
@pytest.mark.parametrize("content", [b"", b"Array 0\0", b"RecordDict 2\0{}", b"ArrayRecord 2\0[]", b"\xff\0\0"])
def test_forged_content_is_no_answer(kind: str, content: bytes) -> None:
    store = Store(echoed)
    store.forge[kind] = content
    for answer in asked(store).values():
        assert isinstance(answer, NoAnswer)
        assert answer.reason


def test_a_node_that_failed_says_why() -> None:
    failed = asked(Store(lambda message: Message(Error(1, "bad \x1b[2J"), reply_to=delivered(message))))
    assert [answer.reason for answer in failed.values()] == [r"the node failed: bad \x1b[2J"] * 2


def test_a_superlink_that_is_away_ends_the_run_with_advice() -> None:
    with pytest.raises(EngineError, match=r"cannot be reached .*; resume the run when it is back"):
        asked(Store(lambda message: httpx.ConnectError("refused")))


def test_a_connection_that_is_cut_is_made_again() -> None:
    cut = iter([httpx.ConnectError("[SSL: UNEXPECTED_EOF_WHILE_READING]"), httpx.ReadError("cut")])
    store = Store(lambda message: next(cut, None) or echoed(message))
    assert asked(store) == {"5": b"cba", "7": b"zyx"}


def test_a_superlink_that_fails_ends_the_run_with_advice() -> None:
    request = httpx.Request("POST", "https://link")
    failed = httpx.HTTPStatusError("no", request=request, response=httpx.Response(500, request=request))
    with pytest.raises(EngineError, match=r"cannot be reached \(no\); resume the run when it is back"):
        asked(Store(lambda message: failed))


def test_a_run_that_was_stopped_at_the_superlink_ends_with_advice() -> None:
    request = httpx.Request("POST", "https://link")
    refused = httpx.HTTPStatusError("no", request=request, response=httpx.Response(401, request=request))
    with pytest.raises(EngineError, match=r"refuses this run \(401\): it was stopped there; go on with resume=true"):
        asked(Store(lambda message: refused))


def context(**node_config: str) -> Context:
    return Context(run_id=1, node_id=1, node_config=dict(node_config), state=RecordDict(), run_config={})


def test_the_app_of_a_node_passes_bytes_on_to_the_site(sites: Forked) -> None:
    sent = delivered(Message(to_records(Envelope("hello").to_bytes()), dst_node_id=5, message_type="query", ttl=300.0))
    reply = client_app.app(sent, context(**{"site-socket": sites.address("b")}))
    assert Envelope.from_bytes(from_records(reply.content)).facts["site"] == "b"


@pytest.mark.parametrize(
    ("node_config", "reason"), [({}, "no site-socket"), ({"site-socket": "/no"}, "does not answer")]
)
def test_the_app_of_a_node_without_its_site_says_so(node_config: dict[str, str], reason: str) -> None:
    sent = delivered(Message(to_records(b"abc"), dst_node_id=5, message_type="query", ttl=300.0))
    with pytest.raises((ValueError, RuntimeError), match=reason):
        client_app.app(sent, context(**node_config))


def test_a_run_configuration() -> None:
    found = wanted({"method": "scaffold", "sites": "a, b,", "rounds": 3, "lr": 0.1, "checkpoint_every": 2, "model": ""})
    assert (found.method, found.sites, found.checkpoint_every) == ("scaffold", ["a", "b"], 2)
    assert found.settings == {"rounds": 3, "lr": 0.1}
    assert wanted({}).checkpoint_every is None
    with pytest.raises(ConfigError, match="did you mean"):
        wanted({"metod": "fedavg"})
    with pytest.raises(ConfigError, match="must be JSON"):
        wanted({"model_options": "hidden=64"})


@pytest.mark.parametrize("name", ["sampling", "roll_call_seconds", "checkpoint_every", "resume_rounds"])
def test_a_number_of_the_run_configuration_that_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        wanted({name: "many"})


@pytest.mark.parametrize("name", ["resume", "exact"])
def test_a_truth_of_the_run_configuration(name: str) -> None:
    assert getattr(wanted({name: True}), name) is True
    assert getattr(wanted({name: "false"}), name) is False
    with pytest.raises(ConfigError, match=name):
        wanted({name: "maybe"})
