"""Methods of users that do not work row by row go one by one, and come to what they always came to."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import flatfed as ff
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots, scalar, vector
from flatfed.core.method.vectors import length, norm
from flatfed.core.round.row_wise import ELEMENTWISE
from methods.stacked import GROUPS, Steps, task, trained

SIZES = (1, 7, 16, 33, 1001)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


class Corrected(ff.Algorithm):
    """Changes the direction in one way or another."""

    def client_state(self) -> Slots:
        return {"count": scalar(), "last": vector()}

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient + 0.1 * self.term(client, gradient)

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        raise NotImplementedError


class WithNorm(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient / gradient.norm()


class WithNumber(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient * norm(gradient)


class WithNoise(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return torch.randn(client.start.shape[-1])


class WithSameNoise(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient * torch.randn(())


class WithNumpyNoise(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient * np.random.rand() * random.random()  # noqa: NPY002


class WithIdentity(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient * client.id


class WithWatch(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.watch["steps"] = client.watch.get("steps", 0.0) + 1
        return gradient


class WithScalarState(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.kept.count += 1
        return gradient * client.kept.count


class WithCaughtError(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        try:
            return gradient * float(gradient[0])
        except Exception:
            return gradient


class WithList(Corrected):
    def begin(self, client: Client) -> None:
        client.memo.gradients = []

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.memo.gradients.append(gradient.clone())
        return sum(client.memo.gradients, torch.zeros_like(gradient))


class WithSort(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return torch.where(gradient.abs() > gradient.abs().median(), gradient, 0.0)


class WithClosure(Corrected):
    def local(self, client: Client) -> Message:
        client.descend(lambda _: client.gradient(), lambda _, g: g + 0.1 * (client.w - client.start))
        return Message(w=client.w)


class LateNorm(Corrected):
    """Finds out only when steps have been taken and its state has changed."""

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.kept.last = client.kept.last + gradient
        return gradient if client.step < 2 else gradient / gradient.norm()


OTHERS: list[Callable[[], ff.Algorithm]] = [WithNorm, WithNumber, WithNoise, WithSameNoise, WithNumpyNoise]
OTHERS += [WithIdentity, WithWatch, WithScalarState, WithCaughtError, WithList, WithSort, WithClosure, LateNorm]


@pytest.mark.parametrize("method", OTHERS)
def test_what_is_not_row_wise_goes_one_by_one(steps: Steps, method: Callable[[], ff.Algorithm]) -> None:
    assert steps.compare(method(), task()) == 0


class WithLength(Corrected):
    """Row by row: the norm, a dot product, notes and a state."""

    def begin(self, client: Client) -> None:
        client.memo.mean = client.w - client.start

    def term(self, client: Client, gradient: Tensor) -> Tensor:
        client.memo.mean = client.memo.mean.lerp(gradient, 0.3)
        client.memo.dot = (client.memo.mean * gradient).sum(dim=-1, keepdim=True)
        client.kept.last = gradient
        return client.memo.dot * gradient / length(gradient)

    def finish(self, client: Client) -> Message:
        client.watch["dot"] = float(client.memo.dot)
        client.kept.last = client.kept.last + client.memo.mean + client.gradient()
        return Message(w=client.w)


def test_what_is_row_wise_goes_together(steps: Steps) -> None:
    assert steps.compare(WithLength(), task()) == GROUPS


class Spoiling(Corrected):
    def term(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient.sub(client.received.w.mul_(0.5))


def test_a_changed_message_is_still_refused() -> None:
    with pytest.raises(ff.FlatfedError, match="changed the received vector 'w' in place"):
        trained(Spoiling(), task())


def operations() -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """Return operations of a row, another row and a vector that all share."""
    return {
        "add": lambda a, b, v: a.add(b, alpha=0.37) + v,
        "sub_": lambda a, b, v: a.clone().sub_(b, alpha=0.37).sub_(v),
        "mul": lambda a, b, v: a * b * v * 0.3,
        "div": lambda a, b, v: a / b / v / 0.3,
        "lerp": lambda a, b, v: v.lerp(a.lerp(b, 0.37), 0.8),
        "addcmul": lambda a, b, v: a.addcmul(b, v, value=0.3),
        "addcdiv": lambda a, b, v: a.addcdiv(b, v, value=0.3),
        "sqrt": lambda a, b, v: a.abs().sqrt() * b.sign(),
        "square": lambda a, b, v: a.square().clamp(0.1, 0.9),
        "where": lambda a, b, v: torch.where(v > 0, a.maximum(b), a.minimum(v)),
        "norm": lambda a, b, v: a / (length(b) + 1e-16),
        "dot": lambda a, b, v: a * (b * v).sum(dim=-1, keepdim=True),
    }


@pytest.mark.parametrize("name", operations())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_has_the_bits_of_a_vector(name: str, dtype: torch.dtype) -> None:
    assert name in ELEMENTWISE | {"where", "norm", "dot"}
    operation = operations()[name]
    for size in SIZES:
        generator = torch.Generator().manual_seed(size)
        # Rows of the model lie a little apart, those of a result one behind the other.
        a = torch.randn(5, size + 3, generator=generator, dtype=dtype)[:, :size]
        b, v = (torch.randn(*shape, generator=generator, dtype=dtype) for shape in ((5, size), (size,)))
        alone = torch.stack([operation(x.clone(), y.clone(), v) for x, y in zip(a, b, strict=True)])
        assert torch.equal(operation(a, b, v), alone)
