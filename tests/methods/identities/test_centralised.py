"""Centralised training: one client holds everyone's examples, whatever else is said about clients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import flatfed as ff
from engines.bench import assert_same, bits, normed_digits
from flatfed.core.configuration.settings import Settings
from flatfed.core.task.examples import PartExamples, Partition, Pooled, joined
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.play import play
from flatfed.experiments.tasks.recipe import TaskRecipe, partition_digest
from flatfed.runs.directory import RunDirectory
from methods.bench import assert_close, network_setup, train_network
from methods.identities.shared import each_opt, opt_named, vector
from methods.naive import Setup
from runs.bench import jittered, small_model, small_task

SETTINGS: dict[str, Any] = {"rounds": 3, "lr": 0.1, "batch_size": 4, "workers": 0, "seed": 3}


def pooled_setup(setup: Setup) -> Setup:
    """The set-up of one client that holds everything."""
    everything = (np.concatenate([x for x, _ in setup.clients]), np.concatenate([y for _, y in setup.clients]))
    return replace(setup, clients=[everything], schedule=((0,),) * setup.rounds)


def one_client(task: ff.Task) -> ff.Task:
    """The same task, with all examples in one pair of tensors."""
    inputs, targets = zip(*((c.inputs, c.targets) for c in task.clients), strict=True)
    return replace(task, clients=[(torch.cat(inputs), torch.cat(targets))])


@each_opt
@pytest.mark.parametrize("batch_size", [None, 5, 100])
def test_it_is_fedavg_on_one_client_to_the_bit(opt: str, batch_size: int | None) -> None:
    setup = pooled_setup(network_setup(batch_size=batch_size, momentum=0.5))
    pooled = train_network(ff.make("centralised", client_opt=opt_named(opt)), setup)
    alone = train_network(ff.make("fedavg", client_opt=opt_named(opt)), setup)
    assert_same(bits(pooled, 1), bits(alone, 1))


def test_with_the_full_batch_it_is_gradient_descent_on_the_pooled_loss() -> None:
    setup = network_setup()
    inputs, targets = pooled_setup(setup).clients[0]
    w = setup.w0
    for t in range(setup.rounds):
        for _ in range(setup.local_epochs):
            w = w - setup.lr * setup.lr_decay**t * (setup.gradient(w, inputs, targets) + setup.weight_decay * w)
    assert_close(vector("centralised", setup), w)


def test_with_one_full_batch_step_it_is_fedavg_with_everyone() -> None:
    setup = network_setup(schedule=(tuple(range(6)),) * 4, local_epochs=1)
    assert_close(vector("centralised", setup), vector("fedavg", setup), rel=1e-12)


@pytest.mark.parametrize("sampling", [2, ff.Bernoulli(p=0.3), ff.Replay([[0, 1], [2], [4]]), 99])
def test_sampling_and_weighting_have_no_part_in_it(sampling: Any, recwarn: pytest.WarningsRecorder) -> None:
    method, task = ff.make("centralised", client_opt=ff.SAM()), small_task()
    expected = ff.train(task, method, sampling=1, **SETTINGS)
    run = ff.train(task, method, sampling=sampling, weighting="uniform", min_replies=4, **SETTINGS)
    assert_same(bits(run, 1), bits(expected, 1))
    assert [row["clients"] for row in run.history] == [[0]] * 3
    assert not list(recwarn)


@pytest.mark.parametrize("average", [None, ff.SWA(start=0.4, cycle=2, lr_low=0.01)])
def test_workers_and_resuming_change_no_bit(average: ff.Average | None, tmp_path: Path) -> None:
    method = ff.make("centralised", client_opt=ff.ASAM())
    task = small_task(augment=jittered)
    changes = {"average": average, "batch_size": 4, "lr": 0.1, "sampling": 2, "evaluate_every": 1}
    expected = bits(ff.train(task, method, rounds=5, workers=0, **changes), 1)
    for workers in (1, 2):
        run = ff.train(task, method, rounds=5, workers=workers, out=tmp_path / str(workers), **changes)
        assert_same(bits(run, 1), expected)
        assert RunDirectory.open(tmp_path / str(workers)).config["sampler"] == {"id": "uniform", "count": 1}
    for checkpoint in RunDirectory.open(tmp_path / "1").checkpoints.rounds()[:1]:
        (tmp_path / "1" / "checkpoints" / f"round-{checkpoint:06d}" / "checkpoint.json").write_text("{}")
    assert_same(bits(ff.resume(tmp_path / "1"), 1), expected)


def test_a_run_directory_brings_the_clients_back(tmp_path: Path) -> None:
    """The record holds the federated task: a process that knows nothing of this one pools it again."""
    task = small_task()
    run = ff.train(task, ff.make("centralised"), sampling=1, out=tmp_path / "run", **SETTINGS)
    expected = bits(run, 1)
    config = RunDirectory.open(tmp_path / "run").config
    assert config["task"]["clients"] == {"pool": False, "count": 5}
    del task, run
    loaded = ff.load_run(tmp_path / "run")
    assert_same(bits(loaded, 1), expected)
    assert loaded._federation.task.population == 1


def test_the_partition_of_a_catalogue_task_is_recorded_and_checked(tmp_path: Path) -> None:
    recipe = TaskRecipe("digits", clients=6, model="logreg")
    method, settings = ff.make("centralised"), Settings(rounds=1, lr=0.1)
    plan = Plan(recipe.build(), method, settings, ff.Uniform(2), workers=0, task_recipe=recipe.to_dict())
    run = play(plan, tmp_path / "run")
    recorded = RunDirectory.open(tmp_path / "run").config["task"]["partition_sha256"]
    assert recorded == partition_digest(recipe.build())
    assert run.history[0]["backprops"] == -(-sum(map(len, recipe.parts())) // 64)
    assert ff.load_run(tmp_path / "run").status == "finished"


# What is held together.


def test_parts_of_one_pool_stay_indices() -> None:
    inputs = torch.arange(10.0)
    pooled = ff.Task(nn.Linear(1, 1), ff.Partition(inputs, inputs, [[3, 1], [], [7, 2, 9]])).pooled()
    [held] = pooled.clients
    assert isinstance(held, PartExamples) and held.part.tolist() == [3, 1, 7, 2, 9]
    assert held.pool.inputs is inputs
    assert isinstance(pooled.apart().clients, Partition) and pooled.pooled() is pooled
    assert joined(pooled.clients).batch(torch.tensor([0, 4]))[0].tolist() == [3, 9]


def test_tensors_of_several_clients_are_not_copied() -> None:
    task = small_task()
    pooled = task.pooled()
    assert pooled.population == 1 and len(pooled.examples(0)) == sum(map(len, task.clients))
    assert isinstance(pooled.clients, Pooled) and pooled.clients.apart is task.clients
    inputs, targets = pooled.examples(0).batch(torch.tensor([0, 9, 39]))
    assert torch.equal(inputs[1], task.examples(1).batch(torch.tensor([1]))[0][0])
    assert torch.equal(targets[2:], task.examples(4).batch(torch.tensor([7]))[1])


class Noisy(Dataset[tuple[Tensor, int]]):
    """Examples that a transform shakes by NumPy's global generator."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([np.random.rand()]), self.number  # noqa: NPY002  (as transforms do)


def test_transforms_of_separate_datasets_draw_anew_for_every_example() -> None:
    pooled = ff.Task(nn.Linear(1, 4), [Noisy(k) for k in range(4)]).pooled()
    torch.manual_seed(1)
    inputs, targets = pooled.examples(0).batch(torch.tensor([11, 0, 4, 7]))
    assert targets.tolist() == [3, 0, 1, 2]
    assert len(set(inputs.flatten().tolist())) == 4


@pytest.mark.parametrize("local", ["bn", "bn-stats"])
def test_nothing_stays_with_anybody(local: str) -> None:
    """What would be local is trained with the rest: there is nobody else."""
    shared = ff.train(small_task(), ff.make("centralised"), sampling=2, **SETTINGS)
    run = ff.train(small_task(local=local), ff.make("centralised"), sampling=2, **SETTINGS)
    assert_same(bits(run, 1), bits(shared, 1))


def test_it_learns_with_batchnorm_and_augmentation() -> None:
    task = normed_digits()
    run = ff.train(task, ff.make("centralised"), rounds=3, sampling=5, lr=0.05, batch_size=32, workers=0)
    federated = ff.train(task, ff.make("fedavg"), rounds=3, sampling=5, lr=0.05, batch_size=32, workers=0)
    assert run.summary["accuracy_final"] > federated.summary["accuracy_final"]


def test_a_branch_of_it_is_the_whole_run(tmp_path: Path) -> None:
    method, average = ff.make("centralised", client_opt=ff.SAM()), ff.SWA(start=0.5, cycle=2, lr_low=0.01)
    changes = {"sampling": 2, "lr": 0.1, "batch_size": 4, "workers": 0, "rounds": 6}
    ff.train(small_task(), method, out=tmp_path / "run", keep_checkpoints=(3,), **changes)
    branched = ff.branch(tmp_path / "run", average, tmp_path / "branch")
    assert_same(bits(branched, 1), bits(ff.train(small_task(), method, average=average, **changes), 1))


def test_flatness_is_measured_over_the_same_examples_as_of_a_federated_run(tmp_path: Path) -> None:
    task = ff.Task(small_model(), small_task().clients)
    run = ff.train(task, ff.make("centralised"), sampling=1, **SETTINGS)
    with ff.laboratory(run, samples=10, workers=0) as lab:
        pooled = lab.measure("loss")
    apart = ff.Task(run.model(), task.clients)
    with ff.laboratory(apart, samples=10, workers=0) as lab:
        assert str(lab.measure("loss")) == str(pooled)
