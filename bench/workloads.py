"""The workloads: which cases take turns, and what their ratios should be."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from bare import Bare, BareProcesses, bare_evaluation
from client_states import FEW, MANY, client_states
from comparisons import AFTER, BARE, SIDE, BareRuns, Comparisons
from curvature import BareProducts, Points, Steps, Ways, eigenvalue_facts, lambda_max_facts
from federated import Rounds, task_of
from harness import Case, Result, Target, extra_memory, extra_seconds, fact, fact_ratio, ratio, take_turns
from networks import TARGETS, networks
from problems import CONV, Problem
from ray_rounds import ray, ray_sizes
from small_models import LENET_TARGETS, TINY_TARGETS, lenet, tiny
from torch import nn

import flatfed as ff
from flatfed.core.evaluation.evaluator import Evaluation as TestFigures
from flatfed.runs.checkpoints import Checkpoints, stores_of, tensors_of

Maker = Callable[[], Case]


@dataclass(frozen=True)
class Workload:
    """Cases, targets, and how often each case has its turn."""

    name: str
    about: str
    run: Callable[[int], dict[str, Result]]
    targets: list[Target] = field(default_factory=list)


# conv: the whole round against a bare loop.


def conv(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        partial(Bare, CONV),
        partial(BareProcesses, CONV, 2),
        partial(BareProcesses, CONV, 2, keep_memory=True),
        partial(Rounds, "fedavg, in process", CONV),
        partial(Rounds, "fedavg, 2 workers", CONV, workers=2),
    ]
    return take_turns("conv", makers, repeats)


# comparison: many runs, in which a round that waits for its last client costs nothing where another run goes on.


def comparison(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [BareRuns, partial(Comparisons, SIDE, 2), partial(Comparisons, AFTER, 1)]
    return take_turns("comparison", makers, min(repeats, 3))


# sam: methods against fedavg on the same engine.

TWO_BACKPROPS = ("fedsam", "fedasam", "fedgloss+sam", "fedsmoo", "fedvssam")
ONE_BACKPROP = ("fedgloss", "fedwmsam", "fedlesam")


def sam(repeats: int) -> dict[str, Result]:
    small = Problem("sam", CONV.model, CONV.shape, 10, 500, 2, 64)
    task = task_of(small)
    makers: list[Maker] = [
        partial(Rounds, name, small, method=name, task=task) for name in ("fedavg", *TWO_BACKPROPS, *ONE_BACKPROP)
    ]
    return take_turns("sam", makers, repeats)


# clients: the size of the population.

POPULATIONS = (100, 1_000, 10_000, 100_000, 1_000_000)


def clients(repeats: int) -> dict[str, Result]:
    """Each population in a process of its own, so that its memory can be told; they take turns a few rounds each."""
    return _in_processes(
        "clients", [f"{n:,} clients" for n in POPULATIONS], [["clients", str(n)] for n in POPULATIONS], repeats
    )


def clients_child(population: int) -> Any:
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(5000, 64, generator=generator), torch.randint(0, 10, (5000,), generator=generator)
    task = ff.Task(nn.Linear(64, 10), SharedExamples(inputs, targets, population))
    problem = Problem("clients", lambda: nn.Linear(64, 10), (64,), population, 50, 50, 10)
    return Rounds("", problem, method="scaffold", task=task)


class SharedExamples(ff.Partition):
    """A population in which client k holds the examples k, k+1, ... of a small pool."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor, population: int) -> None:
        super().__init__(inputs, targets, [torch.arange(k, k + 50) for k in range(0, 5000, 50)])
        self._population = population

    def __len__(self) -> int:
        return self._population

    def __getitem__(self, client: Any) -> Any:
        return super().__getitem__(client % 100)


# state: a stateful method whose states outgrow the memory that they may take.


def state(repeats: int) -> dict[str, Result]:
    names = ["in memory", "1 GB in memory, the rest on disk"]
    return _in_processes("state", names, [["state", "memory"], ["state", "budget"]], repeats)


def state_child(where: str) -> Any:
    from flatfed.experiments.planning import plan as plans

    if where == "memory":
        plans.STATE_BUDGET = 2**40
    problem = Problem("state", lambda: nn.Linear(1000, 1000), (1000,), 1000, 20, 50, 20)
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(2000, 1000, generator=generator), torch.randint(0, 10, (2000,), generator=generator)
    task = ff.Task(
        problem.fresh_model(), ff.Partition(inputs, targets, [torch.arange(k, k + 20) % 2000 for k in range(1000)])
    )
    rounds = Rounds("", problem, method="scaffold", task=task)
    for client in range(1000):  # everyone has taken part once
        rounds.federation.clients.write(client, rounds.federation.clients.read(client))
    return rounds


def _in_processes(workload: str, names: list[str], arguments: list[list[str]], repeats: int) -> dict[str, Result]:
    children = [Child(name, given) for name, given in zip(names, arguments, strict=True)]
    found = take_turns(workload, [lambda child=child: child for child in children], 3 * repeats)
    for child in children:
        found[child.name].facts["resident_mb"] = child.resident
    return found


class Child:
    """A case in a process of its own, one round when asked."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name, self.resident = name, 0.0
        command = [sys.executable, str(Path(__file__).with_name("child.py")), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self) -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        seconds, resident = self.process.stdout.readline().split()
        self.resident = float(resident)
        return float(seconds)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def resident_mb() -> float:
    """Return the memory that this process holds now, without what other processes can share with it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


# evaluate and checkpoint.


class Evaluation:
    """The figures of the papers' CNN on 10,000 images."""

    def __init__(self, name: str, workers: int) -> None:
        test = torch.randn(10_000, 3, 32, 32), torch.randint(0, 10, (10_000,))
        self.name, self._rounds = name, Rounds(name, CONV, workers=workers, task=task_of(CONV, test))

    def round(self) -> float:
        federation, started = self._rounds.federation, time.perf_counter()
        rounds, model, buffers = self._rounds, federation.evaluated, federation.server.buffers
        TestFigures(rounds.engine, rounds.plan.task, rounds.plan.settings, model, buffers).metrics()
        return time.perf_counter() - started

    def close(self) -> None:
        self._rounds.close()


ONE_AFTER_OTHER = "round, then evaluation, 2 workers"
IN_GAPS = "evaluation in the gaps of the next round, 2 workers"


class EvaluatedRounds:
    """Rounds of which each is evaluated: at once, or in the gaps of the next."""

    def __init__(self, name: str, at_once: bool) -> None:
        test = torch.randn(10_000, 3, 32, 32), torch.randint(0, 10, (10_000,))
        self.name, self._rounds = name, Rounds(name, CONV, workers=2, task=task_of(CONV, test), evaluate_every=1)
        if at_once:
            self._rounds.engine.gaps = False  # the loop then waits for each evaluation

    def round(self) -> float:
        return self._rounds.round()

    def close(self) -> None:
        self._rounds.close()


class BareEvaluation:
    def __init__(self) -> None:
        self.name, self.model = "bare evaluation", CONV.fresh_model().to(memory_format=torch.channels_last)
        self.test = torch.randn(10_000, 3, 32, 32), torch.randint(0, 10, (10_000,))

    def round(self) -> float:
        started = time.perf_counter()
        bare_evaluation(self.model, *self.test, 512)
        return time.perf_counter() - started

    def close(self) -> None:
        pass


def evaluate(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        BareEvaluation,
        partial(Evaluation, "in process", 0),
        partial(Evaluation, "2 workers", 2),
        partial(EvaluatedRounds, ONE_AFTER_OTHER, at_once=True),
        partial(EvaluatedRounds, IN_GAPS, at_once=False),
    ]
    return take_turns("evaluate", makers, repeats)


PRODUCTS, STEPS = "bare product, 2 processes", "lambda_max, 2 workers, per product"
POINT, POINTS = "landscape, in process, per point", "landscape, 2 workers, per point"


def flatness(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        partial(BareProducts, 2),
        partial(Steps, 2),
        BareEvaluation,
        partial(Points, 0),
        partial(Points, 2),
    ]
    results = take_turns("flatness", makers, min(repeats, 5))
    results[STEPS].facts |= eigenvalue_facts()
    return results


FORWARD, DOUBLE, TANGENTS = "forward pass", "Hessian, double backward", "Hessian, tangents"
GAUSS_NEWTON = "Gauss-Newton, tangents"


def products(repeats: int) -> dict[str, Result]:
    from flatfed.flatness import products as rules

    makers: list[Maker] = [
        partial(Ways, FORWARD, None),
        partial(Ways, DOUBLE, rules.hessian_by_double_backward),
        partial(Ways, TANGENTS, rules.hessian_by_tangents),
        partial(Ways, GAUSS_NEWTON, rules.gauss_newton_by_tangents),
    ]
    results = take_turns("products", makers, repeats)
    results[TANGENTS].facts |= lambda_max_facts()
    return results


class Saving:
    """A checkpoint after a round."""

    def __init__(self, method: str) -> None:
        self.name = f"save {method}"
        self._rounds = Rounds(self.name, CONV, method=method)
        self._rounds.round()
        self._directory = tempfile.TemporaryDirectory(dir=os.environ.get("FLATFED_BENCH_DIR"))
        self._checkpoints, self._number = Checkpoints(Path(self._directory.name), "bench"), 0

    def round(self) -> float:
        federation = self._rounds.federation
        for client in range(CONV.per_round):
            for store in stores_of(federation).values():
                store.write(client, store.read(client))
        self._number += 1
        started = time.perf_counter()
        self._checkpoints.save(self._number, tensors_of(federation), stores_of(federation))
        return time.perf_counter() - started

    def close(self) -> None:
        self._rounds.close()
        self._directory.cleanup()


def checkpoint(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        partial(Rounds, "conv round, 2 workers", CONV, workers=2),
        partial(Saving, "fedavg"),
        partial(Saving, "scaffold"),
    ]
    return take_turns("checkpoint", makers, repeats)


# start: what a user waits for before anything happens.


class Command:
    """A fresh Python that does one thing."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name, self._arguments = name, arguments

    def round(self) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *self._arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started

    def close(self) -> None:
        pass


ONE_ROUND = "flatfed run digits fedavg --rounds 1"
ROUND = """['run', 'digits', 'fedavg', '--rounds', '1', '--out', __import__('tempfile').mkdtemp() + '/run']"""
DIVIDED = "from flatfed.experiments.tasks.recipe import TaskRecipe as T; T('cifar10', clients=100).build()"


def start(repeats: int) -> dict[str, Result]:
    every = "import flatfed as ff; ff.Task, ff.make, ff.train"
    makers: list[Maker] = [
        partial(Command, "import torch", "-c", "import torch"),
        partial(Command, "import torch, flatfed", "-c", f"import torch; {every}"),
        partial(Command, "flatfed --help", "-c", "from flatfed.cli.main import main; main(['--help'])"),
        partial(Command, ONE_ROUND, "-c", f"from flatfed.cli.main import main; main({ROUND})"),
        partial(Command, "cifar10, divided", "-c", f"import torch; {every}; {DIVIDED}"),
    ]
    return take_turns("start", makers, repeats)


WORKLOADS = [
    Workload(
        "conv",
        "100 clients x 500 CIFAR-shaped images, 5 per round, batch 64, cnn",
        conv,
        [
            Target(
                "2 workers / bare loop, 2 processes", ratio("fedavg, 2 workers", "bare loop, 2 processes"), most=1.10
            ),
            Target(
                "2 workers / bare loop, 2 processes, memory kept (5 clients on 2 workers: 1.2 is the limit)",
                ratio("fedavg, 2 workers", "bare loop, 2 processes, memory kept"),
                most=1.2,
            ),
            Target("in process / bare loop", ratio("fedavg, in process", "bare loop"), most=1.10),
        ],
    ),
    Workload(
        "comparison",
        "8 runs of conv, 2 rounds each, from the first check to the last record",
        comparison,
        [
            Target("2 at a time / bare loop, 2 processes, memory kept", ratio(SIDE, BARE), most=1.05),
            Target("2 at a time / one after another, 2 workers", ratio(SIDE, AFTER), most=1.0),
        ],
    ),
    Workload(
        "tiny",
        "1,000 clients x 50 vectors, 50 per round, batch 10, linear 3072 to 10",
        tiny,
        TINY_TARGETS,
    ),
    Workload(
        "lenet", "100 clients x 500 CIFAR-shaped images, 10 per round, batch 50, LeNet, CPU time", lenet, LENET_TARGETS
    ),
    Workload(
        "sam",
        "10 clients x 500 CIFAR-shaped images, 2 per round, batch 64, cnn, in process",
        sam,
        [Target(f"{name} / fedavg", ratio(name, "fedavg"), most=2.05) for name in TWO_BACKPROPS]
        + [Target(f"{name} / fedavg", ratio(name, "fedavg"), most=1.08) for name in ONE_BACKPROP],
    ),
    Workload(
        "clients",
        "scaffold, 50 per round, linear 64 to 10, by the number of registered clients",
        clients,
        [
            Target("a million clients / a hundred", ratio("1,000,000 clients", "100 clients"), most=1.1),
            Target("memory for a million more", extra_memory("1,000,000 clients", "100 clients"), most=100, unit="MB"),
        ],
    ),
    Workload(
        "state",
        "scaffold, 1,000 clients that have all taken part, 1,001,000 parameters, 50 per round",
        state,
        [Target("budget / in memory", ratio("1 GB in memory, the rest on disk", "in memory"), most=1.15)],
    ),
    Workload(
        "evaluate",
        "cnn on 10,000 images",
        evaluate,
        [
            Target("in process / bare evaluation", ratio("in process", "bare evaluation"), most=1.5),
            Target("in the gaps / one after the other", ratio(IN_GAPS, ONE_AFTER_OTHER), most=1.0),
        ],
    ),
    Workload(
        "flatness",
        "cnn on 10,000 images; number of products (five eigenvalues to 1 %) and spread (five starts): fedavg on digits",
        flatness,
        [
            Target("lambda_max per product / bare product", ratio(STEPS, PRODUCTS), most=1.15),
            Target("landscape per point / bare evaluation", ratio(POINT, "bare evaluation"), most=1.1),
            Target("landscape, 2 workers / bare evaluation", ratio(POINTS, "bare evaluation"), most=0.55),
            Target(
                "power iteration's products / Lanczos's", fact(STEPS, "power_products", "lanczos_products"), least=3
            ),
            Target("spread of lambda_max, Lanczos", fact(STEPS, "lanczos_spread"), most=0.01),
            Target("spread of lambda_5, Lanczos", fact(STEPS, "lanczos_spread_5"), most=0.01),
            Target("spread of lambda_max, papers' power iteration", fact(STEPS, "power_spread"), least=0),
            Target("spread of lambda_5, papers' power iteration", fact(STEPS, "power_spread_5"), least=0),
        ],
    ),
    Workload(
        "products",
        "one product, cnn on 1,024 images in batches of 512, CPU seconds; lambda_max on 1,000 images",
        products,
        [
            Target("Hessian product in forward passes", ratio(TANGENTS, FORWARD), most=6.0),
            Target("tangents / double backward", ratio(TANGENTS, DOUBLE), most=0.65),
            Target("lambda_max, tangents / double backward", fact(TANGENTS, "lambda_seconds"), most=0.65),
            Target("lambda_max, relative difference of the two", fact(TANGENTS, "lambda_difference"), most=1e-6),
        ],
    ),
    Workload(
        "networks",
        "a round of two clients, two to eight steps each, in process, CPU seconds",
        networks,
        TARGETS,
    ),
    Workload(
        "checkpoint",
        "saving after every round of conv",
        checkpoint,
        [
            Target("saving / round, fedavg", ratio("save fedavg", "conv round, 2 workers"), most=0.03),
            Target("saving / round, scaffold", ratio("save scaffold", "conv round, 2 workers"), most=0.03),
        ],
    ),
    Workload(
        "states",
        "a checkpoint after 500 clients changed, 2,500 parameters each, by the clients that have a state",
        client_states,
        [
            Target(f"{MANY} / {FEW}", ratio(MANY, FEW), most=1.2),
            Target(f"{MANY}: directory / raw state", fact(MANY, "directory"), most=1.3),
            Target(f"{MANY}: files", fact(MANY, "files"), most=8),
            Target(f"{MANY}: opening", fact(MANY, "open_seconds"), most=1, unit="s"),
        ],
    ),
    Workload(
        "ray",
        "conv and digits (12 clients x 120 images, 5 per round, batch 32, cnn-small), on processes and on Ray",
        ray,
        [
            Target("conv, 2 actors / 2 workers", ratio("conv, 2 actors", "conv, 2 workers"), most=1.15),
            Target(
                "the same, processor time of all processes",
                fact_ratio("processor_seconds", "conv, 2 actors", "conv, 2 workers"),
                most=1.15,
            ),
            Target(
                "digits, 2 actors beyond 2 workers, per round",
                extra_seconds("digits, 2 actors", "digits, 2 workers"),
                most=0.1,
                unit="s",
            ),
        ],
    ),
    Workload(
        "ray-sizes",
        "fedavg, 4 clients per round with one step of 8 examples each, one linear layer, by parameters and actors",
        ray_sizes,
    ),
    Workload(
        "start",
        "a fresh interpreter",
        start,
        [
            Target("flatfed beyond torch", extra_seconds("import torch, flatfed", "import torch"), most=0.3, unit="s"),
            Target("one round / import torch", ratio(ONE_ROUND, "import torch"), most=1.6),
            Target("cifar10, divided", extra_seconds("cifar10, divided", "import torch, flatfed"), most=1, unit="s"),
            Target("flatfed --help", lambda results: results["flatfed --help"].median, most=1, unit="s"),
        ],
    ),
]
