"""Methods that look row-wise and are not: notes that share memory, draws, changed parts of a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import flatfed as ff
from engines.bench import assert_same, bits
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots, vector
from flatfed.core.round.vectorised import SharedOracle
from methods.stacked import CLIENTS, GROUPS, Steps, apart, task, trained

PAIRS = {"sampling": ff.Replay(((0, 1, 2, 3, 4, 5), (1, 3), (0, 2, 4))), "rounds": 3}
"""Without a client that is alone: the plain oracle leaves autograd as the method has set it."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


class Trap(ff.Algorithm):
    """Keeps a vector, and adds a term to the gradient."""

    def client_state(self) -> Slots:
        return {"h": vector()}

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient + 0.1 * self.term(client, gradient)

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient


class NotesItsState(Trap):
    def begin(self, client: Client) -> None:
        client.memo.h = client.kept.h

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return client.memo.h.mul_(0.9).add_(gradient)


class NotesItsStateLater(Trap):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.memo.h = client.kept.h
        return client.kept.h.add_(gradient)

    def finish(self, client: Client) -> Message:
        client.memo.h.add_(1.0)
        return Message(w=client.w)


class NotesItsModel(Trap):
    def begin(self, client: Client) -> None:
        client.memo.w = client.w[:]

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return client.memo.w - client.start


class NotesOneThingTwice(Trap):
    def begin(self, client: Client) -> None:
        client.memo.a = client.memo.b = torch.zeros_like(client.w)

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return client.memo.a.add_(gradient) + client.memo.b


class NotesMatrix(Trap):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.memo.square = torch.ones(2, 2)  # as many rows as the smallest group has clients
        return gradient

    def finish(self, client: Client) -> Message:
        return Message(w=client.w * client.memo.square.sum())


class ChangesStart(Trap):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return client.start.mul_(0.9)

    def finish(self, client: Client) -> Message:
        return Message(w=client.w + client.start)


class ReplacesStart(ChangesStart):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.start = 0.9 * client.start
        return client.start


class HasAttribute(Trap):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client._last = 2 * gradient  # type: ignore[attr-defined]
        return gradient

    def finish(self, client: Client) -> Message:
        return Message(w=client.w + client._last)  # type: ignore[attr-defined]


class DrawsInFork(Trap):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        with torch.random.fork_rng():
            return torch.randn_like(client.received.w)


class CountsNonzero(Trap):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient * torch.where(gradient)[0].numel()


class ReplacesModel(Trap):
    def begin(self, client: Client) -> None:
        client.w = client.w.clone()

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return client.w


TRAPS: list[Callable[[], Trap]] = [NotesItsState, NotesItsStateLater, NotesItsModel, NotesOneThingTwice, NotesMatrix]
TRAPS += [ChangesStart, ReplacesStart, HasAttribute, DrawsInFork, CountsNonzero, ReplacesModel]


@pytest.mark.parametrize("method", TRAPS)
def test_what_only_looks_row_wise_goes_one_by_one(steps: Steps, method: Callable[[], Trap]) -> None:
    assert steps.compare(method(), task()) == 0


class NotesNumber(Trap):
    def begin(self, client: Client) -> None:
        client.memo.zero = 0.0 if client.id == 1 else -0.0

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient if str(client.memo.zero) == "0.0" else -gradient


def test_numbers_that_are_equal_and_not_the_same(steps: Steps) -> None:
    assert steps.compare(NotesNumber(), task()) == 1  # the group in which all have -0.0


class DrawsAtTheEnd(Trap):
    def finish(self, client: Client) -> Message:
        return Message(w=client.w + 0.1 * torch.randn_like(client.w))


def test_what_is_drawn_after_the_steps_is_the_clients_own(steps: Steps) -> None:
    assert steps.compare(DrawsAtTheEnd(), task()) == GROUPS


class BeginsWithAllExamples(Trap):
    def begin(self, client: Client) -> None:
        client.memo.full = client.full_gradient()

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return client.memo.full


def test_a_client_that_is_early_takes_its_steps_among_what_the_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    data = apart(task())
    data[0] = (data[0][0][:3], data[0][1][:3])  # one batch, where the others have three
    run = trained(BeginsWithAllExamples(), task(clients=data))
    monkeypatch.setattr(SharedOracle, "takes_steps", lambda oracle, descent: False)
    apart_from_others = trained(BeginsWithAllExamples(), task(clients=data))
    assert_same(bits(run, CLIENTS), bits(apart_from_others, CLIENTS))


class NotesGradient(Trap):
    """Uses the last gradient, also in a second descent, whose steps turn out not to be row-wise."""

    def local(self, client: Client) -> Message:
        client.descend(self.gradient, self.direction)
        client.descend(self.gradient, self.direction)
        return Message(w=client.w)

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        last = getattr(client.memo, "last", gradient).clone()
        client.memo.last = gradient
        return last if client.step < 8 else last / last.norm()


def test_a_noted_gradient_is_that_of_the_first_steps(steps: Steps) -> None:
    assert steps.compare(NotesGradient(), task()) == GROUPS


class WithoutAutograd(Trap):
    """Its own code needs no autograd; the gradients do."""

    @torch.inference_mode()
    def local(self, client: Client) -> Message:
        return super().local(client)


class StepWithoutAutograd(Trap):
    @torch.inference_mode()
    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        client.kept.h.add_(gradient)
        client.memo.sum = client.kept.h + client.start
        return gradient + 0.1 * client.memo.sum

    def finish(self, client: Client) -> Message:
        return Message(w=client.w + client.memo.sum)


@pytest.mark.parametrize("method", [WithoutAutograd, StepWithoutAutograd])
def test_a_method_may_switch_autograd_off(steps: Steps, method: Callable[[], Any]) -> None:
    assert steps.compare(method(), task(), **PAIRS) == GROUPS
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
