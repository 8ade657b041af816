"""`node_data`: a task goes to the nodes of a cluster without its examples, which each node reads from its own disk."""

from __future__ import annotations

import pickle
import platform
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from data.web import idx, write_mnist
from engines.bench import assert_same, bits, tensors_task
from engines.table import Row, on_engines
from flatfed.core.errors import ConfigError, EngineError
from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.core.task.origin import Origin
from flatfed.core.task.task import Task
from flatfed.data.corruptions import CorruptedExamples
from flatfed.engines.ray_cluster.bare_task import Unreadable, read, with_examples, without_examples
from flatfed.experiments.tasks.recipe import TaskRecipe

CLIENTS = 4
SETTINGS: dict[str, Any] = {"rounds": 2, "sampling": 2, "lr": 0.1, "batch_size": 20, "vectorised": False}


def written(folder: Path) -> Path:
    """Write a data set: too large for Ray to pass by."""
    write_mnist(folder / "MNIST" / "raw", train=200, test=50)
    return folder


def built(folder: Path) -> Task:
    return TaskRecipe("mnist", clients=CLIENTS, model="logreg", data_dir=str(folder)).build()


def origin_of(task: Task) -> Origin:
    assert task.origin is not None
    return task.origin


def in_memory(task: Task) -> list[TensorExamples]:
    return [examples for examples in origin_of(task).examples().values() if isinstance(examples, TensorExamples)]


def content(examples: Examples) -> list[torch.Tensor]:
    return list(examples.batch(torch.arange(len(examples))))


# --- on a cluster ------------------------------------------------------------------------------------------------


def play(task: Task, **where: Any) -> dict[str, Any]:
    return bits(ff.train(task, "scaffold", **where, **SETTINGS), CLIENTS)


@on_engines("ray")
def test_a_node_reads_its_own_examples_and_no_bit_is_lost(row: Row, tmp_path: Path) -> None:
    """Nobody else has them: this process has forgotten its own, after their fingerprint was taken."""
    task, there = built(written(tmp_path / "here")), written(tmp_path / "there")
    expected = play(task, workers=0)
    origin_of(task).fingerprint()
    for examples in in_memory(task):
        examples.inputs.zero_()
    found = play(task, engine=row.config(2).replace(node_data=str(there)))
    assert_same(found, expected)


def change_a_pixel(folder: Path) -> None:
    """Change one pixel of one test image."""
    file = written(folder) / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@on_engines("ray", without="starts_slowly")
def test_a_node_with_other_examples_is_refused(row: Row, tmp_path: Path) -> None:
    task, there = built(written(tmp_path / "here")), tmp_path / "there"
    change_a_pixel(there)
    with pytest.raises(EngineError) as caught:
        play(task, engine=row.config(1).replace(node_data=str(there)), out=tmp_path / "run")
    assert str(caught.value) == (
        f"the node {platform.node()} cannot take the examples from {there}: they are not the examples of this run. "
        "Have the same data on every node, or leave --node-data (node_data) out, and they are sent"
    )
    assert not (tmp_path / "run").exists()


# --- what is refused before anything starts ----------------------------------------------------------------------


def test_a_task_that_only_this_process_has_is_refused() -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'flatfed[ray]'")
    with pytest.raises(ConfigError, match=r"not made from a data set by name.*; leave node_data out"):
        ff.train(tensors_task(), "fedavg", engine=ff.Ray(node_data="/data"), rounds=1, sampling=1, lr=0.1)


# --- what is sent ------------------------------------------------------------------------------------------------


@pytest.fixture
def task(tmp_path: Path) -> Task:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'flatfed[ray]'")
    return built(written(tmp_path / "here"))


def sent(task: Task, tmp_path: Path) -> Task:
    """Return a task as a node has it."""
    data = without_examples(task, origin_of(task))
    assert len(data) < sum(examples.inputs.nbytes for examples in in_memory(task)) / 2
    there = pickle.loads(pickle.dumps(origin_of(task).within(str(written(tmp_path / "there")))))
    return with_examples(data, there.examples())


def assert_alike(found: Task, expected: Task) -> None:
    """Compare models, clients and test sets to the bit."""
    state = expected.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in found.model.state_dict().items())
    assert found.population == expected.population
    pairs = [(found.examples(client), expected.examples(client)) for client in range(found.population)]
    pairs += [(found.test_sets[name], expected.test_sets[name]) for name in expected.test_sets]
    for ours, theirs in pairs:
        assert all(map(torch.equal, content(ours), content(theirs)))


def test_what_is_made_of_the_task_stays_as_it_was_made(task: Task, tmp_path: Path) -> None:
    """The model is not built again, pooled clients stay pooled, and a test set of another source goes with the task."""
    assert task.test is not None
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter.add_(1.0)
    unseen = torch.zeros(3, 1, 28, 28, dtype=torch.uint8), torch.arange(3)
    changed = replace(task, tests={"fog": CorruptedExamples(task.test, "fog", 3), "unseen": unseen}).pooled()
    assert_alike(sent(changed, tmp_path), changed)
    assert_alike(sent(changed.apart(), tmp_path), changed.apart())


def spoil_labels(folder: Path) -> None:
    file = written(folder) / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    file.write_bytes(idx(np.full(200, 77, np.uint8)))


SPOILT = {
    "other": (change_a_pixel, "they are not the examples of this run"),
    "missing": (Path.mkdir, r"mnist: .*/there/MNIST/raw/train-images-idx3-ubyte.* is missing; .* with --node-data"),
    "damaged": (spoil_labels, r".*/there/MNIST/raw/train-labels-idx1-ubyte is damaged: it has labels outside"),
}


@pytest.mark.parametrize(("spoil", "reason"), SPOILT.values(), ids=SPOILT.keys())
def test_what_a_node_says_of_its_examples(
    task: Task, spoil: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    origin = origin_of(task)
    spoil(tmp_path / "there")
    answer = read(without_examples(task, origin), origin.within(str(tmp_path / "there")), origin.fingerprint())
    assert isinstance(answer, Unreadable)
    assert re.match(reason, answer.reason), answer.reason


def test_clients_with_other_examples_are_refused(task: Task) -> None:
    own = replace(task, clients=[content(task.examples(0))])
    with pytest.raises(ConfigError, match=r"are not those of the data set .*; leave node_data out"):
        without_examples(own, origin_of(task))


def test_another_process_gets_the_examples_and_not_where_they_come_from(task: Task) -> None:
    copy = pickle.loads(pickle.dumps(task))
    assert copy.origin is None
    assert_alike(copy, task)
