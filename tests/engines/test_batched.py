"""Clients in lockstep: the same bits on any number of workers, and those of a client alone but for rounding."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from cli.command import flatfed, read_json, refused
from engines.bench import Deadly, alive, assert_same, bits, eventually, is_worker
from flatfed.core import batching
from flatfed.core.client import Client
from flatfed.core.lockstep import LARGEST_GROUP, Lockstep, group_sizes
from flatfed.core.messages import Message
from flatfed.core.sampling import Uniform
from flatfed.core.settings import Settings
from flatfed.core.state import Slots, scalar, vector
from flatfed.data.augment.mixing import Mixup
from flatfed.engines.processes import ProcessEngine
from flatfed.experiments.plan import Plan
from flatfed.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rounds may go in lockstep too, so that small tests can choose it by themselves."""
    monkeypatch.setattr(batching, "FEWEST_CLIENTS", 1)


T = TypeVar("T")
INPUTS, CLASSES = 4, 3
SIZES = (9, 5, 8, 3, 6, 1, 7, 4)
COHORTS = ([0, 1, 2, 3, 4, 5, 6, 7], [1, 4, 6], [5, 7, 0, 3], [2, 3])
EXACT = ("round", "clients", "lr", "bytes_down", "bytes_up", "backprops")
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def examples(sizes: tuple[int, ...] = SIZES) -> list[tuple[Tensor, Tensor]]:
    """Clients of unequal sizes, each with a shift of its own."""
    generator = torch.Generator().manual_seed(1)
    shifts = enumerate(sizes)
    return [(torch.randn(n, INPUTS, generator=generator) + 0.2 * k, (torch.arange(n) + k) % CLASSES) for k, n in shifts]


def network(seed: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(INPUTS, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, CLASSES))


def normed() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))


def small(**changes: Any) -> ff.Task:
    data = changes.pop("clients", None) or examples()
    return ff.Task(**{"model": network(), "clients": data, "test": examples((11,))[0], **changes})


def play(task: ff.Task | None = None, method: ff.Algorithm | None = None, **changes: Any) -> ff.Run:
    """Train in this process in lockstep over four cohorts: steps unequal in number, last batches in size."""
    settings: dict[str, Any] = {"rounds": len(COHORTS), "sampling": ff.Schedule(list(COHORTS)), "lr": 0.1}
    settings |= {"batch_size": 3, "local_epochs": 2, "lr_decay": 0.9, "seed": 7, "every": 1, "workers": 0}
    settings |= {"batched": True, **changes}
    return ff.train(task or small(), method or ff.make("scaffold"), **settings)


def same(found: ff.Run, expected: ff.Run) -> None:
    population = len(found._federation.task.clients)
    assert_same(bits(found, population), bits(expected, population))


def numbers(run: ff.Run) -> dict[str, Tensor]:
    """Return all that a run has come to and that rounding may touch, by name."""
    states = {"server": run.server_state}
    states |= {f"client {k}": run.client_state(k) for k in range(run._federation.task.population)}
    found = {f"{who}: {name}": value for who, state in states.items() for name, value in state.items()}
    for row in run.history:
        more = {name: v for name, v in row.items() if isinstance(v, float) and name not in (*EXACT, "seconds")}
        found |= {f"row {row['round']}: {name}": v for name, v in (more | row["watch"]).items()}
    found |= {"vector": run.vector, "evaluated": run.eval_vector}
    return {name: torch.as_tensor(value).double() for name, value in found.items()}


def agree(together: ff.Run, alone: ff.Run, tolerance: float = 1e-12) -> None:
    """Compare two runs: counts exactly, everything else to rounding."""
    assert together.status == alone.status
    for a, b in zip(together.history, alone.history, strict=True):
        assert a.keys() == b.keys()
        assert {name: a[name] for name in EXACT} == {name: b[name] for name in EXACT}
        assert a.get("refused") == b.get("refused")
    found, expected = numbers(together), numbers(alone)
    assert found.keys() == expected.keys()
    assert {"row 0: train_loss", "row 0: divergence", "row 0: update_norm"} <= found.keys()
    for name, value in expected.items():
        scale = max(float(value.norm()), 1e-2)
        assert float((found[name] - value).norm()) <= tolerance * scale, name
    assert not torch.equal(together.vector, together._federation.task.layout().to_public(start(together)))


def start(run: ff.Run) -> Tensor:
    task = run._federation.task
    return task.layout().read(task.fresh_model(run._federation.settings.torch_dtype))


def both(task: ff.Task | None = None, method: ff.Algorithm | None = None, **changes: Any) -> tuple[ff.Run, ff.Run]:
    """Train in lockstep and client by client, in float64 unless told."""
    changes = {"dtype": torch.float64, **changes}
    return play(task, method, **changes), play(task, method, **{**changes, "batched": False})


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that have gone in lockstep in this process."""
    seen: list[int] = []
    original = Lockstep.run

    def watched(self: Lockstep, works: Any) -> Any:
        seen.append(len(works))
        return original(self, works)

    monkeypatch.setattr(Lockstep, "run", watched)
    return seen


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
    settings: dict[str, Any] = {"sampling": 5, "batched": None}
    play(rounds=done, out=tmp_path / "run", **settings)
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")  # a place that this process does not know
    same(ff.resume(elsewhere, 4, workers=workers), play(rounds=4, **settings))
    assert read_json(elsewhere / "config.json")["settings"]["batched"] is True


interrupts_left: int | None = None


def interrupting_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy; the interrupt key is pressed once, in the middle of a group."""
    global interrupts_left
    if interrupts_left is not None:
        interrupts_left -= 1
        if interrupts_left == 0:
            signal.raise_signal(signal.SIGINT)
    return functional.cross_entropy(outputs, targets)


def test_an_interrupt_in_the_middle_of_a_group_leaves_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = small(loss=interrupting_loss)
    monkeypatch.setitem(globals(), "interrupts_left", 44)  # a trial and the first round take 39, the second 14
    with pytest.raises(ff.RunInterrupted) as caught:
        play(task, out=tmp_path / "run")
    assert len(caught.value.run.history) == 1
    assert torch.is_grad_enabled()
    same(ff.resume(tmp_path / "run", task=task), play(task))


# --- the same as client by client -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("method", METHODS)
def test_lockstep_is_client_by_client_but_for_rounding(method: str, dtype: str) -> None:
    alone = play(method=METHODS[method](), dtype=dtype, batched=False)
    agree(reference(method, dtype), alone, TOLERANCE[dtype])


VARIANTS: dict[str, dict[str, Any]] = {
    "full batch": {"batch_size": None},
    "one example a step": {"batch_size": 1},
    "a batch larger than any client": {"batch_size": 64},
    "momentum, clip and decay": {"momentum": 0.9, "clip": 0.5, "weight_decay": 0.01},
    "uniform": {"weighting": "uniform"},
    "an average": {"average": ff.SWA(start=0.0, cycle=1)},
    "a course": {"lr": ff.Ramp(0.2, 0.01, 3)},
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
    cohorts = ff.Schedule([[3], [0], [3]])
    changes = {"sampling": cohorts, "rounds": 3, "workers": workers}
    same(play(**changes), play(batched=False, **changes))


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
    together, alone = play(task, ff.make("fedavg"), workers=workers), play(task, ff.make("fedavg"), batched=False)
    assert [entry["client"] for row in together.history for entry in row.get("refused", [])] == [4, 4]
    agree(together, alone, 1e-5)


# --- what a task brings -----------------------------------------------------------------------------------


def jittered(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.3 * torch.randn(inputs.shape, generator=generator)


def halved(inputs: Tensor) -> Tensor:
    return inputs / 2


class Noisy(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """A data set whose transforms draw from all global generators."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        shift = 0.1 * torch.randn(INPUTS) + 0.1 * random.random() + 0.1 * float(np.random.rand())  # noqa: NPY002
        return self.inputs[index] + shift, self.targets[index]


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
    "mixup": lambda: small(joint=Mixup(CLASSES)),
    "augmentation, preparation and mixup": lambda: small(augment=jittered, prepare=halved, joint=Mixup(CLASSES)),
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


# --- methods of users -------------------------------------------------------------------------------------


class Cautious(ff.Algorithm):
    """Decides by numbers of its own what to ask for next: clients part ways, and meet again."""

    def client_state(self) -> Slots:
        return {"looks": scalar(), "last": vector()}

    def gradient(self, client: Client) -> Tensor:
        here = client.gradient()
        steep = float(torch.linalg.vector_norm(here))
        if steep < 0.3 and client.step % 2:
            return here
        there = client.gradient(at=client.w - 0.2 * here)
        client.kept.looks = float(client.kept.looks) + 1
        if float(torch.dot(here, there)) < 0.5 * steep**2:
            return 0.5 * (here + there)  # both are still valid
        if float(client.outputs().logsumexp(1).mean()) > 1.2:
            third = client.gradient(plus=lambda outputs: 0.1 * outputs.square().mean())
            return 0.7 * third + 0.3 * there
        return there

    def finish(self, client: Client) -> Message:
        client.kept.last = client.w - client.start
        client.watch["looks"] = float(client.kept.looks)
        return Message(w=client.w)


class Patient(ff.Algorithm):
    """Goes its own way: full gradients until they are short, then the usual steps or none."""

    def local(self, client: Client) -> Message:
        taken = 0
        while taken < 6:
            full = client.full_gradient()
            if float(full.norm()) < 0.45:
                break
            client.w.sub_(full, alpha=client.lr)
            taken += 1
        client.watch["taken"] = float(taken)
        if client.id % 3:
            client.descend(self.gradient, self.direction)
        return Message(w=client.w)


class Retrying(ff.Algorithm):
    """Its addition fails for some; the method hears of it and does without."""

    def gradient(self, client: Client) -> Tensor:
        def plus(outputs: Tensor) -> Tensor:
            if client.id % 2:
                raise ArithmeticError("not for me")
            return outputs.square().mean()

        try:
            return client.gradient(plus=plus)
        except ArithmeticError:
            client.watch["failures"] = client.watch.get("failures", 0.0) + 1
            return client.gradient()


class Teacher(ff.Algorithm):
    """Asks for a frozen model's outputs the way torch code is written: without gradients."""

    context: ClassVar[Any] = torch.no_grad

    def gradient(self, client: Client) -> Tensor:
        if client.step % (1 + client.id % 2) == 0:
            with type(self).context():
                taught = client.outputs(at=client.start)
            return client.gradient(plus=lambda outputs: (outputs - taught.clone()).square().mean())
        return client.gradient()


class InferringTeacher(Teacher):
    context = torch.inference_mode


class LateTeacher(ff.Algorithm):
    """Asks for the frozen model's outputs only when its addition is computed."""

    def gradient(self, client: Client) -> Tensor:
        return client.gradient(plus=lambda outputs: (outputs - client.outputs(at=client.start)).square().mean())


class Rough(ff.Algorithm):
    """Adds noise from torch's generator, which every pass of a client keys."""

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient + 0.1 * torch.randn(gradient.shape, dtype=gradient.dtype)


OWN: dict[str, Callable[[], ff.Algorithm]] = {
    "control flow": Cautious,
    "its own loop": Patient,
    "a failure that it bears": Retrying,
    "a teacher without gradients": Teacher,
    "a teacher in inference mode": InferringTeacher,
    "a teacher asked late": LateTeacher,
    "noise": Rough,
}


def apart(work: Callable[[], T]) -> T:
    """Do the work in a thread of its own: modes of torch that it leaves behind do not reach other tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


@pytest.mark.parametrize("name", OWN)
def test_methods_of_users_work_in_both_modes(name: str) -> None:
    def work() -> tuple[ff.Run, bool, bool]:
        run = play(method=OWN[name](), dtype=torch.float64)
        return run, torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    alone = play(method=OWN[name](), dtype=torch.float64, batched=False)
    together, *modes = apart(work)
    assert modes == [True, False], "the caller's modes must be left alone"
    agree(together, alone)


class FragileTeacher(Teacher):
    """Fails for one client while others wait for their teachers."""

    def gradient(self, client: Client) -> Tensor:
        with type(self).context():
            client.outputs(at=client.start)
            if client.id == 3 and client.step == 1:
                raise ZeroDivisionError("this is too much")
            client.outputs()
        return client.gradient()


class FragileInferringTeacher(FragileTeacher):
    context = torch.inference_mode


@pytest.mark.parametrize("method", [FragileTeacher, FragileInferringTeacher])
def test_a_failure_between_a_methods_modes_leaves_those_of_the_caller(method: type[ff.Algorithm]) -> None:
    def work() -> tuple[bool, bool]:
        with pytest.raises(ff.EngineError, match="client 3 failed: ZeroDivisionError: this is too much"):
            play(method=method())
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    assert apart(work) == (True, False)


def test_the_method_with_control_flow_really_parts_clients() -> None:
    run = play(method=Cautious())
    looks = {float(run.client_state(k)["looks"]) for k in range(len(SIZES))}
    steps = {2 * -(-n // 3) for n in SIZES}
    assert len(looks) >= 4
    assert looks != steps
    taken = [row["watch"]["taken"] for row in play(method=Patient()).history]
    assert len(set(taken)) > 1


@pytest.mark.parametrize("name", ["control flow", "its own loop"])
def test_methods_of_users_give_the_same_bits_on_workers(name: str) -> None:
    same(play(method=OWN[name](), workers=2), play(method=OWN[name]()))


# --- the choice and its record ----------------------------------------------------------------------------


def recorded(path: Path) -> Any:
    return read_json(path / "config.json")["settings"]["batched"]


@pytest.mark.parametrize(
    ("model", "asked", "expected"),
    [
        (network, True, True),
        (network, False, False),
        (network, None, True),
        (normed, False, False),
        (normed, None, False),
    ],
)
def test_the_record_says_what_was_done(
    model: Callable[[], nn.Module], asked: bool | None, expected: bool, tmp_path: Path, groups: list[int]
) -> None:
    # A batch of one has no statistics, so the client of one example is left out.
    changes = {"rounds": 1, "sampling": ff.Schedule([[0, 2, 4]])}
    run = play(small(model=model()), ff.make("fedavg"), batched=asked, out=tmp_path / "run", **changes)
    assert recorded(tmp_path / "run") is expected
    assert groups == ([3] if expected else [])
    assert run.status == "finished"


def test_the_choice_is_what_forcing_it_gives() -> None:
    same(play(batched=None), play(batched=True))
    unsuitable = small(model=normed(), clients=examples((8, 6, 7)))
    changes = {"sampling": 3, "method": ff.make("fedavg"), "batch_size": 4, "rounds": 2}
    same(play(unsuitable, batched=None, **changes), play(unsuitable, batched=False, **changes))


@pytest.mark.parametrize("workers", [0, 1, 2, "auto"])
def test_the_choice_does_not_depend_on_workers_threads_or_the_callers_generator(workers: int | str) -> None:
    threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            with torch.random.fork_rng():
                torch.manual_seed(number)
                chosen = [planned(model(), workers) for model in (network, normed)]
            assert chosen == [True, False]
    finally:
        torch.set_num_threads(threads)


def planned(model: nn.Module, workers: int | str) -> bool | None:
    settings = Settings(rounds=1, lr=0.1, batch_size=4)
    return Plan(small(model=model), ff.make("fedavg"), settings, Uniform(3), workers=workers).settings.batched


@pytest.mark.parametrize("workers", [0, 2])
def test_forcing_it_on_a_task_that_does_not_allow_it_is_an_error_with_the_reason(workers: int, tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match="BatchNorm"):
        play(small(model=normed()), workers=workers, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [1, "yes", 0.0])
def test_it_is_true_or_false(value: Any) -> None:
    with pytest.raises(ff.ConfigError, match="batched"):
        play(batched=value)


def test_a_run_from_before_there_was_a_choice_goes_on_client_by_client(tmp_path: Path, groups: list[int]) -> None:
    changes = {"sampling": 4, "batched": False}
    play(rounds=2, out=tmp_path / "run", **changes)
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    assert config["settings"].pop("batched") is False
    file.write_text(json.dumps(config))
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    resumed = ff.resume(elsewhere, 4)
    assert groups == [], "it went in lockstep"
    same(resumed, play(rounds=4, **changes))
    assert recorded(elsewhere) is False


SMALL = ("--rounds", "2", "--clients", "9", "--per-round", "5", "--workers", "0", "--every", "1")


@pytest.fixture
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cli(*options: object, model: str = "logreg", out: str = "out") -> Any:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--model", model, *options, "--out", out)
    assert outcome.code == 0, outcome.err
    return recorded(Path(out))


@pytest.mark.usefixtures("_apart")
def test_the_command_line_chooses_and_can_be_told() -> None:
    assert cli(out="chosen") is True
    assert cli("--batched", out="with") is True
    assert cli("--no-batched", out="without") is False
    assert cli(model="cnn-small-bn", out="unsuitable") is False
    assert cli("--workers", "2", out="workers") is True
    rows = {name: Path(name, "history.jsonl").read_text().splitlines() for name in ("chosen", "with", "workers")}
    told = {name: [{**json.loads(line), "seconds": 0} for line in lines] for name, lines in rows.items()}
    assert told["chosen"] == told["with"] == told["workers"]


@pytest.mark.usefixtures("_apart")
@pytest.mark.parametrize("word", ["true", "false"])
def test_a_file_can_tell_it_and_the_command_line_wins(word: str) -> None:
    Path("options.yaml").write_text(f"batched: {word}\n")
    assert cli("--config", "options.yaml", out="file") is (word == "true")
    other = "--no-batched" if word == "true" else "--batched"
    assert cli("--config", "options.yaml", other, out="line") is (word != "true")


@pytest.mark.usefixtures("_apart")
def test_the_command_line_refuses_what_cannot_be() -> None:
    options = (*SMALL, "--model", "cnn-small-bn", "--batched", "--out", "out")
    refused(flatfed("run", "digits", "fedavg", *options), "batched", "BatchNorm")
    refused(flatfed("compare", "digits", "fedavg", "fedsam", *options), "batched", "BatchNorm")
    assert not Path("out").exists()


# --- what goes wrong --------------------------------------------------------------------------------------

VICTIM = 6


def marked(**changes: Any) -> ff.Task:
    """The small task; the victim's inputs can be told from all others."""
    clients = examples()
    clients[VICTIM] = (clients[VICTIM][0] + 100, clients[VICTIM][1])
    return small(**{"clients": clients, **changes})


class Marking(nn.Module):
    """The network; a third output says whether the batch is the victim's."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = network()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.inside(x / 10), x.mean(1)


def first_output(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs[0], targets)


def raising_loss(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    """Cross-entropy that cannot stand the victim's inputs."""
    if bool((outputs[1] > 50).any()):
        raise ZeroDivisionError("this is too much")
    return first_output(outputs, targets)


LATE = ff.Schedule([[0, 1, 2], [3, 4, 5, 7], [1, 5, 6, 7], [0, 6], [2, 3]])  # the victim is first asked in round 2


def failing(loss: Any = raising_loss) -> ff.Task:
    return marked(model=Marking(), loss=loss, test=None)


def late(task: ff.Task, **changes: Any) -> ff.Run:
    return play(task, **{"sampling": LATE, "rounds": 5, "checkpoint_every": 1, **changes})


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_names_its_client_and_leaves_a_run_that_goes_on(workers: int, tmp_path: Path) -> None:
    with pytest.raises(ff.EngineError, match=rf"client {VICTIM} failed: ZeroDivisionError: this is too much"):
        late(failing(), workers=workers, out=tmp_path / "run")
    status = RunDirectory.open(tmp_path / "run").status()
    assert status["status"] == "failed"
    assert f"client {VICTIM} failed" in status["reason"]
    assert recorded(tmp_path / "run") is True
    played: list[int] = []
    run = ff.resume(tmp_path / "run", task=failing(first_output), on_round=lambda row: played.append(row["round"]))
    assert played == [2, 3, 4], "the rounds before the failure were not kept"
    same(run, late(failing(first_output)))


class Fragile(ff.Algorithm):
    """A method that fails for one client, in the middle of its steps."""

    place: ClassVar[str] = "direction"

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        if self.place == "direction" and client.id == VICTIM and client.step == 2:
            raise ZeroDivisionError("this is too much")
        return gradient

    def gradient(self, client: Client) -> Tensor:
        def plus(outputs: Tensor) -> Tensor:
            if client.id == VICTIM and client.step == 2:
                raise ZeroDivisionError("this is too much")
            return outputs.sum() * 0

        return client.gradient(plus=plus if self.place == "plus" else None)


class Broken(Noisy):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        raise ZeroDivisionError("this is too much")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("place", ["direction", "plus", "data"])
def test_an_exception_elsewhere_names_its_client_too(place: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fragile, "place", place)
    clients: list[Any] = examples()
    if place == "data":
        clients[VICTIM] = Broken(*clients[VICTIM])
    with pytest.raises(ff.EngineError, match=rf"client {VICTIM} failed: ZeroDivisionError: this is too much"):
        play(small(clients=clients), Fragile(), workers=workers)
    same(play(method=ff.make("fedavg"), workers=workers), play(method=ff.make("fedavg")))


def test_of_several_that_fail_one_is_named() -> None:
    class Hopeless(ff.Algorithm):
        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            if client.id in (3, 4, VICTIM):
                raise ZeroDivisionError("this is too much")
            return gradient

    with pytest.raises(ff.EngineError, match=f"client (3|4|{VICTIM}) failed: ZeroDivisionError"):
        play(method=Hopeless())


class Tidy(ff.Algorithm):
    """Takes note of who begins and who has cleaned up; one client fails."""

    begun: ClassVar[list[int]] = []
    ended: ClassVar[list[int]] = []

    def local(self, client: Client) -> Message:
        self.begun.append(client.id)
        try:
            return super().local(client)
        finally:
            self.ended.append(client.id)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        if client.id == VICTIM and client.step == 1:
            raise ZeroDivisionError("this is too much")
        return gradient


def test_after_a_failure_nobody_is_left_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other clients clean up is done when the error is told, not when its traceback is dropped."""
    monkeypatch.setattr(Tidy, "begun", [])
    monkeypatch.setattr(Tidy, "ended", [])
    with pytest.raises(ff.EngineError, match=f"client {VICTIM} failed") as caught:
        play(method=Tidy())
    assert len(Tidy.begun) > 1
    assert sorted(Tidy.ended) == sorted(Tidy.begun), caught.value


@pytest.fixture
def _deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "markers").mkdir()
    monkeypatch.setattr(Deadly, "victims", frozenset({VICTIM, 2}))
    monkeypatch.setattr(Deadly, "markers", tmp_path / "markers")


@pytest.mark.usefixtures("_deadly")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_killed_in_the_middle_of_a_group_is_replaced(workers: int, tmp_path: Path) -> None:
    found = play(method=Deadly(), workers=workers)
    assert len(list((tmp_path / "markers").iterdir())) == 2, "the workers did not die as they should have"
    same(found, play(method=ff.make("fedsmoo")))


@pytest.mark.usefixtures("_deadly")
def test_a_client_that_always_kills_its_worker_ends_the_run_with_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadly, "times", 1000)
    monkeypatch.setattr(Deadly, "victims", frozenset({VICTIM}))
    with pytest.raises(ff.EngineError, match=rf"clients?\b.*\b{VICTIM}\b.*ended its worker process 3 times"):
        play(method=Deadly(), workers=2, sampling=LATE, rounds=5)


def test_workers_killed_from_outside_between_rounds_are_replaced() -> None:
    settings = Settings(rounds=3, lr=0.1, batch_size=3, seed=3, batched=True)
    plan = Plan(small(), ff.make("scaffold"), settings, ff.Schedule(list(COHORTS)))
    engine = ProcessEngine(plan.task, plan.algorithm, plan.settings, workers=2)
    federation, rows = plan.federation(engine), []
    try:
        for row in federation.rounds():
            rows.append(row)
            for pid in filter(alive, engine.pids):
                os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid: not alive(pid), f"the end of worker {pid}")
    finally:
        engine.close()
    values = {"rounds": 3, "sampling": ff.Schedule(list(COHORTS)), "lr": 0.1, "batch_size": 3, "seed": 3}
    same(ff.Run(federation, rows, None), ff.train(small(), ff.make("scaffold"), batched=True, workers=0, **values))


# --- what the caller has ----------------------------------------------------------------------------------


def global_state() -> list[Any]:
    state = np.random.get_state()  # noqa: NPY002
    return [torch.get_rng_state().tolist(), random.getstate(), state[1].tolist(), torch.get_num_threads()]


@pytest.mark.parametrize("batched", [True, None])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_callers_generators_neither_matter_nor_move(workers: int, batched: bool | None) -> None:
    task, runs = small(clients=[Noisy(*pair) for pair in examples()]), []
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            random.seed(seed)
            before = global_state()
            runs.append(play(task, workers=workers, batched=batched))
            assert global_state() == before
    same(*runs)


def test_a_failure_leaves_the_callers_generators_and_modes_too() -> None:
    before = global_state()
    with pytest.raises(ff.EngineError):
        late(failing())
    assert global_state() == before
    assert torch.is_grad_enabled()
    assert not is_worker()
