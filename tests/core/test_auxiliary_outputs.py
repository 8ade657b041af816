"""Models that give (main, auxiliary) outputs in training and the main one in tests: FedGMT distils the main output."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from core.bench import CLASSES, INPUTS, SIZES, close, pairs, same_run, seeded, task, train

ALL = list(range(len(SIZES)))
FEDGMT: list[dict[str, Any]] = [{}, {"server_dual": "active"}, {"gamma": 3.0, "tau": 1.5, "alpha": 0.5}]


class Plain(nn.Module):
    """A body and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Tanh())
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.body(x))


class Auxiliary(Plain):
    """The same weights, and one more head that speaks in training mode only."""

    kind: type = tuple

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Any:
        features = self.body(x)
        main = self.head(features)
        return self.kind((main, self.extra(features))) if self.training else main


class Listed(Auxiliary):
    """With a list instead of a tuple."""

    kind = list


def first_alone(outputs: Any, targets: Tensor) -> Tensor:
    return cross_entropy(outputs if isinstance(outputs, Tensor) else outputs[0], targets)


def both(outputs: Any, targets: Tensor) -> Tensor:
    parts = [outputs] if isinstance(outputs, Tensor) else outputs
    return sum(cross_entropy(part, targets) for part in parts)  # type: ignore[return-value]


def trained(model: type[Plain], loss: Any = first_alone, method: str = "fedgmt", **changes: Any) -> ff.Run:
    parameters = changes.pop("parameters", {})
    problem = task(seeded(model).double(), loss=loss)
    settings = {"cohorts": [[0, 2], [1, 2, 3], ALL], "local_epochs": 2, "batch_size": 3, "evaluate_every": 1, **changes}
    return train(problem, ff.make(method, **parameters), **settings)


def main_part(vector: Tensor) -> Tensor:
    """Return the entries of body and head, which come first."""
    return vector[: sum(p.numel() for p in Plain().parameters())]


@pytest.mark.parametrize("model", [Auxiliary, Listed])
@pytest.mark.parametrize("parameters", FEDGMT, ids=["plain", "active", "strong"])
def test_fedgmt_is_that_of_the_main_output_where_the_loss_ignores_the_other(
    parameters: dict[str, Any], model: type[Plain]
) -> None:
    run, plain = (trained(kind, parameters=parameters) for kind in (model, Plain))
    assert len(run.vector) == len(plain.vector) + 5 * CLASSES + CLASSES
    close(main_part(run.vector), plain.vector)
    close(main_part(run.server_state["teacher"]), plain.server_state["teacher"])
    for client in ALL:
        close(main_part(run.client_state(client)["h"]), plain.client_state(client)["h"])
    for a, b in zip(run.history, plain.history, strict=True):
        assert a["test_loss"] == pytest.approx(b["test_loss"], rel=1e-11)
        assert a["test_class_accuracy"] == b["test_class_accuracy"]
    other = trained(model, parameters=parameters | {"gamma": 0.0})  # the distillation is felt
    assert not torch.allclose(main_part(run.vector), main_part(other.vector), rtol=1e-6)


def test_what_nobody_looks_at_stays_as_it_was() -> None:
    run, first = trained(Auxiliary), seeded(Auxiliary).double()
    close(
        run.vector[len(main_part(run.vector)) :], torch.cat([p.detach().reshape(-1) for p in first.extra.parameters()])
    )


def test_the_loss_is_given_both_outputs() -> None:
    run, alone = trained(Auxiliary, both), trained(Auxiliary)
    assert not torch.allclose(run.model().extra.weight, seeded(Auxiliary).double().extra.weight, rtol=1e-3)
    assert not torch.allclose(main_part(run.vector), main_part(alone.vector), rtol=1e-3)
    assert run.history[-1]["train_loss"] > alone.history[-1]["train_loss"]


def test_one_step_by_hand() -> None:
    """From the second round on the teacher is not the model: both passes over both outputs in plain torch."""
    lr, alpha, gamma, tau, beta = 0.3, 0.6, 2.0, 1.5, 4.0
    parameters = {"alpha": alpha, "gamma": gamma, "tau": tau, "beta": beta}
    how: dict[str, Any] = {"local_epochs": 1, "batch_size": None, "lr": lr, "parameters": parameters}
    before = trained(Auxiliary, both, cohorts=[[1]], **how)
    after = trained(Auxiliary, both, cohorts=[[1], [1]], **how)
    x, y = pairs()[1]
    student, teacher = seeded(Auxiliary).double(), seeded(Auxiliary).double()
    put(before.vector, student)
    put(before.server_state["teacher"], teacher)
    with torch.no_grad():
        target = torch.softmax(teacher(x)[0] / tau, dim=1)
    outputs = student(x)
    own = torch.log_softmax(outputs[0] / tau, dim=1)
    kl = (target * (target.log() - own)).sum(1).mean()
    loss = cross_entropy(outputs[0], y) + cross_entropy(outputs[1], y) + gamma * tau**2 * kl
    g = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(student.parameters()))])
    h = before.client_state(1)["h"]
    own_step = before.vector - lr * (g + h / beta)
    close(after.vector, own_step + (h + own_step - before.vector) / len(SIZES))


def put(vector: Tensor, model: nn.Module) -> None:
    torch.nn.utils.vector_to_parameters(vector, model.parameters())


def test_workers_do_not_matter() -> None:
    assert same_run(trained(Auxiliary, both, workers=2), trained(Auxiliary, both), len(SIZES))


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "scaffold", "mime"])
def test_other_methods_take_such_models_too(method: str) -> None:
    run, plain = (trained(kind, method=method) for kind in (Auxiliary, Plain))
    assert run.status == "finished"
    close(main_part(run.vector), plain.vector)


def test_clients_are_measured_on_the_main_output() -> None:
    run, plain = trained(Auxiliary), trained(Plain)
    for a, b in zip(run.client_metrics(), plain.client_metrics(), strict=True):
        assert a == b | {"loss": pytest.approx(b["loss"], rel=1e-11)}
