"""Methods that users write, with control flow, draws and teachers of their own, in lockstep."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import flatfed as ff
from engines.vectorised import SIZES, T, agree, play, same
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots, scalar, vector
from flatfed.core.model import vectorising as batching


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rounds may go in lockstep too, so that small tests can choose it by themselves."""
    monkeypatch.setattr(batching, "FEWEST_CLIENTS", 1)


# --- methods of users -------------------------------------------------------------------------------------


class Cautious(ff.Algorithm):
    """Decides by numbers of its own what to ask for next: clients part ways, and meet again."""

    def client_state(self) -> Slots:
        return {"looks": scalar(), "last": vector()}

    def gradient(self, client: Client) -> Tensor:
        here = client.gradient()
        steep = float(torch.linalg.vector_norm(here))
        if steep < 0.3 and client.step % 2:
            return here
        there = client.gradient(at=client.w - 0.2 * here)
        client.kept.looks = float(client.kept.looks) + 1
        if float(torch.dot(here, there)) < 0.5 * steep**2:
            return 0.5 * (here + there)  # both are still valid
        if float(client.outputs().logsumexp(1).mean()) > 1.2:
            third = client.gradient(plus=lambda outputs: 0.1 * outputs.square().mean())
            return 0.7 * third + 0.3 * there
        return there

    def finish(self, client: Client) -> Message:
        client.kept.last = client.w - client.start
        client.watch["looks"] = float(client.kept.looks)
        return Message(w=client.w)


class Patient(ff.Algorithm):
    """Goes its own way: full gradients until they are short, then the usual steps or none."""

    def local(self, client: Client) -> Message:
        taken = 0
        while taken < 6:
            full = client.full_gradient()
            if float(full.norm()) < 0.45:
                break
            client.w.sub_(full, alpha=client.lr)
            taken += 1
        client.watch["taken"] = float(taken)
        if client.id % 3:
            client.descend(self.gradient, self.direction)
        return Message(w=client.w)


class Retrying(ff.Algorithm):
    """Its addition fails for some; the method hears of it and does without."""

    def gradient(self, client: Client) -> Tensor:
        def plus(outputs: Tensor) -> Tensor:
            if client.id % 2:
                raise ArithmeticError("not for me")
            return outputs.square().mean()

        try:
            return client.gradient(plus=plus)
        except ArithmeticError:
            client.watch["failures"] = client.watch.get("failures", 0.0) + 1
            return client.gradient()


class Teacher(ff.Algorithm):
    """Asks for a frozen model's outputs the way torch code is written: without gradients."""

    context: ClassVar[Any] = torch.no_grad

    def gradient(self, client: Client) -> Tensor:
        if client.step % (1 + client.id % 2) == 0:
            with type(self).context():
                taught = client.outputs(at=client.start)
            return client.gradient(plus=lambda outputs: (outputs - taught.clone()).square().mean())
        return client.gradient()


class InferringTeacher(Teacher):
    context = torch.inference_mode


class LateTeacher(ff.Algorithm):
    """Asks for the frozen model's outputs only when its addition is computed."""

    def gradient(self, client: Client) -> Tensor:
        return client.gradient(plus=lambda outputs: (outputs - client.outputs(at=client.start)).square().mean())


class Rough(ff.Algorithm):
    """Adds noise from torch's generator, which every pass of a client keys."""

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient + 0.1 * torch.randn(gradient.shape, dtype=gradient.dtype)


OWN: dict[str, Callable[[], ff.Algorithm]] = {
    "control flow": Cautious,
    "its own loop": Patient,
    "a failure that it bears": Retrying,
    "a teacher without gradients": Teacher,
    "a teacher in inference mode": InferringTeacher,
    "a teacher asked late": LateTeacher,
    "noise": Rough,
}


def apart(work: Callable[[], T]) -> T:
    """Do the work in a thread of its own: modes of torch that it leaves behind do not reach other tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@pytest.mark.parametrize("name", OWN)
def test_methods_of_users_work_in_both_modes(name: str) -> None:
    def work() -> tuple[ff.Run, bool, bool]:
        run = play(method=OWN[name](), dtype=torch.float64)
        return run, torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    alone = play(method=OWN[name](), dtype=torch.float64, vectorised=False)
    together, *modes = apart(work)
    assert modes == [True, False], "the caller's modes must be left alone"
    agree(together, alone)


class FragileTeacher(Teacher):
    """Fails for one client while others wait for their teachers."""

    def gradient(self, client: Client) -> Tensor:
        with type(self).context():
            client.outputs(at=client.start)
            if client.id == 3 and client.step == 1:
                raise ZeroDivisionError("this is too much")
            client.outputs()
        return client.gradient()


class FragileInferringTeacher(FragileTeacher):
    context = torch.inference_mode


@pytest.mark.parametrize("method", [FragileTeacher, FragileInferringTeacher])
def test_a_failure_between_a_methods_modes_leaves_those_of_the_caller(method: type[ff.Algorithm]) -> None:
    def work() -> tuple[bool, bool]:
        with pytest.raises(ff.EngineError, match="client 3 failed: ZeroDivisionError: this is too much"):
            play(method=method())
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    assert apart(work) == (True, False)


def test_the_method_with_control_flow_really_parts_clients() -> None:
    run = play(method=Cautious())
    looks = {float(run.client_state(k)["looks"]) for k in range(len(SIZES))}
    steps = {2 * -(-n // 3) for n in SIZES}
    assert len(looks) >= 4
    assert looks != steps
    taken = [row["watch"]["taken"] for row in play(method=Patient()).history]
    assert len(set(taken)) > 1


@pytest.mark.parametrize("name", ["control flow", "its own loop"])
def test_methods_of_users_give_the_same_bits_on_workers(name: str) -> None:
    same(play(method=OWN[name](), workers=2), play(method=OWN[name]()))
