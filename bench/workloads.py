"""The workloads, with what their ratios should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from client_states import FEW, MANY, client_states
from cohorts import ABOUT, cohort
from cohorts import targets as cohort_targets
from comparisons import AFTER, BARE, DEMO_AFTER, DEMO_SIDE, SIDE, comparison, demo
from curvature import DOUBLE_ALL, TANGENTS_ALL, lambda_max
from evaluations import (
    DOUBLE,
    FORWARD,
    IN_GAPS,
    ONE_AFTER_OTHER,
    POINT,
    POINTS,
    PRODUCTS,
    STEPS,
    TANGENTS,
    evaluate,
    flatness,
    products,
)
from harness import Result, Target, extra_memory, extra_seconds, fact, fact_ratio, ratio
from networks import TARGETS, networks
from populations import clients, state
from ray_rounds import ray, ray_sizes
from saving import checkpoint
from small_models import LENET_TARGETS, TINY_TARGETS, lenet, operations, tiny
from starting import CIFAR, FLATFED, HELP, ONE_ROUND, TORCH, start
from training import ONE_BACKPROP, TWO_BACKPROPS, conv, sam


@dataclass(frozen=True)
class Workload:
    """Cases, targets, and how often each case has its turn."""

    name: str
    about: str
    run: Callable[[int], dict[str, Result]]
    targets: list[Target] = field(default_factory=list)


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
        "8 runs of conv, 4 rounds each, from the first check to the last record",
        comparison,
        [
            Target("2 at a time / bare loop, 2 processes, memory kept", ratio(SIDE, BARE), most=1.05),
            Target("the same in CPU seconds", fact_ratio("cpu_seconds", SIDE, BARE), most=1.05),
            Target("2 at a time / one after another, 2 workers", ratio(SIDE, AFTER), most=1.0),
        ],
    ),
    Workload(
        "demo",
        "the 14 runs of `make demo` (digits, 7 methods, 2 seeds), 100 rounds each, training alone",
        demo,
        [Target("2 at a time / one after another, 2 workers", ratio(DEMO_SIDE, DEMO_AFTER), most=0.65)],
    ),
    Workload(
        "tiny",
        "1,000 clients x 50 vectors, 50 per round, batch 10, linear 3072 to 10",
        tiny,
        TINY_TARGETS,
    ),
    Workload("operations", "the tensor operations of tiny alone, clients on stacked rows, CPU time", operations),
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
    Workload("cohort", ABOUT, cohort, cohort_targets()),
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
        "lambda-max",
        "lambda_max of cnn on 10,000 images, once by each way, in process, CPU seconds",
        lambda_max,
        [
            Target("tangents / double backward", ratio(TANGENTS_ALL, DOUBLE_ALL), most=0.65),
            Target("relative difference of the two", fact(TANGENTS_ALL, "difference"), most=1e-6),
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
            Target("flatfed beyond torch", extra_seconds(FLATFED, TORCH), most=0.3, unit="s"),
            Target("one round / import torch", ratio(ONE_ROUND, TORCH), most=1.6),
            Target("the same in CPU seconds", fact_ratio("cpu_seconds", ONE_ROUND, TORCH), most=1.6),
            Target("cifar10, divided", extra_seconds(CIFAR, FLATFED), most=1, unit="s", needs=CIFAR),
            Target("flatfed --help", lambda results: results[HELP].median, most=1, unit="s"),
        ],
    ),
]
