"""A bad reply is refused with a reason; the round goes on as if that client had not been asked.

Reasons are for people and count rounds from 1; history rows count from 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import flatfed as ff
from core.bench import flat, net, normed, pairs, same_run, task, train
from flatfed.core.method.client import Client
from flatfed.core.method.engine import Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.round.expectation import Expectation

Spoil = Callable[[Message], Message]
SIZE = len(flat(normed()))
ALL = [0, 1, 2, 3]


def with_entry(vector: torch.Tensor, value: float) -> torch.Tensor:
    vector = vector.clone()
    vector[len(vector) // 2] = value
    return vector


FAULTS: dict[str, tuple[Spoil, str]] = {
    "nan": (lambda m: Message(w=with_entry(m.w, math.nan), dc=m.dc), "w is not finite"),
    "inf": (lambda m: Message(w=m.w, dc=with_entry(m.dc, -math.inf)), "dc is not finite"),
    "both-infinities": (lambda m: Message(w=m.w, dc=m.dc * math.inf), "dc is not finite"),
    "scalar-nan": (lambda m: m | Message(s=math.nan), "scalar is not finite"),
    "short": (lambda m: Message(w=m.w[:-1], dc=m.dc), rf"w has shape \({SIZE - 1},\), not \({SIZE},\)"),
    "long": (lambda m: Message(w=torch.cat([m.w, m.w]), dc=m.dc), rf"w has shape \({2 * SIZE},\)"),
    "matrix": (lambda m: Message(w=m.w.view(1, -1), dc=m.dc), rf"w has shape \(1, {SIZE}\)"),
    "number": (lambda m: Message(w=m.w, dc=m.dc.sum()), "lacks dc"),
    "type": (lambda m: Message(w=m.w.float(), dc=m.dc), "w is torch.float32, not torch.float64"),
    "missing": (lambda m: Message(w=m.w), "lacks dc"),
    "unexpected": (lambda m: m | Message(extra=m.w), "has unexpected extra"),
    "renamed": (lambda m: Message(w=m.w, d=m.dc), "lacks dc and has unexpected d"),
    "far": (lambda m: Message(w=m.w + 1e4, dc=m.dc), r"norm .* above the bound 1000"),
}


def faulty(spoil: Spoil, who: set[int], rounds: set[int] | None = None, base: type = ff.SCAFFOLD) -> Any:
    """Return a method whose clients `who` spoil their reply (in these rounds only)."""

    class Faulty(base):
        def finish(self, client: Client) -> Message:
            reply = super().finish(client)
            bad = client.id in who and (rounds is None or client.round in rounds)
            return spoil(reply) if bad else reply

    return Faulty()


@pytest.mark.parametrize(("spoil", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_a_bad_reply_is_refused_and_the_round_is_that_of_the_others(spoil, reason):
    bounds = {"max_update_norm": 1e3, "batch_size": 4}
    problem = task(normed(), pairs((4, 8, 3, 6)))
    run = train(problem, faulty(spoil, {1}, {1}), [ALL] * 3, **bounds)
    (refused,) = run.history[1]["rejected"]
    assert refused["client"] == 1
    assert re.search(reason, refused["reason"])
    assert all("refused" not in run.history[t] for t in (0, 2))
    without = train(problem, ff.make("scaffold"), [ALL, [0, 2, 3], ALL], **bounds)
    assert same_run(run, without, 4)
    for name, tensor in run.model().state_dict().items():
        assert torch.equal(tensor, without.model().state_dict()[name])
    for row, expected in zip(run.history, without.history, strict=True):
        shown = ("clients", "train_loss", "test_loss", "update_norm")
        assert [row[name] for name in shown] == [expected[name] for name in shown]
    assert run.summary["rejected"] == 1


def test_a_client_refused_in_the_first_exchange_is_not_asked_in_the_second():
    run = train(task(), faulty(lambda m: Message(w=m.w[1:]), {1}, {1}, ff.NaiveFedGloSS), [ALL] * 3)
    without = train(task(), ff.make("naivefedgloss"), [ALL, [0, 2, 3], ALL])
    assert len(run.history[1]["rejected"]) == 1
    assert same_run(run, without, 4)
    one_message = 8 * len(flat(net()))
    extra = run.history[1]["bytes_down"] - without.history[1]["bytes_down"]
    assert one_message <= extra < one_message + 64


def test_the_update_norm_is_measured_from_the_model_sent():
    distance = {}

    class Reach(ff.Algorithm):
        def finish(self, client: Client) -> Message:
            distance[client.id] = float((client.w - client.start).norm())
            return super().finish(client)

    train(task(), Reach(), [ALL], local_epochs=2)
    bound = sorted(distance.values())[1] * (1 + 1e-9)
    run = train(task(), ff.make("fedavg"), [ALL], local_epochs=2, max_update_norm=bound)
    assert run.history[0]["clients"] == sorted(k for k in distance if distance[k] <= bound)
    assert len(run.history[0]["rejected"]) == 2


@pytest.mark.parametrize("fault", ["missing", "nan"])
def test_too_few_good_replies_are_tried_again_with_another_cohort(fault):
    cohorts = [ff.Uniform(2).draw(4, 0, 0, attempt) for attempt in range(2)]
    bad = (set(cohorts[0]) - set(cohorts[1])).pop()
    run = train(task(), faulty(FAULTS[fault][0], {bad}), sampling=2, rounds=1, min_replies=2)
    row = run.history[0]
    assert (run.status, row["attempts"], row["clients"]) == ("finished", 2, cohorts[1])
    assert [entry["client"] for entry in row["rejected"]] == [bad]
    expected = train(task(), ff.make("scaffold"), [cohorts[1]])
    assert same_run(run, expected, 4)
    assert row["bytes_down"] == 2 * expected.history[0]["bytes_down"]
    assert row["backprops"] == 2 * expected.history[0]["backprops"]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_without_enough_good_replies_the_run_stops_and_keeps_what_it_reached(retries):
    bad = faulty(FAULTS["short"][0], set(ALL), {2, 3})
    run = train(task(), bad, sampling=2, rounds=5, retries=retries)
    assert (run.status, len(run.history)) == ("stopped", 3)
    assert "round 3: 0 good replies of 2, 1 needed" in run.reason
    assert "w has shape" in run.reason
    assert run.history[2].get("attempts", 1) == retries + 1
    assert len(run.history[2]["rejected"]) == 2 * (retries + 1)
    assert run.history[2]["clients"] == []
    assert same_run(run, train(task(), ff.make("scaffold"), sampling=2, rounds=2), 4)


def test_a_round_that_failed_in_its_second_exchange_has_no_clients():
    class Late(ff.NaiveFedGloSS):
        def finish(self, client: Client) -> Message:
            reply = super().finish(client)
            return reply if client.exchange == 0 else Message(w=reply.w[1:])

    run = train(task(), Late(), [ALL], retries=1)
    row = run.history[0]
    assert (run.status, row["attempts"], len(row["rejected"])) == ("stopped", 2, 8)
    assert (row["clients"], row["train_loss"], row["update_norm"]) == ([], None, 0.0)
    assert torch.equal(run.vector, flat(net()))
    assert all(not v.any() for k in ALL for v in run.client_state(k).values())


def test_a_client_refused_in_the_second_exchange_keeps_its_old_state():
    class Late(ff.NaiveFedGloSS):
        def finish(self, client: Client) -> Message:
            client.kept.sigma += 1.0
            reply = Message(w=client.w)
            return reply if (client.exchange, client.id) != (1, 2) else Message(w=reply.w[1:])

    run = train(task(), Late(), [ALL])
    assert run.history[0]["clients"] == [0, 1, 3]
    assert [float(run.client_state(k)["sigma"].mean()) for k in ALL] == [
        1.0,
        1.0,
        0.0,
        1.0,
    ]  # nothing of the probe is kept


def test_only_non_finite_replies_mean_divergence_at_once():
    run = train(task(), faulty(FAULTS["nan"][0], set(ALL), {1}), sampling=2, rounds=5, retries=3)
    assert (run.status, len(run.history)) == ("diverged", 2)
    assert "round 2:" in run.reason
    assert "not finite" in run.reason
    assert "attempts" not in run.history[1]
    assert same_run(run, train(task(), ff.make("scaffold"), sampling=2, rounds=1), 4)


def test_a_learning_rate_far_too_large_is_divergence():
    run = train(task(normed()), cohorts=[ALL] * 6, lr=1e200, local_epochs=4)
    assert run.status == "diverged"
    assert f"round {len(run.history)}:" in run.reason
    json.dumps(run.history, allow_nan=False)


def test_a_non_finite_global_model_is_divergence():
    class Burst(ff.Algorithm):
        def update(self, server: Server, replies: Replies) -> None:
            super().update(server, replies)
            if server.round == 1:
                server.w[3] = math.inf

    run = train(task(), Burst(), [ALL] * 4)
    assert (run.status, len(run.history)) == ("diverged", 2)
    assert run.reason == "round 2: the global model is not finite"
    assert run.history[1]["model_norm"] is None
    assert "test_loss" not in run.history[1]
    json.dumps(run.history, allow_nan=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_non_finite_test_loss_is_divergence_and_ends_the_run_with_the_next_round(workers):
    x, y = pairs((4,))[0]
    run = train(task(test=(x * math.nan, y)), cohorts=[ALL] * 5, evaluate_every=2, evaluate_last=0, workers=workers)
    assert (run.status, len(run.history)) == ("diverged", 3)
    assert run.reason == "round 2: the test loss is not finite"
    assert run.history[1]["test_loss"] is None
    json.dumps(run.history, allow_nan=False)


GOOD = Reply(2, 5, 1, Message(w=torch.ones(3), c=0.5), samples=4, steps=2, backprops=2, loss=0.7)
SENT = Message(w=torch.zeros(3))


def expectation(**changes: Any) -> Expectation:
    reported = {"round": 5, "exchange": 1, "samples": {1: 5, 2: 4}, "shapes": {"w": 3}, "like": torch.zeros(1)}
    return Expectation(**{**reported, **changes})


@pytest.mark.parametrize(
    ("changes", "answered", "reason"),
    [
        ({"client": 3}, (), "client was not asked"),
        ({}, (2,), "client answered twice"),
        ({"round": 4}, (), r"answers round 4\.1, not 5\.1"),
        ({"exchange": 0}, (), r"answers round 5\.0, not 5\.1"),
        ({"samples": 0}, (), "claims 0 samples"),
        ({"samples": -3}, (), "claims -3 samples"),
        ({"samples": 5}, (), "claims 5 samples, but holds 4"),
        ({"attempt": 1}, (), "answers attempt 2 at the round, not 1"),
        ({"loss": math.inf}, (), "loss is not finite"),
        ({"loss": math.nan}, (), "loss is not finite"),
        ({"message": Message(w=torch.full((3,), math.nan))}, (), "w is not finite"),
        ({"message": Message(w=torch.full((3,), 2.0))}, (), r"update has norm 3\.464, above the bound 3"),
    ],
)
def test_what_a_client_of_this_process_cannot_fake_is_refused_too(changes, answered, reason):
    fault = expectation(max_update_norm=3.0).fault(replace(GOOD, **changes), SENT, set(answered))
    assert fault is not None
    assert re.search(reason, fault.reason)
    assert fault.overflow == fault.reason.endswith("not finite")


def test_a_good_reply_has_no_fault():
    assert expectation(max_update_norm=2.0).fault(GOOD, SENT, {1}) is None
    huge = replace(GOOD, message=Message(w=torch.full((3,), 3e38)))
    assert expectation().fault(huge, SENT, set()) is None
    assert expectation().fault(replace(GOOD, loss=None), SENT, set()) is None
