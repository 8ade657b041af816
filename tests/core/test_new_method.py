"""A new method is one class: it is found by its id, accepts client optimisers and runs on any number of workers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import flatfed as ff
from core.bench import COHORTS, LR, STEPS, WHERE, close, descend, flat, net, same_run, task, train
from flatfed.core.configuration.checking import Fraction
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.round.federation import TIMES


@pytest.fixture
def fedcm() -> Iterator[Any]:
    """FedCM as a newcomer would write it, entered for the length of a test."""

    class NewFedCM(ff.Algorithm, id="fedcm-of-a-test"):
        alpha: Fraction = 0.1
        client_opt: ff.ClientOptimiser = ff.SGD()
        uniform: ClassVar[bool] = True

        def server_state(self) -> Slots:
            return {"m": vector()}

        def broadcast(self, server: Server) -> Message:
            return Message(w=server.w, m=server.kept.m)

        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            return self.alpha * gradient + (1 - self.alpha) * client.received.m

        def finish(self, client: Client) -> Message:
            return Message(w=client.w, m=(client.start - client.w) / (client.steps * client.lr))

        def uploads(self) -> tuple[str, ...]:
            return ("w", "m")

        def update(self, server: Server, replies: Replies) -> None:
            super().update(server, replies)
            server.kept.m = replies.mean("m")

    yield NewFedCM
    del ff.Algorithm.registry["fedcm-of-a-test"]


def test_a_thirteenth_method_is_one_class(fedcm):
    w, m = flat(net()), torch.zeros(43).double()
    for cohort in COHORTS:
        new = [descend(k, w, lambda _, g, m=m: 0.2 * g + 0.8 * m) for k in cohort]
        m = sum(w - v for v in new) / len(new) / (STEPS * LR)
        w = sum(new) / len(new)
    run = train(task(), ff.make("fedcm-of-a-test", alpha=0.2), **WHERE)
    close(run.vector, w)
    close(run.server_state["m"], m)


def test_it_takes_any_client_optimiser(fedcm):
    plain = train(task(), fedcm(), **WHERE)
    for optimiser in (ff.SAM(rho=0.4), ff.ASAM()):
        run = train(task(), ff.make("fedcm-of-a-test", client_opt=optimiser), **WHERE)
        assert [row["backprops"] for row in run.history] == [2 * row["backprops"] for row in plain.history]
        assert not torch.equal(run.vector, plain.vector)


def test_workers_do_not_change_a_bit(fedcm):
    runs = [train(task(), fedcm(client_opt=ff.SAM()), workers=n, batch_size=3, **WHERE) for n in (0, 2)]
    assert same_run(*runs, population=4)
    for one, two in pairwise([[row | dict.fromkeys(TIMES) for row in run.history] for run in runs]):
        assert one == two
