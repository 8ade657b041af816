"""Parts that stay on the clients (FedBN, SiLoBN), and BatchNorm buffers that do not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from core.bench import conv_net, flat, images, net, normed, pairs, same_run, task, train
from flatfed.algorithms import Algorithm
from flatfed.core.method.client import Client
from flatfed.core.task.examples import epoch_batches

FEDBN = ff.Local(types=(nn.BatchNorm1d,))
SILOBN = ff.Local(types=(nn.BatchNorm1d,), buffers_only=True)
EVERYTHING = ff.Local()
LOCALS = {"fedbn": FEDBN, "silobn": SILOBN, "shared": EVERYTHING}
SIZES = (4, 8, 3, 6)  # clients take different numbers of steps
CLIENTS = pairs(SIZES)
COHORTS = [[0, 1], [1, 2], [0, 1, 2]]  # client 3 is never asked
STATISTICS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")
KEPT = {"fedbn": ("1.weight", "1.bias", *STATISTICS), "silobn": STATISTICS, "shared": ()}

State = dict[str, Tensor]


def trained(state: State, k: int, t: int) -> State:
    """Return client k's tensors after round t: two epochs of batches of four."""
    model, (x, y) = normed(), CLIENTS[k]
    model.load_state_dict(state)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    for epoch in range(2):
        for indices in epoch_batches(len(x), 4, (0, "shuffle", t, 0, k, epoch)):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[indices]), y[indices]).backward()
            optimiser.step()
    return copy.deepcopy(model.state_dict())


def federated(local: tuple[str, ...]) -> tuple[State, dict[int, State]]:
    """Return the server's and each client's tensors after FedAvg in which `local` tensors never leave the client."""
    server, clients = normed().state_dict(), {k: normed().state_dict() for k in range(4)}
    for t, cohort in enumerate(COHORTS):
        total = sum(SIZES[k] for k in cohort)
        for k in cohort:
            clients[k] = trained(server | {n: clients[k][n] for n in local}, k, t)
        first = clients[cohort[0]]
        for name in server.keys() - set(local):
            if server[name].is_floating_point():
                server[name] = sum(SIZES[k] / total * clients[k][name] for k in cohort)
            else:
                server[name] = first[name]
    return server, clients


@pytest.mark.parametrize("name", LOCALS)
def test_local_tensors_never_cross_and_live_on_with_their_client(name):
    server, clients = federated(KEPT[name])
    run = train(task(normed(), CLIENTS, local=LOCALS[name]), cohorts=COHORTS, local_epochs=2, batch_size=4)
    state = run.model().state_dict()
    for tensor in server.keys() - set(KEPT[name]):
        torch.testing.assert_close(state[tensor], server[tensor])
    for k in range(4):
        kept = run.client_state(k)
        expected = {
            "local_parameters": [clients[k][n] for n in KEPT[name] if n not in STATISTICS],
            "local_buffers": [clients[k][n] for n in KEPT[name] if n in STATISTICS[:2]],
            "local_counters": [clients[k][n].view(1) for n in KEPT[name] if n in STATISTICS[2:]],
        }
        assert set(kept) == {entry for entry, parts in expected.items() if parts}
        for entry in kept:
            torch.testing.assert_close(kept[entry], torch.cat(expected[entry]))
    assert state["1.num_batches_tracked"].dtype == torch.int64


def test_bytes_shrink_by_what_stays():
    def costs(local: ff.Local, model: nn.Module) -> set[tuple[int, int]]:
        rows = train(task(model, local=local), cohorts=[[0]] * 2).history
        return {(row["bytes_down"], row["bytes_up"]) for row in rows}

    ((down, up),) = costs(EVERYTHING, normed())
    assert costs(SILOBN, normed()) == {(down - 8 * 11, up - 8 * 11)}
    assert costs(FEDBN, normed()) == {(down - 8 * 21, up - 8 * 21)}
    # What is left are the two linear layers: as much as the network without BatchNorm.
    assert costs(FEDBN, normed()) == costs(EVERYTHING, net())


@pytest.mark.parametrize("id", sorted(Algorithm.registry))
def test_without_batchnorm_nothing_changes(id):
    method = ff.make(id)
    runs = [train(task(local=local), method, COHORTS) for local in LOCALS.values()]
    population = 1 if method.pooled else 4
    assert same_run(runs[0], runs[2], population)
    assert same_run(runs[1], runs[2], population)
    assert "local_parameters" not in runs[0].client_state(0)


@pytest.mark.parametrize("name", ["fedbn", "silobn"])
def test_with_one_client_it_is_training_of_the_full_model(name):
    clients, settings = pairs((8,)), {"batch_size": 4, "local_epochs": 2}
    full = train(task(normed(), clients), **settings).model()
    run = train(task(normed(), clients, local=LOCALS[name]), **settings)
    own, model = run.client_state(0), run.model()
    for layer in (0, 3):
        torch.testing.assert_close(flat(model[layer]), flat(full[layer]))
    weight = own["local_parameters"] if name == "fedbn" else flat(model[1])
    torch.testing.assert_close(weight, flat(full[1]))
    torch.testing.assert_close(own["local_buffers"], torch.cat([full[1].running_mean, full[1].running_var]))
    assert own["local_counters"].tolist() == [int(full[1].num_batches_tracked)] == [8]


def test_corrections_act_on_shared_parts_only():
    class Still(ff.Algorithm):
        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            assert len(client.received.w) == len(client.w)
            return torch.zeros_like(gradient)

    run = train(task(normed(), local=FEDBN), Still(), [[0]])
    assert torch.equal(run.vector, torch.cat([flat(normed()[0]), flat(normed()[3])]))
    x, y = pairs()[0]
    model = normed()
    g = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), model[1].parameters())
    for piece, g_piece in zip(run.client_state(0)["local_parameters"].split(5), g, strict=True):
        start = model[1].weight if g_piece is g[0] else model[1].bias
        torch.testing.assert_close(piece, start.detach() - 0.3 * g_piece)


@pytest.mark.parametrize("method", ["scaffold", "fedgloss", "fedgmt", "fedsmoo"])
def test_methods_with_state_train_with_local_layers(method):
    run = train(task(normed(), local=FEDBN), ff.make(method), COHORTS)
    assert run.status == "finished"
    assert len(run.vector) == len(flat(net()))
    untouched = run.client_state(3)["local_parameters"]
    assert torch.equal(untouched, flat(normed()[1]))
    assert not torch.equal(run.client_state(2)["local_parameters"], untouched)


@pytest.mark.parametrize("name", LOCALS)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_model_of_the_run_is_the_one_that_was_evaluated(name, workers):
    run = train(task(normed(), local=LOCALS[name]), cohorts=COHORTS, workers=workers)
    x, y = pairs((9,), 5)[0]
    model = run.model().eval()
    if name != "shared":  # without shared statistics the test batch's own are used
        model[1].train()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(x), y)
    assert run.history[-1]["test_loss"] == pytest.approx(float(loss), rel=1e-12)


def test_what_a_client_keeps_is_shown_in_the_order_of_parameters():
    problem: dict[str, Any] = {"model": conv_net(), "clients": [images()]}
    own = train(ff.Task(**problem, local=ff.Local(names=("0.*",))), cohorts=[[0]]).client_state(0)
    full = train(ff.Task(**problem), cohorts=[[0]]).model()
    torch.testing.assert_close(own["local_parameters"], flat(full[0]))
