"""The task: any module, any of three sources of examples, any loss."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

import flatfed as ff
from core.bench import CLASSES, INPUTS, net, normed, pairs, same_run, seeded, task, train


def sources() -> dict[str, Any]:
    """Return the same clients from each kind of source."""
    clients = pairs()
    x, y = (torch.cat(parts) for parts in zip(*clients, strict=True))
    parts = torch.arange(len(x)).split([len(c[0]) for c in clients])
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    place = torch.argsort(shuffled)
    return {
        "pairs": clients,
        "lists": [list(pair) for pair in clients],
        "datasets": [TensorDataset(*pair) for pair in clients],
        "subsets": [Subset(TensorDataset(x, y), part.tolist()) for part in parts],
        "partition": ff.Partition(x, y, parts),
        "numpy-partition": ff.Partition(x, y, [part.numpy() for part in parts]),
        "shuffled-partition": ff.Partition(x[shuffled], y[shuffled], [place[part].tolist() for part in parts]),
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_every_source_of_the_same_examples_gives_the_same_bits(workers):
    tests = {"datasets": TensorDataset(*pairs((9,), 5)[0])}
    changes = {"batch_size": 3, "local_epochs": 2}
    expected = train(task(), ff.make("scaffold"), **changes)
    for name, clients in sources().items():
        problem = task(clients=clients, **({"test": tests[name]} if name in tests else {}))
        run = train(problem, ff.make("scaffold"), workers=workers, **changes)
        assert same_run(run, expected, 4), name
        assert run.history[-1]["test_loss"] == expected.history[-1]["test_loss"], name


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        return iter([])


X, Y = pairs((4,))[0]
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"model": lambda x: x}, "model must be a torch.nn.Module, not function"),
    "no-clients": ({"clients": []}, "the task has no clients"),
    "clients-none": ({"clients": None}, "clients must be"),
    "clients-generator": ({"clients": (pair for pair in pairs())}, "clients must be"),
    "clients-by-name": ({"clients": {"a": (X, Y)}}, "client"),
    "uneven": ({"clients": [(X, Y), (X, Y[:3])]}, "client 1: 4 inputs but 3 targets"),
    "one": ({"clients": [(X,)]}, "client 0 must be a pair of tensors"),
    "tensor": ({"clients": [X]}, "client 0 must be a pair of tensors"),
    "text": ({"clients": ["train.csv"]}, "client 0 must be a pair of tensors"),
    "mapping": ({"clients": [{"x": X, "y": Y}]}, "client 0: no 'labels' among x, y"),
    "iterable": ({"clients": [Endless()]}, "client 0 must be a pair of tensors"),
    "number": ({"clients": [(X, Y), 7]}, "client 1 must be a pair of tensors"),
    "no-data": ({"clients": [(X[:0], Y[:0])]}, "no client has any data"),
    "empty-test": ({"test": (X[:0], Y[:0])}, "the test set is empty; leave it out, or pass test=None"),
    "bad-test": ({"test": "test.csv"}, "test must be a pair of tensors"),
}


@pytest.mark.parametrize(("changes", "reason"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_in_one_sentence(changes, reason):
    with pytest.raises(ff.ConfigError, match=reason) as refused:
        ff.Task(**{"model": net(), "clients": pairs(), **changes})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("part", [[0, 4], [-1]])
def test_a_partition_refers_to_examples_that_exist(part):
    with pytest.raises(ff.ConfigError, match="client 1 refers to examples outside the 4"):
        ff.Partition(X, Y, [[0], part])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": net()}, "task must be an ff.Task, not Sequential"),
        ({"algorithm": ff.FedAvg}, "algorithm must"),
        ({"average": "swa"}, "average must be ff.SWA"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64"),
        ({"workers": -1}, "workers must be 'auto' or a whole number"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"lr": -0.1}, "lr must be at least 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1"),
        ({"weighting": "equal"}, "weighting must be one of 'samples', 'uniform'"),
        ({"clip": 0}, "clip must be greater than 0"),
    ],
)
def test_bad_arguments_of_train_are_refused_before_anything_runs(changes, reason):
    arguments = {"task": task(), "algorithm": ff.make("fedavg"), "rounds": 1, "sampling": 1, "lr": 0.1, "workers": 0}
    with pytest.raises(ff.ConfigError, match=reason):
        ff.train(**{**arguments, **changes})


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs.view(-1), targets.view(-1))


@pytest.mark.parametrize("shape", [(7, 1), (7,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_regression_has_a_loss_but_no_accuracy(dtype, shape):
    model = seeded(lambda: nn.Linear(INPUTS, 1))
    generator = torch.Generator().manual_seed(0)
    # Inputs and targets in the other types are taken to the training type.
    x = torch.randn(7, INPUTS, generator=generator, dtype=torch.float64)
    y = (x.sum(1) + 1).view(shape).float()
    problem = ff.Task(model, [(x, y)], test=(x, y), loss=squared)
    run = train(problem, cohorts=[[0]] * 30, lr=0.1, dtype=dtype)
    row = run.history[-1]
    with torch.no_grad():
        expected = squared(run.model()(x.to(dtype)), y.to(dtype))
    assert run.vector.dtype == dtype
    assert row["test_loss"] == pytest.approx(float(expected), rel=1e-5)
    assert row["test_loss"] < 0.1 * run.history[0]["test_loss"]
    assert "test_accuracy" not in row
    assert run.summary["accuracy_final"] is None


def test_without_a_test_set_nothing_is_evaluated():
    run = train(task(test=None))
    assert all("test_loss" not in row and "test_accuracy" not in row for row in run.history)


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "fedgmt"])
def test_the_task_is_never_changed_by_training(method):
    model = normed().eval()
    model[0].bias.requires_grad_(False)
    before, clients = copy.deepcopy(model.state_dict()), pairs()
    problem = task(model, clients)
    run = train(problem, ff.make(method))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not model.training
    assert all(p.grad is None and p.is_leaf for p in model.parameters())
    assert [p.requires_grad for p in model.parameters()] == [True, False, *[True] * 4]
    assert all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(clients, pairs(), strict=True))
    again = train(problem, ff.make(method))
    assert same_run(run, again, 4)


@settings(max_examples=8, deadline=None)
@given(count=st.sampled_from([1, 511, 512, 513, 1100]), batchnorm=st.booleans())
def test_the_model_of_a_run_reproduces_the_evaluated_figures(count, batchnorm):
    x, y = pairs((count,), 7)[0]
    run = train(task(normed() if batchnorm else net(), test=(x, y)), average=ff.SWA(start=0.0, cycle=1))
    model = run.model().eval()
    with torch.no_grad():
        outputs = model(x)
    row = run.history[-1]
    assert row["test_accuracy"] == float((outputs.argmax(1) == y).double().mean())
    assert row["test_loss"] == pytest.approx(float(nn.functional.cross_entropy(outputs, y)), rel=1e-12)
    assert not torch.equal(run.eval_vector, run.vector)


class Confusion:
    """A metric of the user's own: sums over batches, a figure from the totals."""

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        pairs = targets * CLASSES + outputs.argmax(1)
        return {"confusion": torch.bincount(pairs, minlength=CLASSES**2).view(CLASSES, CLASSES)}

    def summarise(self, totals: dict[str, Tensor]) -> dict[str, float]:
        table = totals["confusion"].double()
        return {"recall": float((table.diagonal() / table.sum(1)).mean())}


@pytest.mark.parametrize("workers", [0, 2])
def test_metrics_of_the_users_own_are_summed_over_the_whole_test_set(workers):
    x, y = pairs((1100,), 7)[0]
    run = train(task(test=(x, y), metrics=Confusion()), workers=workers)
    right = (run.model()(x).argmax(1) == y).numpy()
    expected = np.mean([right[y.numpy() == c].mean() for c in range(CLASSES)])
    assert run.history[-1]["test_recall"] == pytest.approx(expected)
    assert "test_accuracy" not in run.history[-1]
