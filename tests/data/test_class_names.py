"""Names of classes: with the data sets that have them, through a task, and in a run's directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import flatfed as ff
from data.test_cifar import write_binary
from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.data.sources.published.cifar import CIFAR10_NAMES, COARSE_NAMES, FINE_NAMES
from flatfed.data.sources.published.dbpedia14 import CLASS_NAMES as TOPICS
from flatfed.data.sources.published.mnist import CLOTHES, DIGITS
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.named_code import USER
from flatfed.runs.described.tasks import describe_task, rebuild_task, tensor_bytes


@pytest.mark.parametrize(
    ("names", "count", "some"),
    [
        (DIGITS, 10, {0: "digit 0", 9: "digit 9"}),
        (CLOTHES, 10, {0: "T-shirt/top", 9: "ankle boot"}),
        (CIFAR10_NAMES, 10, {0: "airplane", 3: "cat", 9: "truck"}),
        (FINE_NAMES, 100, {0: "apple", 23: "cloud", 52: "oak tree", 78: "snake", 99: "worm"}),
        (COARSE_NAMES, 20, {0: "aquatic mammals", 17: "trees", 19: "vehicles 2"}),
        (TOPICS, 14, {0: "Company", 13: "WrittenWork"}),
    ],
)
def test_every_class_has_one_name(names: tuple[str, ...], count: int, some: dict[int, str]) -> None:
    assert len(names) == len(set(names)) == count
    assert {number: names[number] for number in some} == some


def test_the_fine_classes_are_in_alphabetical_order() -> None:
    assert list(FINE_NAMES) == sorted(FINE_NAMES)


@pytest.mark.parametrize(
    ("name", "options", "first"),
    [("cifar10", {}, "airplane"), ("cifar100", {}, "apple"), ("cifar100", {"labels": "coarse"}, "aquatic mammals")],
)
def test_a_pool_has_the_names_of_its_labels(name: str, options: dict[str, str], first: str, tmp_path: Path) -> None:
    write_binary(tmp_path, name)
    pool = load(name, tmp_path, **options)
    assert (pool.class_names[0], len(pool.class_names)) == (first, pool.classes)


def test_as_many_names_as_classes() -> None:
    with pytest.raises(ConfigError, match="digits: 2 names for 10 classes"):
        replace(load("digits"), class_names=("a", "b"))


def test_a_task_from_the_catalogue_knows_them() -> None:
    task = TaskRecipe("digits", clients=3, model="logreg").build()
    assert (task.class_name(3), task.class_name(10)) == ("digit 3", "class 10")


def test_a_task_without_names_numbers_its_classes(tmp_path: Path) -> None:
    data = (torch.randn(4, 2), torch.arange(4) % 2)
    for names, reported in (((), "class 1"), (("no", "yes"), "yes")):
        task = ff.Task(nn.Linear(2, 2), [data], class_names=names)
        recipe, tensors = describe_task(task)
        (tmp_path / "task").write_bytes(tensor_bytes(tensors))
        assert task.class_name(1) == rebuild_task(recipe, tmp_path / "task", USER).class_name(1) == reported
        del recipe["class_names"]  # as it was written before there were names
        assert rebuild_task(recipe, tmp_path / "task", USER).class_name(1) == "class 1"
