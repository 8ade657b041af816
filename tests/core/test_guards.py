"""What the contract guards a method against: aliasing, rounding noise, zero-filled local layers, shared streams."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import flatfed as ff
from core.bench import net, pairs, task, train
from flatfed.core.method.algorithm import Ask
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import Slots, per_tensor, scalar, vector

ALL = [0, 1, 2, 3]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_method_that_changes_what_it_received_is_stopped(workers):
    class Careless(ff.Algorithm):
        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            return gradient + client.received.w.mul_(0.5)

    with pytest.raises(ff.FlatfedError, match="changed the received vector 'w' in place"):
        train(task(), Careless(), [ALL], workers=workers)


def test_a_server_that_changes_its_model_in_place_still_knows_what_it_sent():
    class InPlace(ff.Algorithm):
        def update(self, server: Server, replies: Replies) -> None:
            server.w += replies.mean_update()
            server.watch["left"] = float((server.w - replies.sent.w - replies.mean_update()).abs().max())

    run = train(task(), InPlace(), [ALL])
    assert run.history[0]["watch"]["left"] < 1e-15
    assert torch.equal(run.vector, train(task(), ff.make("fedavg"), [ALL]).vector)


@pytest.mark.parametrize("method", ["fedavg", "fedgloss", "feddyn", "fedgf"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_no_client_moves_the_model_stays_to_the_bit(method, dtype):
    start = train(task(), ff.make(method), [ALL], lr=0.0, weight_decay=0.0, dtype=dtype, local_epochs=1)
    later = train(task(), ff.make(method), [ALL] * 3, lr=0.0, weight_decay=0.0, dtype=dtype, local_epochs=1)
    assert torch.equal(start.vector, later.vector)
    assert all(row["update_norm"] == 0.0 for row in later.history)


def test_updates_can_be_taken_per_step():
    seen: dict[str, Tensor] = {}

    class PerStep(ff.Algorithm):
        def update(self, server: Server, replies: Replies) -> None:
            seen["found"] = replies.mean_update(lambda reply: 1 / (reply.steps * server.lr))
            steps = [(reply.message.w - server.w) / (reply.steps * server.lr) for reply in replies]
            seen["expected"] = sum(p * step for p, step in zip(replies.weights, steps, strict=True))
            super().update(server, replies)

    train(task(), PerStep(), [ALL], batch_size=2)
    torch.testing.assert_close(seen["found"], seen["expected"])


def test_a_declared_scalar_travels_as_a_number():
    class Counting(ff.Algorithm):
        def server_state(self) -> Slots:
            return {"alpha": scalar(0.25)}

        def broadcast(self, server: Server) -> Message:
            return Message(w=server.w, alpha=server.kept.alpha)

        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            return client.received.scalars["alpha"] * gradient

    slow = train(task(), Counting(), [ALL], weight_decay=0.0, local_epochs=1)
    quick = train(task(), ff.make("fedavg"), [ALL], weight_decay=0.0, local_epochs=1, lr=0.3)
    assert slow.history[0]["bytes_down"] == quick.history[0]["bytes_down"] + 4 * 8


def test_a_reply_without_a_declared_number_is_refused():
    class Silent(ff.Algorithm):
        upload_numbers = ("a",)

        def finish(self, client: Client) -> Message:
            return Message(w=client.w) if client.id == 2 else Message(w=client.w, a=1.0)

    run = train(task(), Silent(), [ALL])
    assert run.history[0]["rejected"] == [{"client": 2, "reason": "lacks a"}]


def test_a_reply_with_another_number_of_tensors_is_refused():
    class Means(ff.Algorithm):
        def uploads(self) -> tuple[str, ...]:
            return ("w", "v")

        def uploads_per_tensor(self) -> tuple[str, ...]:
            return ("v",)

        def server_state(self) -> Slots:
            return {"v": per_tensor()}

        def finish(self, client: Client) -> Message:
            means = torch.stack([client.w[s.offset : s.end].mean() for s in client.layout.parameters])
            return Message(w=client.w, v=client.w if client.id == 2 else means)

        def update(self, server: Server, replies: Replies) -> None:
            super().update(server, replies)
            server.kept.v = replies.mean("v")

    run = train(task(), Means(), [ALL])
    tensors, size = len(list(net().parameters())), len(run.vector)
    assert len(run.server_state["v"]) == tensors
    [rejected] = run.history[0]["rejected"]
    assert rejected["client"] == 2
    assert f"v has shape ({size},), not ({tensors},)" in rejected["reason"]


def test_what_a_client_received_stays_with_it_for_the_round():
    class TwoPhases(ff.Algorithm):
        def round(self, server: Server, ask: Ask) -> None:
            first = ask(Message(w=server.w, s=torch.ones_like(server.w)))
            self.update(server, ask(Message(c=first.mean("w"))))

        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            return gradient + (client.received.s if client.exchange else 0.0)

    run = train(task(), TwoPhases(), [ALL])
    vectors = run.history[0]["bytes_down"] // (len(run.vector) * 8 * len(ALL))
    assert (run.status, vectors) == ("finished", 3)


def test_reading_a_record_does_not_make_one():
    class Reads(ff.Algorithm):
        def records(self) -> Slots:
            return {"c": vector()}

        def personal(self, server: Server, client: int) -> Message:
            return Message(c=server.recall(client).c)

    run = train(task(), Reads(), [ALL])
    assert run._federation.records.known() == []


def test_the_personal_part_may_bring_the_model():
    class Personal(ff.Algorithm):
        def personal(self, server: Server, client: int) -> Message:
            return Message(w=torch.full_like(server.w, float(client)))

        def local(self, client: Client) -> Message:
            assert torch.equal(client.w, client.received.w)
            return Message(w=client.w)

    run = train(task(), Personal(), [ALL], weighting="uniform")
    assert torch.allclose(run.vector, torch.full_like(run.vector, 1.5))


@pytest.mark.parametrize("method", ["fedgmt", "fedgf"])
def test_received_models_are_completed_by_the_clients_own_parts(method):
    """With one client whose whole head is its own, a teacher with a zeroed head would change the training."""
    heads: list[Tensor] = []

    class Watching(type(ff.make(method))):
        def gradient(self, client: Client) -> Tensor:
            name = "teacher" if "teacher" in client.received else "perturbed"
            if name in client.received:
                heads.append(client.complete(client.received.vectors[name])[-5:].clone() - client.start[-5:])
            return super().gradient(client)

    local = ff.Local(names=("2.*",))
    train(ff.Task(model=net(), clients=pairs(), local=local), Watching(), [ALL, ALL])
    assert heads
    assert all(not head.any() for head in heads)


class Noisy(Dataset):
    """A data set whose transform draws from torch's global generator."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + 0.1 * torch.randn(self.x.shape[1:], dtype=self.x.dtype), self.y[index]


@pytest.mark.parametrize("option", ["I", "II"])
def test_random_transforms_are_keyed_wherever_they_run(option):
    problem: dict[str, Any] = {"clients": [Noisy(*pair) for pair in pairs()], "test": Noisy(*pairs((9,), 5)[0])}
    runs = [
        train(ff.Task(model=net(), **problem), ff.make("scaffold", option=option), [ALL] * 2, workers=workers)
        for workers in (0, 1, 3)
    ]
    for run in runs[1:]:
        assert torch.equal(run.vector, runs[0].vector)
        assert run.history[-1]["test_loss"] == runs[0].history[-1]["test_loss"]


def test_a_direction_made_in_place_leaves_local_layers_to_the_gradient():
    class InPlaceProx(ff.FedProx):
        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            return gradient.add_(client.w - client.start, alpha=self.mu)

    local = ff.Local(names=("2.*",))
    actual = train(ff.Task(net(), pairs(), local=local), InPlaceProx(mu=0.7), [ALL] * 2)
    expected = train(ff.Task(net(), pairs(), local=local), ff.make("fedprox", mu=0.7), [ALL] * 2)
    torch.testing.assert_close(actual.vector, expected.vector)
    for client in ALL:
        mine, theirs = (run.client_state(client)["local_parameters"] for run in (actual, expected))
        torch.testing.assert_close(mine, theirs)


def test_a_rate_of_zero_is_refused_where_it_would_be_divided_by():
    with pytest.raises(ff.ConfigError, match="scaffold divides by the learning rate"):
        train(task(), ff.make("scaffold"), [ALL], lr=0.0)
    with pytest.raises(ff.ConfigError, match="scaffold divides by the learning rate"):
        train(task(), ff.make("scaffold"), [ALL] * 8, average=ff.SWA(start=0.5, cycle=2, lr_low=0.0))


def test_a_model_can_be_a_single_module():
    run = train(ff.Task(nn.Linear(4, 3), pairs()), ff.make("fedavg"), [ALL])
    assert run.status == "finished"
