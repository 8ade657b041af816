"""Bad answers are rejected with a reason, each for its client or its site alone, and the run goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from flatfed.core.method.engine import Reply
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.method.wire import decode_reply, encode_reply
from flatfed.engines.sites.transport import Answer
from flatfed.engines.sites.versions import handle
from flatfed.experiments.federating.federate import federate
from sites.bench import Changed, assert_same, federated, services_in, simulated, wanted

ALL: dict[str, Any] = {"sampling": 5, "rounds": 3}
WHEN = (1, 0, 0)
VICTIM = 2
"""The one client of site b."""


def altered(change: Callable[[Reply], Reply | bytes]) -> Callable[[Answer], Answer]:
    """Change the first reply in an answer."""

    def alter(answer: Answer) -> Answer:
        assert isinstance(answer, bytes)
        envelope = Envelope.from_bytes(answer)
        changed = change(decode_reply(envelope.parts[0]))
        first = changed if isinstance(changed, bytes) else encode_reply(changed)
        return Envelope(envelope.kind, envelope.facts, [first, *envelope.parts[1:]]).to_bytes()

    return alter


def with_vectors(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Reply], Reply]:
    def changed(reply: Reply) -> Reply:
        vectors = {name: change(vector) for name, vector in reply.message.vectors.items()}
        return replace(reply, message=Message.of(vectors, reply.message.scalars))

    return changed


def poisoned(vector: torch.Tensor) -> torch.Tensor:
    changed = vector.clone()
    changed[0] = math.nan
    return changed


REPLIES: dict[str, tuple[Callable[[Reply], Reply | bytes], str]] = {
    "nan": (with_vectors(poisoned), "is not finite"),
    "shape": (with_vectors(lambda vector: vector[1:]), "has shape (50,), not (51,)"),
    "type": (with_vectors(lambda vector: vector.double()), "torch.float64"),
    "garbage": (lambda reply: b"\xff" * 40, "these bytes are no flatfed reply"),
    "other-client": (lambda reply: replace(reply, client=0), "answers for client 0"),
    "nobody": (lambda reply: replace(reply, client=-1), "answers for client -1"),
    "samples": (lambda reply: replace(reply, samples=1000), "1000"),
    "old-round": (lambda reply: replace(reply, round=0), "answers round 0.0, not 1.0"),
    "old-attempt": (lambda reply: replace(reply, attempt=4), "answers attempt 5 at the round, not 1"),
    "exchange": (lambda reply: replace(reply, exchange=1), "answers round 1.1, not 1.0"),
    "state": (lambda reply: replace(reply, kept=State({"c": torch.zeros(51)})), "holds a state or a model"),
    "no-version": (lambda reply: replace(reply, kept=None), "holds a state or a model"),
    "negative-version": (lambda reply: replace(reply, kept=handle(-4)), "holds a state or a model"),
    "real-version": (lambda reply: replace(reply, kept=State({"version": torch.tensor(1.5)})), "holds a state"),
    "model": (lambda reply: replace(reply, model=torch.zeros(51)), "holds a state or a model"),
    "missing": (
        lambda reply: replace(reply, missing="the dog \x1b[2J ate \ud800 it"),
        r"the dog \x1b[2J ate \ud800 it",
    ),
}


@pytest.mark.parametrize(("change", "reason"), REPLIES.values(), ids=REPLIES.keys())
def test_a_bad_reply_is_rejected_with_its_reason(
    change: Callable[[Reply], Reply | bytes], reason: str, home: Path
) -> None:
    run = federated(Changed(services_in(home), {("b", WHEN): altered(change)}), "scaffold", home / "run", **ALL)
    assert run.status == "finished"
    (rejected,) = run.history[1]["rejected"]
    assert rejected["client"] == VICTIM
    assert reason in rejected["reason"]
    rejected["reason"].encode()
    expected = simulated("scaffold", {("b", WHEN): rejected["reason"]}, **ALL)
    assert [row["clients"] for row in run.history] == [row["clients"] for row in expected.history]
    assert torch.equal(run.vector, expected.vector)


def whole(change: Callable[[bytes], bytes]) -> Callable[[Answer], Answer]:
    def alter(answer: Answer) -> Answer:
        assert isinstance(answer, bytes)
        return change(answer)

    return alter


def parts(change: Callable[[list[bytes]], list[bytes]], kind: str = "replies") -> Callable[[Answer], Answer]:
    return whole(lambda answer: Envelope(kind, {}, change(list(Envelope.from_bytes(answer).parts))).to_bytes())


ANSWERS: dict[str, tuple[Callable[[Answer], Answer], str]] = {
    "nothing": (whole(lambda answer: b""), "these bytes are no flatfed envelope"),
    "garbage": (whole(lambda answer: b"\0" * 99), "these bytes are no flatfed envelope"),
    "cut": (whole(lambda answer: answer[:-1]), "cut off"),
    "oversized": (whole(lambda answer: answer + bytes(1 << 24)), "above the bound"),
    "one-missing": (parts(lambda found: found[1:]), "answers with 1 parts of 'replies' for 2 jobs"),
    "one-more": (parts(lambda found: [*found, found[0]]), "answers with 3 parts of 'replies' for 2 jobs"),
    "another-kind": (parts(lambda found: found, "metrics"), "answers with 2 parts of 'metrics' for 2 jobs"),
    "refused": (whole(lambda answer: Envelope("refused", {"reason": "no\x07"}).to_bytes()), r"no\x07"),
    "refused-oddly": (whole(lambda answer: Envelope("refused", {"reason": ["no"]}).to_bytes()), "['no']"),
}


@pytest.mark.parametrize(("change", "reason"), ANSWERS.values(), ids=ANSWERS.keys())
def test_a_bad_answer_fails_all_clients_of_its_site(
    change: Callable[[Answer], Answer], reason: str, home: Path
) -> None:
    run = federated(Changed(services_in(home), {("c", WHEN): change}), "scaffold", home / "run", **ALL)
    rejected = run.history[1]["rejected"]
    assert [entry["client"] for entry in rejected] == [3, 4]
    assert all(entry["reason"].startswith("the site c: ") and reason in entry["reason"] for entry in rejected)
    assert_same(run, simulated("scaffold", {("c", WHEN): rejected[0]["reason"]}, **ALL), home)


def test_replies_in_the_wrong_order_are_all_rejected(home: Path) -> None:
    transport = Changed(services_in(home), {("c", WHEN): parts(lambda found: found[::-1])})
    run = federated(transport, "scaffold", home / "run", **ALL)
    reasons = {entry["client"]: entry["reason"] for entry in run.history[1]["rejected"]}
    assert reasons == {3: "answers for client 4", 4: "answers for client 3"}


def test_answers_of_the_evaluation_that_are_none_are_passed_over(home: Path) -> None:
    class Lying(Changed):
        def ask(self, requests: Any, *others: Any) -> Any:
            for address, answer in super().ask(requests, *others):
                is_evaluation = Envelope.from_bytes(requests[address]).kind == "evaluate"
                yield address, (forged[address] if is_evaluation and address in forged else answer)

    facts = {"metrics": {"accuracy": math.nan, "loss": "low", "examples": 9, "a b": 1, "good": 2.0, "x": True}}
    forged = {"a": b"\0\1", "b": Envelope("metrics", facts).to_bytes()}
    said: list[str] = []
    run = federate(
        wanted("fedavg", home / "run", rounds=1, sampling=5), Lying(services_in(home), {}), None, said.append
    )
    assert "the site a cannot evaluate the model: these bytes are no flatfed envelope" in said
    row = run.history[0]
    assert sorted(row["sites"]) == ["b", "c"]
    assert row["sites"]["b"] == {"examples": 9.0, "good": 2.0}
    assert row["test_accuracy"] == row["sites"]["c"]["accuracy"]
