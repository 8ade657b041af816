"""The battery as authors of methods use it: it accepts methods that are right, and names what is wrong with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import Tensor

import flatfed as ff
from flatfed.core.configuration.checking import NonNegative
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, vector
from flatfed.core.method.vectors import unit
from flatfed.testing import MethodCosts, Outcome, Setup, check_method, train_client, weighted_update
from flatfed.testing import unit as naive_unit
from flatfed.testing.naive.training import kept
from methods import naive


class Tilting(Algorithm, id="tilting"):
    """The gradient at `w + rho * unit(d)`, `d` the last global direction."""

    rho: NonNegative = 0.05

    def server_state(self) -> Slots:
        return {"d": vector()}

    def broadcast(self, server: Server) -> Message:
        return Message(w=server.w, d=server.kept.d)

    def gradient(self, client: Client) -> Tensor:
        return client.gradient(at=client.w + self.rho * unit(client.received.d))

    def update(self, server: Server, replies: Replies) -> None:
        step = replies.mean_update()
        server.kept.d = -step
        server.w = server.w + step


class Forgetful(Algorithm, id="forgetful"):
    """Steps that grow with a number that no state holds: a run that is resumed begins to count anew."""

    seen: list  # type: ignore[type-arg]

    def update(self, server: Server, replies: Replies) -> None:
        self.seen.append(1)
        server.w = server.w + len(self.seen) * replies.mean_update()


METHODS = {id: Algorithm.registry.pop(id) for id in ("tilting", "forgetful")}


def tilting(s: Setup, rho: float = 0.05) -> Outcome:
    w, d, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, lambda v, k=k, d=d: s.g(k, v + rho * naive_unit(d))) for k in S}
        d = -weighted_update(s, w, w_K)
        w = kept(s, models, w - d)
    return Outcome(s, models, server={"d": d})


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    """Let the methods of this file be known while its tests run: other tests list all that there are."""
    Algorithm.registry.update(METHODS)
    yield
    for id in METHODS:
        del Algorithm.registry[id]


def test_a_method_that_is_right_is_accepted_in_three_lines() -> None:
    check_method(Tilting, tilting, parameters=[{}, {"rho": 0.3}], costs=MethodCosts(down=2))


@pytest.mark.parametrize(
    ("id", "function", "parameters"),
    [
        ("scaffold", naive.scaffold, {"option": "I"}),
        ("fedgf", naive.fedgf, {"rho": 0.3, "c": 0.4}),
        ("naivefedgloss", naive.naivefedgloss, {"rho_server": 0.4}),
    ],
)
def test_methods_of_the_package_are_accepted_by_their_ids(
    id: str, function: Callable[..., Outcome], parameters: dict[str, Any]
) -> None:
    check_method(id, function, parameters=[parameters], workers=0)


def test_a_naive_computation_that_differs_is_named_with_its_set_up() -> None:
    with pytest.raises(AssertionError, match=r"tilting\(rho=0.3\): agreement over six rounds: distance"):
        check_method(Tilting, lambda s, rho: tilting(s, 0.31 + rho - rho), parameters=[{"rho": 0.3}])


@pytest.mark.parametrize(
    ("costs", "reason"),
    [
        (MethodCosts(down=1), r"bytes: round 0: \d+ bytes down, not 1 vectors"),
        (MethodCosts(2, backprops=2), "backprops"),
    ],
)
def test_other_costs_than_the_equations_say_are_an_error(costs: MethodCosts, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        check_method(Tilting, tilting, costs=costs)


def forgetful(s: Setup, seen: list[int]) -> Outcome:
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, lambda v, k=k: s.g(k, v)) for k in S}
        w = kept(s, models, w + (t + 1) * weighted_update(s, w, w_K))
    return Outcome(s, models)


def test_state_that_is_not_declared_is_found_by_resuming() -> None:
    with pytest.raises(AssertionError, match=r"forgetful.*: resume: "):
        check_method(lambda seen: Forgetful(seen=[]), forgetful, parameters=[{"seen": []}], costs=MethodCosts())


def test_a_method_without_an_id_cannot_be_resumed() -> None:
    nameless = type("Nameless", (ff.FedAvg,), {"__module__": __name__, "__doc__": "FedAvg."})
    with pytest.raises(AssertionError, match="no id"):
        check_method(nameless, naive.fedavg)
