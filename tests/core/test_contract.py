"""The contract carries what methods need; each small method here is checked against a plain loop in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import flatfed as ff
from core.bench import (
    COHORTS,
    SIZES,
    STEPS,
    WHERE,
    close,
    conv_net,
    descend,
    flat,
    gradient,
    images,
    mean,
    net,
    pairs,
    task,
    train,
)
from flatfed.core.configuration.checking import Fraction
from flatfed.core.method.algorithm import Ask
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, scalar, vector, window


class PerClient(ff.Algorithm):
    """The server keeps a vector about each client and sends it to that client alone (FedWMSAM's `c_k`)."""

    def records(self) -> Slots:
        return {"c": vector(), "times": scalar()}

    def personal(self, server: Server, client: int) -> Message:
        record = server.record(client)
        return Message(c=record.c, times=float(record.times))

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient - client.received.scalars["times"] * client.received.c

    def update(self, server: Server, replies: Replies) -> None:
        for reply in replies:
            record = server.record(reply.client)
            record.c = 0.5 * record.c + 0.1 * (reply.message.w - replies.sent.w)
            record.times += 1
        super().update(server, replies)


@pytest.mark.parametrize("workers", [0, 2])
def test_per_client_downloads_come_from_the_server_records(workers):
    w, c, times = flat(net()), {k: torch.zeros(43).double() for k in range(4)}, dict.fromkeys(range(4), 0)
    for cohort in COHORTS:
        new = {k: descend(k, w, lambda _, g, k=k: g - times[k] * c[k]) for k in cohort}
        for k in cohort:
            c[k], times[k] = 0.5 * c[k] + 0.1 * (new[k] - w), times[k] + 1
        w = mean(new)
    run = train(task(), PerClient(), workers=workers, **WHERE)
    close(run.vector, w)
    plain = train(task(), **WHERE)
    extra = [a["bytes_down"] - b["bytes_down"] for a, b in zip(run.history, plain.history, strict=True)]
    assert extra == [len(cohort) * (43 * 8 + 8) for cohort in COHORTS]
    assert [row["bytes_up"] for row in run.history] == [row["bytes_up"] for row in plain.history]


class TwoExchanges(ff.Algorithm):
    """Full gradients at the model first, then training along their momentum (Mime)."""

    beta: Fraction = 0.6

    def server_state(self) -> Slots:
        return {"m": vector()}

    def round(self, server: Server, ask: Ask) -> None:
        full = ask(Message(w=server.w), expect=("g",)).mean("g")
        momentum = (1 - self.beta) * full + self.beta * server.kept.m
        self.update(server, ask(Message(w=server.w, m=momentum)))
        server.kept.m = momentum

    def local(self, client: Client) -> Message:
        return Message(g=client.full_gradient()) if client.exchange == 0 else super().local(client)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return (1 - self.beta) * gradient + self.beta * client.received.m


def test_two_exchanges_may_upload_different_things():
    w, m = flat(net()), torch.zeros(43).double()
    for cohort in COHORTS:
        m = 0.4 * mean({k: gradient(net(), w, *pairs()[k]) for k in cohort}) + 0.6 * m
        w = mean({k: descend(k, w, lambda _, g, m=m: 0.4 * g + 0.6 * m) for k in cohort})
    run = train(task(), TwoExchanges(), **WHERE)
    assert (run.status, run.reason) == ("finished", "")
    close(run.vector, w)
    close(run.server_state["m"], m)
    assert [row["backprops"] for row in run.history] == [len(cohort) * (1 + STEPS) for cohort in COHORTS]
    assert all(math.isfinite(row["train_loss"]) for row in run.history)


class Poll(ff.Algorithm):
    """An exchange of numbers only, before the round."""

    def round(self, server: Server, ask: Ask) -> None:
        reported = [reply.message.scalars["n"] for reply in ask(Message(w=server.w), expect=())]
        self.update(server, ask(Message(w=server.w, total=sum(reported))))

    def local(self, client: Client) -> Message:
        return Message(n=client.samples) if client.exchange == 0 else super().local(client)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient * client.samples / client.received.scalars["total"]


def test_an_exchange_may_upload_numbers_only():
    w = flat(net())
    for cohort in COHORTS:
        n = sum(SIZES[k] for k in cohort)
        w = mean({k: descend(k, w, lambda _, g, k=k, n=n: g * SIZES[k] / n) for k in cohort})
    close(train(task(), Poll(), **WHERE).vector, w)


class LastSeen(ff.Algorithm):
    """A client keeps the round in which it last took part, and a vector that fades with its absence (AdaBest)."""

    def client_state(self) -> Slots:
        return {"last": scalar(-1.0), "h": vector()}

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient - client.kept.h

    def finish(self, client: Client) -> Message:
        absence = client.round - float(client.kept.last)
        client.kept.h = client.kept.h / absence + 0.1 * (client.start - client.w)
        client.kept.last = client.round
        return Message(w=client.w)


def test_clients_keep_numbers_as_well_as_vectors():
    w, last, h = flat(net()), dict.fromkeys(range(4), -1), {k: torch.zeros(43).double() for k in range(4)}
    for t, cohort in enumerate(COHORTS):
        new = {k: descend(k, w, lambda _, g, k=k: g - h[k]) for k in cohort}
        for k in cohort:
            h[k], last[k] = h[k] / (t - last[k]) + 0.1 * (w - new[k]), t
        w = mean(new)
    run = train(task(), LastSeen(), **WHERE)
    close(run.vector, w)
    for k in range(4):
        assert run.client_state(k)["last"] == last[k]
        close(run.client_state(k)["h"], h[k])


class Remembering(ff.Algorithm):
    """The server keeps its last three models, and a number for each (WIMA)."""

    def server_state(self) -> Slots:
        return {"models": window(3, of="vector"), "numbers": window(3)}

    def update(self, server: Server, replies: Replies) -> None:
        super().update(server, replies)
        server.kept.models[server.round % 3] = server.w
        server.kept.numbers[server.round % 3] = 1 / (server.round + 3)


def test_the_server_keeps_a_window_of_models_in_public_order():
    problem = ff.Task(conv_net(), [images()])
    models = [train(problem, cohorts=[[0]] * (t + 1)).vector for t in range(5)]
    run = train(problem, Remembering(), cohorts=[[0]] * 5)
    assert torch.equal(run.server_state["models"], torch.stack([models[3], models[4], models[2]]))


def test_a_window_of_numbers_keeps_them_as_exactly_as_a_scalar_does():
    run = train(task(), Remembering(), cohorts=[[0]] * 5)
    assert run.server_state["numbers"].tolist() == [1 / 6, 1 / 7, 1 / 5]


class PreviousModel(ff.Algorithm):
    """A client perturbs along the model that it received last time, once it has one (FedLESAM)."""

    def client_state(self) -> Slots:
        return {"old": vector("model"), "seen": scalar()}

    def gradient(self, client: Client) -> Tensor:
        if not float(client.kept.seen):
            return client.gradient()
        return client.gradient(at=client.w + 0.5 * (client.kept.old - client.start))

    def finish(self, client: Client) -> Message:
        client.kept.old, client.kept.seen = client.start, 1.0
        return Message(w=client.w)


def test_clients_may_keep_a_model_and_whether_there_is_one():
    w, old = flat(net()), {}
    for cohort in COHORTS:
        new = {}
        for k in cohort:
            shift = 0.5 * (old[k] - w) if k in old else 0.0
            new[k] = descend(k, w, lambda v, _, s=shift, k=k: gradient(net(), v + s, *pairs()[k]))
            old[k] = w
        w = mean(new)
    run = train(task(), PreviousModel(), **WHERE)
    close(run.vector, w)
    assert [run.client_state(k)["seen"] for k in range(4)] == [1.0] * 4
    close(torch.stack([run.client_state(k)["old"] for k in range(4)]), torch.stack([old[k] for k in range(4)]))
    fresh = train(task(), PreviousModel(), [[0]]).client_state(3)
    assert (fresh["seen"], torch.equal(fresh["old"], flat(net()))) == (0.0, True)
