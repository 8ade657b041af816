"""Clients in lockstep come to the same bits everywhere, and to what they come to one by one."""

from __future__ import annotations

import functools
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from cli.command import read_json
from engines.vectorised import (
    CLASSES,
    INPUTS,
    SIZES,
    TOLERANCE,
    Noisy,
    agree,
    both,
    examples,
    network,
    play,
    same,
    small,
)
from flatfed.core.model import vectorising as batching
from flatfed.core.round.vectorised import LARGEST_GROUP, group_sizes
from flatfed.data.augment.mixing import Mixup


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rounds may go in lockstep too, so that small tests can choose it by themselves."""
    monkeypatch.setattr(batching, "FEWEST_CLIENTS", 1)


# --- the same bits everywhere -----------------------------------------------------------------------------

METHODS: dict[str, Callable[[], ff.Algorithm]] = {
    "scaffold": lambda: ff.make("scaffold"),
    "fedgmt": lambda: ff.make("fedgmt"),
    "feddyn+asam": lambda: ff.make("feddyn", client_opt=ff.ASAM()),
    "naivefedgloss+sam, two exchanges": lambda: ff.make("naivefedgloss", client_opt=ff.SAM()),
    "fedwmsam, records": lambda: ff.make("fedwmsam"),
}


@functools.cache
def reference(method: str, dtype: str = "float32") -> ff.Run:
    return play(method=METHODS[method](), dtype=dtype)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_any_number_of_workers_gives_the_same_bits(method: str, workers: int) -> None:
    same(play(method=METHODS[method](), workers=workers), reference(method))


def test_more_workers_than_groups_give_the_same_bits() -> None:
    same(play(workers=5), reference("scaffold"))


def test_in_double_precision_too() -> None:
    same(play(workers=2, dtype=torch.float64), reference("scaffold", "float64"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [1, 3])
def test_a_resumed_run_comes_to_the_same_bits(done: int, workers: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sampling": 5, "vectorised": None}
    play(rounds=done, out=tmp_path / "run", **settings)
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")  # a place that this process does not know
    same(ff.resume(elsewhere, 4, workers=workers), play(rounds=4, **settings))
    assert read_json(elsewhere / "config.json")["settings"]["vectorised"] is True


interrupts_left: int | None = None


def interrupting_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy; the interrupt key is pressed once, in the middle of a group."""
    global interrupts_left
    if interrupts_left is not None:
        interrupts_left -= 1
        if interrupts_left == 0:
            signal.raise_signal(signal.SIGINT)
    return functional.cross_entropy(outputs, targets)


@pytest.mark.usefixtures("signals_heard")
def test_an_interrupt_in_the_middle_of_a_group_leaves_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = small(loss=interrupting_loss)
    monkeypatch.setitem(globals(), "interrupts_left", 44)  # a trial and the first round take 39, the second 14
    run = play(task, out=tmp_path / "run")
    assert (run.status, len(run.history)) == ("interrupted", 1)
    assert torch.is_grad_enabled()
    same(ff.resume(tmp_path / "run", task=task), play(task))


# --- the same as client by client -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_lockstep_is_client_by_client_but_for_rounding(method: str, dtype: str) -> None:
    alone = play(method=METHODS[method](), dtype=dtype, vectorised=False)
    agree(reference(method, dtype), alone, TOLERANCE[dtype])


VARIANTS: dict[str, dict[str, Any]] = {
    "full batch": {"batch_size": None},
    "one example a step": {"batch_size": 1},
    "a batch larger than any client": {"batch_size": 64},
    "momentum, clip and decay": {"momentum": 0.9, "clip": 0.5, "weight_decay": 0.01},
    "uniform": {"weighting": "uniform"},
    "an average": {"average": ff.SWA(start=0.0, cycle=1)},
    "a schedule": {"lr": ff.Ramp(0.2, 0.01, 3)},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_settings_go_with_it(name: str) -> None:
    agree(*both(method=ff.make("fedsam"), **VARIANTS[name]))


def many(count: int) -> ff.Task:
    sizes = tuple(1 + (5 * k) % 7 for k in range(count))
    return small(clients=examples(sizes))


@pytest.mark.parametrize("clients", [8, 17, 40, 70])
def test_more_clients_than_go_together(clients: int, groups: list[int]) -> None:
    changes = {"rounds": 2, "sampling": clients, "local_epochs": 1}
    together, alone = both(many(clients), **changes)
    assert groups == 2 * group_sizes(clients)
    assert max(groups) <= LARGEST_GROUP
    agree(together, alone)


def test_more_clients_than_go_together_on_workers() -> None:
    changes = {"rounds": 2, "sampling": 40, "local_epochs": 1}
    same(play(many(40), workers=2, **changes), play(many(40), **changes))


@pytest.mark.parametrize("workers", [0, 2])
def test_one_client_a_round_is_that_client_alone(workers: int) -> None:
    cohorts = ff.Replay([[3], [0], [3]])
    changes = {"sampling": cohorts, "rounds": 3, "workers": workers}
    same(play(**changes), play(vectorised=False, **changes))


def test_two_clients_of_very_different_sizes() -> None:
    agree(*both(small(clients=examples((30, 1))), sampling=2, rounds=2))


def test_clients_without_examples_stay_away() -> None:
    clients = examples()
    clients[2] = (torch.zeros(0, INPUTS), torch.zeros(0, dtype=torch.int64))
    together, alone = both(small(clients=clients))
    assert all(2 not in row["clients"] for row in together.history)
    agree(together, alone)


def convolutional() -> ff.Task:
    generator = torch.Generator().manual_seed(3)
    data = [(torch.randn(n, 2, 6, 6, generator=generator), (torch.arange(n) + n) % CLASSES) for n in SIZES]
    with torch.random.fork_rng():
        torch.manual_seed(4)
        first = (nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2))
        model = nn.Sequential(*first, nn.Conv2d(4, 6, 2, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(24, CLASSES))
    return ff.Task(model, data, test=data[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_convolutions(dtype: str) -> None:
    agree(*both(convolutional(), ff.make("fedsam"), dtype=dtype), TOLERANCE[dtype])


def test_convolutions_on_workers() -> None:
    same(play(convolutional(), workers=2, rounds=2), play(convolutional(), rounds=2))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_client_that_overflows_is_refused_and_the_others_are_as_without(workers: int) -> None:
    clients = examples()
    clients[4] = (clients[4][0] * 1e38, clients[4][1])
    task = small(clients=clients, model=nn.Sequential(network()[0], nn.ReLU(), network()[3]))
    together, alone = play(task, ff.make("fedavg"), workers=workers), play(task, ff.make("fedavg"), vectorised=False)
    assert [entry["client"] for row in together.history for entry in row.get("rejected", [])] == [4, 4]
    agree(together, alone, 1e-5)


# --- what a task brings -----------------------------------------------------------------------------------


def jittered(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.3 * torch.randn(inputs.shape, generator=generator)


def halved(inputs: Tensor) -> Tensor:
    return inputs / 2


def ignoring() -> list[tuple[Tensor, Tensor]]:
    clients = examples()
    for _, targets in clients[1:]:
        targets[::4] = -100
    return [*clients[:5], (clients[5][0].repeat(2, 1), torch.tensor([1, -100])), *clients[6:]]


class Two(nn.Module):
    """Two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.main, self.side = nn.Linear(INPUTS, 5), nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.trunk(x))
        return self.main(h), self.side(h)


def of_two(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs[0], targets) + 0.3 * functional.cross_entropy(outputs[1], targets)


def two() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(8)
        return Two()


TASKS: dict[str, Callable[[], ff.Task]] = {
    "augmentation": lambda: small(augment=jittered),
    "mixup": lambda: small(batch_transform=Mixup(CLASSES)),
    "augmentation, preparation and mixup": lambda: small(
        augment=jittered, prepare=halved, batch_transform=Mixup(CLASSES)
    ),
    "local parts": lambda: small(local=ff.Local(names=("3.*",))),
    "local norms": lambda: small(local=ff.Local(types=(nn.LayerNorm,)), augment=jittered),
    "transforms that draw": lambda: small(clients=[Noisy(*pair) for pair in examples()]),
    "ignored targets": lambda: small(clients=ignoring()),
    "two outputs": lambda: small(model=two(), loss=of_two, test=None),
}


@pytest.mark.parametrize("method", ["scaffold", "fedgmt"])
@pytest.mark.parametrize("name", TASKS)
def test_what_a_task_brings_goes_with_it(name: str, method: str) -> None:
    agree(*both(TASKS[name](), ff.make(method)))


@pytest.mark.parametrize("name", ["augmentation, preparation and mixup", "local parts", "transforms that draw"])
def test_what_a_task_brings_does_not_depend_on_workers(name: str) -> None:
    same(play(TASKS[name](), workers=2), play(TASKS[name]()))


def test_local_parts_are_each_clients_own() -> None:
    run = play(TASKS["local parts"]())
    own = [run.client_state(k)["local_parameters"] for k in range(len(SIZES))]
    assert len({tuple(part.tolist()) for part in own}) == len(SIZES)
