"""The figures of a run's model, on the test sets and on each client's own examples, and of a run from its directory."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import flatfed as ff
from core.bench import CLASSES, INPUTS, SIZES, net, normed, pairs, same_run, seeded, task, train
from flatfed.core.method.client import Client
from flatfed.core.round.federation import TIMES
from flatfed.core.round.trainer import Trainer

COHORTS = [[0, 1], [1, 2], [0, 1, 2]]  # client 3 is never asked
UNSEEN = pairs((13,), 6)[0]


def two_norms() -> nn.Module:
    """Two BatchNorm layers of unequal width, one with a momentum of its own, and dropout."""

    def make() -> nn.Module:
        first = [nn.Linear(INPUTS, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.3)]
        return nn.Sequential(*first, nn.Linear(6, 5), nn.BatchNorm1d(5, momentum=0.3), nn.Tanh(), nn.Linear(5, CLASSES))

    return seeded(make).double()


def trained(model: nn.Module | None = None, method: str = "fedavg", **changes: Any) -> ff.Run:
    """Three rounds; what belongs to the task goes there, the rest to the training."""
    names = ("local", "test", "tests", "test_batch", "prepare", "clients", "augment")
    of_task = {name: changes.pop(name) for name in names if name in changes}
    settings = {"cohorts": COHORTS, "batch_size": 3, "evaluate_every": 1, **changes}
    return train(task(model or two_norms(), **of_task), ff.make(method), **settings)


def figures_of_row(run: ff.Run, round: int = -1) -> dict[str, Any]:
    return {n: v for n, v in run.history[round].items() if n.startswith(("test_", "unseen_", "global_"))}


# --- on the test sets -------------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    "plain": {"model": net()},
    "BatchNorm": {},
    "batch-stats": {"eval_stats": "batch-stats", "test_batch": 5},
    "recalibrate": {"eval_stats": "recalibrate"},
    "FedBN": {"local": "bn"},
    "FedBN, recalibrate": {"local": "bn", "eval_stats": "recalibrate"},
    "average": {"average": ff.SWA(start=0.0, cycle=1)},
    "further": {"tests": {"unseen": UNSEEN}},
    "float32": {"dtype": torch.float32},
    "two workers": {"workers": 2},
}


@pytest.mark.parametrize("name", RUNS)
def test_the_figures_of_a_run_are_those_of_its_last_row(name: str) -> None:
    run = trained(**RUNS[name])
    assert run.metrics() == figures_of_row(run)
    assert run.metrics()["test_loss"] != run.history[0]["test_loss"]


def test_they_are_those_of_the_end_even_where_evaluation_was_rare() -> None:
    run = trained(evaluate_every=2, evaluate_last=0)
    assert "test_loss" in run.history[-1]
    assert run.metrics() == figures_of_row(run) == figures_of_row(trained(evaluate_every=1))


def test_asking_for_figures_changes_nothing() -> None:
    run, other = trained(local="bn"), trained(local="bn")
    before = torch.get_rng_state()
    for _ in range(2):
        run.metrics()
        run.client_metrics()
    assert torch.equal(torch.get_rng_state(), before)
    assert same_run(run, other, len(SIZES))
    for a, b in zip(run.history, other.history, strict=True):
        assert a == b | {name: a[name] for name in TIMES}
    assert run.client_metrics() == other.client_metrics()


# --- on each client's own examples ------------------------------------------------------------------------


def with_own_parts(run: ff.Run, client: int, kind: str | None) -> nn.Module:
    """Return the evaluated model with what this client keeps, tensor by tensor, in `model.parameters()` order."""
    model, state = copy.deepcopy(run.model()), run.client_state(client)
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm1d)]
    with torch.no_grad():
        if kind == "bn":
            rest = state["local_parameters"]
            for parameter in (p for layer in norms for p in (layer.weight, layer.bias)):
                parameter.copy_(rest[: len(parameter)])
                rest = rest[len(parameter) :]
            assert len(rest) == 0
        if kind is not None:
            rest = state["local_buffers"]
            for buffer in (b for layer in norms for b in (layer.running_mean, layer.running_var)):
                buffer.copy_(rest[: len(buffer)])
                rest = rest[len(buffer) :]
            assert len(rest) == 0
    return model


def by_hand(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        outputs = model(x)
    right = outputs.argmax(1) == y
    shares = [float(right[y == c].double().mean()) if bool((y == c).any()) else None for c in range(CLASSES)]
    return {
        "loss": pytest.approx(float(cross_entropy(outputs, y)), rel=1e-12),
        "accuracy": float(right.double().mean()),
        "class_accuracy": shares,
    }


def expected(run: ff.Run, kind: str | None, clients: Any = None) -> list[dict[str, Any]]:
    return [
        {"client": k, "samples": len(x), **by_hand(with_own_parts(run, k, kind), x, y)}
        for k, (x, y) in enumerate(clients or pairs())
    ]


@pytest.mark.parametrize("average", [None, ff.SWA(start=0.0, cycle=1)], ids=["plain", "swa"])
@pytest.mark.parametrize("policy", ["running", "recalibrate"])
def test_a_shared_model_is_measured_on_each_client(policy: str, average: Any) -> None:
    run = trained(eval_stats=policy, average=average)
    actual = run.client_metrics()
    assert actual == expected(run, None)
    assert len({entry["loss"] for entry in actual}) == len(SIZES)


def test_statistics_are_calibrated_for_clients_too() -> None:
    running, anew = (trained(eval_stats=policy) for policy in ("running", "recalibrate"))
    assert torch.equal(running.vector, anew.vector)
    assert all(
        a["loss"] != pytest.approx(b["loss"], rel=1e-6)
        for a, b in zip(running.client_metrics(), anew.client_metrics(), strict=True)
    )


@pytest.mark.parametrize("policy", [None, "batch-stats", "recalibrate"])
@pytest.mark.parametrize("kind", ["bn", "bn-stats"])
def test_each_client_has_its_own_parameters_and_statistics(kind: str, policy: Any) -> None:
    run = trained(local=kind, eval_stats=policy)
    actual = run.client_metrics()
    assert actual == expected(run, kind)
    # What another client keeps gives other figures, and so does the model without anybody's parts.
    x, y = pairs()[0]
    for model in (with_own_parts(run, 1, kind), with_own_parts(run, 3, kind), run.model()):
        assert actual[0]["loss"] != by_hand(model, x, y)["loss"]


def test_a_client_that_never_took_part_has_the_first_parts() -> None:
    run = trained(local="bn")
    first = two_norms()
    model = with_own_parts(run, 3, "bn")
    for name, tensor in first.state_dict().items():
        if name.startswith(("1.", "5.")) and not name.endswith("tracked"):
            assert torch.equal(model.state_dict()[name], tensor), name
    assert run.client_metrics()[3] == {"client": 3, "samples": SIZES[3], **by_hand(model, *pairs()[3])}


def test_other_local_layers_go_with_the_policy_of_the_run() -> None:
    """A head of one's own keeps no statistics: these are the shared ones, or the batch's where that is asked for."""
    running, batch = (
        trained(local=ff.Local(names=("7.*",)), eval_stats=policy) for policy in ("running", "batch-stats")
    )
    for run in (running, batch):
        for k, (x, y) in enumerate(pairs()):
            model = copy.deepcopy(run.model()).eval()
            weight, bias = run.client_state(k)["local_parameters"].split([5 * CLASSES, CLASSES])
            with torch.no_grad():
                model[7].weight.copy_(weight.view(CLASSES, 5))
                model[7].bias.copy_(bias)
                if run is batch:
                    model[1].train()
                    model[5].train()
                loss = float(cross_entropy(model(x), y))
            assert run.client_metrics()[k]["loss"] == pytest.approx(loss, rel=1e-12)


def test_examples_are_taken_in_test_batches() -> None:
    run = trained(test_batch=3, eval_stats="batch-stats", clients=pairs((6, 4)), cohorts=[[0, 1]], batch_size=2)
    model = run.model().eval()
    model[1].train()
    model[5].train()
    for entry, (x, y) in zip(run.client_metrics(), pairs((6, 4)), strict=True):
        half = len(x) // 2
        with torch.no_grad():
            outputs = torch.cat([model(x[:half]), model(x[half:])])
        assert entry["loss"] == pytest.approx(float(cross_entropy(outputs, y)), rel=1e-12)


def test_size_of_batches_does_not_matter_with_running_statistics() -> None:
    small, whole = (trained(local="bn", test_batch=size).client_metrics() for size in (4, 512))
    for a, b in zip(small, whole, strict=True):
        assert a == b | {"loss": pytest.approx(b["loss"], rel=1e-12)}


def test_examples_are_prepared_but_not_augmented() -> None:
    run = trained(net(), prepare=lambda x: 3 * x, augment=lambda x, generator: x + 100)
    assert run.client_metrics() == expected(run, None, [(3 * x, y) for x, y in pairs()])


def test_clients_without_examples_are_left_out() -> None:
    clients = pairs()
    clients[1] = (clients[1][0][:0], clients[1][1][:0])
    run = trained(net(), clients=clients)
    assert [entry["client"] for entry in run.client_metrics()] == [0, 2, 3]


def test_sources_do_not_matter() -> None:
    x, y = (torch.cat(parts) for parts in zip(*pairs(), strict=True))
    parts = torch.arange(len(x)).split(list(SIZES))
    plain = trained(net()).client_metrics()
    assert trained(net(), clients=ff.Partition(x, y, parts)).client_metrics() == plain
    assert trained(net(), clients=[TensorDataset(*pair) for pair in pairs()]).client_metrics() == plain


# --- from a directory -------------------------------------------------------------------------------------


def untouched(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in directory.rglob("*") if p.is_file()}


@pytest.mark.parametrize("method", ["fedavg", "feddyn"])
@pytest.mark.parametrize("name", [name for name in RUNS if name != "two workers"])
def test_a_loaded_run_has_the_figures_of_the_run(
    name: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(method=method, **RUNS[name], out=tmp_path / "run")
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")  # a place that this process does not know
    before = untouched(elsewhere)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("something was trained")

    monkeypatch.setattr(Client, "descend", never)
    monkeypatch.setattr(Trainer, "run", never)
    loaded = ff.load_run(elsewhere)
    assert loaded.metrics() == run.metrics() == figures_of_row(run)
    assert loaded.client_metrics() == run.client_metrics()
    assert same_run(loaded, run, len(SIZES))
    assert torch.equal(loaded.eval_vector, run.eval_vector)
    assert all(torch.equal(loaded.model().state_dict()[n], t) for n, t in run.model().state_dict().items())
    assert (loaded.history, loaded.summary) == (run.history, run.summary)
    assert (loaded.status, loaded.path) == ("finished", elsewhere)
    assert untouched(elsewhere) == before


def test_a_run_is_loaded_as_far_as_its_newest_checkpoint(tmp_path: Path) -> None:
    shorter = trained(rounds=2, local="bn")
    trained(local="bn", out=tmp_path / "run", checkpoint_every=1)
    shutil.rmtree(max((tmp_path / "run/checkpoints").glob("round-*")))
    loaded = ff.load_run(tmp_path / "run")
    assert [row["round"] for row in loaded.history] == [0, 1]
    assert loaded.metrics() == figures_of_row(loaded) == figures_of_row(shorter)
    assert loaded.client_metrics() == shorter.client_metrics()
    assert same_run(loaded, shorter, len(SIZES))


def test_a_task_that_no_file_describes_is_asked_for(tmp_path: Path) -> None:
    run = trained(normed(), prepare=lambda x: 2 * x, out=tmp_path / "run")
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    with pytest.raises(ff.ConfigError, match="task=task"):
        ff.load_run(elsewhere)
    again = ff.load_run(elsewhere, task=task(normed(), prepare=lambda x: 2 * x))
    assert again.client_metrics() == run.client_metrics()


def test_what_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match="is not a run directory"):
        ff.load_run(tmp_path / "nothing")


def test_another_data_directory_is_for_data_sets_of_the_catalogue(tmp_path: Path) -> None:
    trained(out=tmp_path / "run")
    with pytest.raises(ff.ConfigError, match="do not come from a data directory"):
        ff.load_run(tmp_path / "run", data_dir=tmp_path)
