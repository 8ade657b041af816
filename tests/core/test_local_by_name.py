"""Local layers by name: `Task(local="bn")` is FedBN, `Task(local="bn-stats")` SiLoBN, under any method."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import flatfed as ff
from core.bench import CLASSES, INPUTS, flat, net, normed, pairs, same_run, seeded, task, train
from flatfed.algorithms import Algorithm
from flatfed.core.round.trainer import Trainer
from methods.designs import marked
from methods.table import CLIENT_OPTS

KINDS = ("bn", "bn-stats")
METHODS = sorted(  # where nobody holds data apart, nothing stays with anybody
    id for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed.") and not cls.pooled
)
TWO_PASSES = sorted({row.opt.kind for row in CLIENT_OPTS.values() if row.backprops == 2})
COHORTS = [[0, 1], [1, 2], [0, 1, 2]]  # client 3 is never asked
ENVELOPES = 2 * 8, 5 * 8  # round and rate go down; examples, steps, backprops, loss and drift come up


class Residual(nn.Module):
    """Every place where a BatchNorm may be, under names that say nothing, and two layers that only look like one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, 2, 1)
        self.scale = nn.BatchNorm1d(2)
        self.bn_head = nn.Linear(2 * INPUTS, CLASSES)
        self.group = nn.GroupNorm(1, 2)
        self.downsample = nn.Sequential(nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2, affine=False))
        self.plain = nn.BatchNorm1d(2, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.group(self.scale(self.stem(x[:, None])))
        return self.bn_head((self.plain(x) + self.downsample(x)).flatten(1))


STATISTICS = {
    f"{layer}.{name}"
    for layer in ("scale", "downsample.1")
    for name in ("running_mean", "running_var", "num_batches_tracked")
}
STAY = {"bn": STATISTICS | {f"{layer}.{n}" for layer in ("scale", "plain") for n in ("weight", "bias")}}
STAY["bn-stats"] = STATISTICS


def problem(kind: str | None = None, model: nn.Module | None = None, **changes: Any) -> ff.Task:
    more = {} if kind is None else {"local": kind}
    return task(model or normed(), **more, **changes)


def own_sizes(kind: str) -> tuple[int, int]:
    """Return how many entries of `normed()` stay on the client: parameters, and statistics with their counter."""
    return (10 if kind == "bn" else 0), 11


# --- which tensors stay -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_type_of_a_layer_decides_and_not_its_name(kind: str) -> None:
    layout = problem(kind, seeded(Residual).double()).layout()
    every = (*layout.parameters, *layout.buffers, *layout.counters)
    assert {piece.name for piece in every} == set(Residual().state_dict())
    assert {piece.name for piece in every if piece.local} == STAY[kind]


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm])
def test_every_number_of_dimensions_is_found(layer: type[nn.Module]) -> None:
    model = nn.Sequential(nn.Linear(INPUTS, 5), layer(5))
    local = {piece.name for piece in problem("bn", model).layout().parameters if piece.local}
    assert local == {"1.weight", "1.bias"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", [nn.GroupNorm(1, 5), nn.LayerNorm(5), nn.InstanceNorm1d(5, affine=True)])
def test_other_normalisations_are_shared(kind: str, layer: nn.Module) -> None:
    with pytest.warns(UserWarning, match="no BatchNorm layer"):
        layout = problem(kind, nn.Sequential(nn.Linear(INPUTS, 5), layer)).layout()
    assert not any(piece.local for piece in layout.parameters + layout.buffers)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_trained_and_what_is_kept(kind: str) -> None:
    run = train(problem(kind, seeded(Residual).double()))
    affine, moving = 4 + 4, 4 + 4
    total = len(flat(Residual()))
    assert len(run.vector) == total - (affine if kind == "bn" else 0)
    kept = run.client_state(0)
    assert ("local_parameters" in kept) == (kind == "bn")
    assert len(kept["local_buffers"]) == moving
    assert kept["local_counters"].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nb", "'bn'"), ("BN", "'bn'"), ("bn_stats", "'bn-stats'"), ("bnstats", "'bn-stats'"), ("all", "bn, bn-stats")],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ff.ConfigError, match="unknown kind of local layers") as refused:
        problem(name)
    assert repr(name) in str(refused.value) and hint in str(refused.value)


# --- limits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedsmoo", "fedgmt", "naivefedgloss"])
def test_without_batchnorm_it_is_the_base_method_with_a_warning(method: str, kind: str) -> None:
    with pytest.warns(UserWarning, match=rf"local layers '{kind}': the model has no BatchNorm layer") as said:
        named = problem(kind, net())
    assert len(said) == 1
    assert same_run(train(named, ff.make(method), COHORTS), train(problem(model=net()), ff.make(method), COHORTS), 4)


def test_the_warning_points_at_the_task() -> None:
    with pytest.warns(UserWarning, match="no BatchNorm") as said:
        ff.Task(model=net(), clients=pairs(), local="bn")
    assert said[0].filename == __file__


@pytest.mark.parametrize("kind", KINDS)
def test_with_batchnorm_nobody_is_warned(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem(kind)


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "fedasam"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_client_alone_trains_as_if_all_were_shared(kind: str, method: str) -> None:
    where = {"clients": pairs((9,))}
    settings = {"batch_size": 3, "local_epochs": 2, "cohorts": [[0]] * 3, "momentum": 0.5}
    full = train(problem(**where), ff.make(method), **settings).model()
    run = train(problem(kind, **where), ff.make(method), **settings)
    own, model = run.client_state(0), run.model()
    scale = own["local_parameters"] if kind == "bn" else flat(model[1])
    pieces = [(flat(model[0]), flat(full[0])), (flat(model[3]), flat(full[3])), (scale, flat(full[1]))]
    pieces += [(own["local_buffers"], torch.cat([full[1].running_mean, full[1].running_var]))]
    for actual, expected in pieces:
        torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-13)
    assert own["local_counters"].tolist() == [int(full[1].num_batches_tracked)] == [18]


def test_silobn_is_evaluated_with_the_test_batch_s_statistics() -> None:
    run = train(problem("bn-stats"), cohorts=COHORTS)
    (x, y), model = pairs((9,), 5)[0], run.model().eval()
    with torch.no_grad():
        hidden = model[0](x)
        normal = (hidden - hidden.mean(0)) / torch.sqrt(hidden.var(0, unbiased=False) + 1e-5)
        loss = cross_entropy(model[3](torch.tanh(model[1].weight * normal + model[1].bias)), y)
    assert run.history[-1]["test_loss"] == pytest.approx(float(loss), rel=1e-12)
    assert not torch.equal(model[1].weight, torch.ones(5, dtype=torch.float64))


# --- every method -----------------------------------------------------------------------------------------


class Tap:
    """What crosses between server and clients, and where each client's statistics start."""

    def __init__(self) -> None:
        self.crossed: list[tuple[str, Tensor]] = []


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tap]:
    outcome, run = Tap(), Trainer.run

    def listen(trainer: Trainer, message: Any, job: Any, *more: Any) -> Any:
        reply = run(trainer, message, job, *more)
        for part in (message, job.personal, reply.message):
            outcome.crossed.extend(part.vectors.items())
        return reply

    monkeypatch.setattr(Trainer, "run", listen)
    yield outcome


@pytest.mark.parametrize("kind", KINDS)
@marked("method", METHODS, METHODS[::2])
def test_every_method_trains_and_sends_shared_parts_alone(method: str, kind: str, tap: Tap) -> None:
    run = train(problem(kind), ff.make(method), COHORTS, batch_size=3, evaluate_every=1)
    assert run.status == "finished", run.reason
    shared = len(flat(normed())) - own_sizes(kind)[0]
    assert len(run.vector) == shared
    assert not torch.equal(run.vector, train(problem(kind), ff.make(method), COHORTS[:1], batch_size=3).vector)
    algorithm = ff.make(method)
    tensors = problem(kind).layout().shared_tensors
    of_tensors = {name for name, slot in algorithm.server_state().items() if slot.kind == "per tensor"}
    of_tensors |= set(algorithm.uploads_per_tensor())
    for name, vector in tap.crossed:
        assert len(vector) == (tensors if name in of_tensors else shared), name
    assert not {"buffers", "counters"} & {name for name, _ in tap.crossed}
    for row in run.history:
        assert all(math.isfinite(row[name]) for name in ("train_loss", "test_loss", "update_norm", "model_norm"))
    for k in range(4):
        assert all(torch.isfinite(torch.as_tensor(value)).all() for value in run.client_state(k).values())
    assert all(torch.isfinite(torch.as_tensor(value)).all() for value in run.server_state.values())


@pytest.mark.parametrize("kind", KINDS)
@marked("method", METHODS, METHODS[1::2])
def test_bytes_are_those_of_the_shared_parts(method: str, kind: str) -> None:
    cohorts = [[0], [0]]
    part, whole = (train(problem(k), ff.make(method), cohorts).history for k in (kind, None))
    plain = train(problem(model=net()), ff.make(method), cohorts).history
    for ours, all_shared, without in zip(part, whole, plain, strict=True):
        for way, envelope in zip(("bytes_down", "bytes_up"), ENVELOPES, strict=True):
            vectors = (without[way] - envelope) // (8 * len(flat(net())))
            messages = 2 if method in ("mime", "naivefedgloss") else 1
            left_out = vectors * own_sizes(kind)[0] + messages * own_sizes(kind)[1]
            assert all_shared[way] - ours[way] == 8 * left_out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["fedavg", "feddyn", "fedgmt", "fedgf", "fedwmsam", "mime"])
def test_workers_do_not_matter(method: str, kind: str) -> None:
    alone, pool = (
        train(problem(kind), ff.make(method), COHORTS, batch_size=3, workers=workers, evaluate_every=1)
        for workers in (0, 2)
    )
    assert same_run(alone, pool, 4)
    assert [row["test_loss"] for row in alone.history] == [row["test_loss"] for row in pool.history]


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_s_first_round_starts_from_the_initial_statistics(kind: str) -> None:
    """Client 2 joins late: the statistics that others have gathered by then are not its own."""
    before = train(problem(kind), cohorts=[[0, 1], [0, 1]])
    late = train(problem(kind), cohorts=[[0, 1], [0, 1], [2]]).client_state(2)
    x, _ = pairs()[2]
    with torch.no_grad():
        hidden = before.model()[0](x)
    expected = [0.1 * hidden.mean(0), 0.9 + 0.1 * hidden.var(0)]
    torch.testing.assert_close(late["local_buffers"], torch.cat(expected), rtol=1e-11, atol=1e-13)
    assert late["local_counters"].tolist() == [1]
    assert before.client_state(2)["local_counters"].tolist() == [0]
    assert before.client_state(1)["local_counters"].tolist() == [2]


def moved(run: ff.Run, kind: str | None) -> tuple[Tensor, int]:
    """Return the statistics and the counter of the first client, or the server's where they are shared."""
    layer, kept = run.model()[1], run.client_state(0)
    if kind is None:
        return torch.cat([layer.running_mean, layer.running_var]), int(layer.num_batches_tracked)
    return kept["local_buffers"], int(kept["local_counters"])


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("method", [*METHODS, *TWO_PASSES])
def test_the_second_pass_of_a_step_does_not_move_the_statistics(method: str, kind: str | None) -> None:
    """The first step of the first round: what the pass at the received weights gives, and nothing more."""
    unperturbed = {"rho_server": 0.0} if method == "naivefedgloss" else {}
    made = ff.make(method, **unperturbed) if method in METHODS else ff.make("fedavg", client_opt=method)
    statistics, count = moved(train(problem(kind), made, [[0]]), kind)
    x, _ = pairs()[0]
    with torch.no_grad():
        hidden = normed()[0](x)
    expected = torch.cat([0.1 * hidden.mean(0), 0.9 + 0.1 * hidden.var(0)])
    torch.testing.assert_close(statistics, expected, rtol=1e-12, atol=1e-14)
    assert count == 1


@marked("method", METHODS, METHODS[1::2])
def test_every_step_moves_the_shared_statistics_once(method: str) -> None:
    run = train(problem(), ff.make(method), [[0], [0]], batch_size=3, local_epochs=2)
    statistics, count = moved(run, None)
    assert count == 2 * 4
    one = moved(train(problem(), ff.make(method), [[0]], batch_size=3, local_epochs=2), None)[0]
    assert not torch.equal(statistics, one)


def test_the_ascent_covers_the_local_layers_too() -> None:
    """One SAM step of FedBN is a SAM step of the whole model, with one norm over all of it."""
    (x, y), model = pairs()[0], normed()
    start = [p.detach().clone() for p in model.parameters()]
    first = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    length = torch.cat([g.reshape(-1) for g in first]).norm()
    with torch.no_grad():
        for p, g in zip(model.parameters(), first, strict=True):
            p.add_(g, alpha=float(0.4 / length))
    second = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    run = train(problem("bn"), ff.make("fedsam", rho=0.4), [[0]])
    stepped = [p - 0.3 * g for p, g in zip(start, second, strict=True)]
    shared = torch.cat([stepped[i].reshape(-1) for i in (0, 1, 4, 5)])
    torch.testing.assert_close(run.vector, shared, rtol=1e-12, atol=1e-14)
    own = torch.cat([stepped[2], stepped[3]])
    torch.testing.assert_close(run.client_state(0)["local_parameters"], own, rtol=1e-12, atol=1e-14)
