"""Measuring flatness: Hessian products and points of a landscape against bare loops; how many products it takes."""

from __future__ import annotations

import itertools
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.nn.functional as F
from bare import Children
from harness import Result
from problems import CONV
from torch import Tensor

import flatfed as ff
from flatfed.flatness import products, sums
from flatfed.flatness.landscape.scenes import random_directions
from flatfed.flatness.spectra.lanczos import Lanczos, largest_eigenvalues
from flatfed.flatness.spectra.power import power_iteration
from flatfed.machine import keep_freed_memory

IMAGES, BATCH = 10_000, 512


def images(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, 32, 32, generator=generator), torch.randint(0, 10, (count,), generator=generator)


class BareProducts(Children):
    """Products of the CNN's Hessian by double backward, the images divided evenly among processes that keep memory."""

    def __init__(self, processes: int) -> None:
        shares = [(IMAGES // processes,)] * processes
        super().__init__(f"bare product, {processes} processes", _serve_products, shares)


def _serve_products(pipe: Connection, count: int) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    model = CONV.fresh_model().to(memory_format=torch.channels_last)
    parameters, (inputs, targets) = list(model.parameters()), images(count)
    v = [torch.randn_like(p) for p in parameters]
    while pipe.recv():
        total = [torch.zeros_like(p) for p in parameters]
        for x, y in zip(inputs.split(BATCH), targets.split(BATCH), strict=True):
            loss = F.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)
            slopes = torch.autograd.grad(loss, parameters, create_graph=True)
            for t, part in zip(total, torch.autograd.grad(slopes, parameters, grad_outputs=v), strict=True):
                t.add_(part, alpha=len(y) / count)
        pipe.send(None)


class Steps:
    """Lanczos on the same loss, one product and its orthogonalisation a round."""

    def __init__(self, workers: int) -> None:
        self.name = f"lambda_max, {workers} workers, per product"
        task = ff.Task(CONV.fresh_model(), [images(IMAGES)])
        self.lab = ff.laboratory(task, workers=workers)
        surface = self.lab.surface
        self.lanczos = Lanczos(surface.product, torch.randn(surface.size), 60)

    def round(self) -> float:
        started = time.perf_counter()
        self.lanczos.step()
        return time.perf_counter() - started

    def close(self) -> None:
        self.lab.close()


class Points:
    """Points of a landscape on the CNN's 10,000 images; the time of one."""

    def __init__(self, workers: int) -> None:
        self.name = f"landscape, {f'{workers} workers' if workers else 'in process'}, per point"
        self.lab = ff.laboratory(ff.Task(CONV.fresh_model(), [images(IMAGES)]), workers=workers)
        surface = self.lab.surface
        self.directions = random_directions(surface.layout, surface.w, 2)
        self.count, self.numbers = max(workers, 1) * 2, itertools.count()

    def round(self) -> float:
        points = [(0.01 * next(self.numbers), 0.1) for _ in range(self.count)]
        started = time.perf_counter()
        self.lab.surface.metrics_at(points, self.directions)
        return (time.perf_counter() - started) / self.count

    def close(self) -> None:
        self.lab.close()


class Ways:
    """One way of computing a product, on some images of the CNN in this process; CPU seconds."""

    def __init__(self, name: str, rule: products.ProductRule | None) -> None:
        keep_freed_memory()  # as flatfed's processes do: a forward pass that pays page faults would flatter the product
        self.name, self._rule = name, rule
        self.model = CONV.fresh_model().to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())
        self.v = [torch.randn_like(p) for p in self.parameters]
        self.inputs, self.targets = images(2 * BATCH)

    def round(self) -> float:
        started = time.process_time()
        for x, y in zip(self.inputs.split(BATCH), self.targets.split(BATCH), strict=True):
            self._once(x.contiguous(memory_format=torch.channels_last), y)
        return time.process_time() - started

    def _once(self, x: Tensor, y: Tensor) -> None:
        def loss(outputs: Any) -> Tensor:
            return F.cross_entropy(outputs, y)

        if self._rule is not None:
            self._rule(products.BatchLoss(lambda: self.model(x), loss, self.parameters), self.v)
            return
        with torch.no_grad():
            loss(self.model(x))

    def close(self) -> None:
        pass


DOUBLE_ALL, TANGENTS_ALL = "lambda_max, double backward", "lambda_max, tangents"


def lambda_max(repeats: int) -> dict[str, Result]:
    """Return what lambda_max on 10,000 images costs by each way, in CPU seconds; once, because it takes minutes."""
    seconds, value = _lambda_max(False, 10_000)
    faster, same = _lambda_max(True, 10_000)
    facts = {"lambda_max": same, "difference": abs(same / value - 1)}
    return {
        DOUBLE_ALL: Result("lambda-max", DOUBLE_ALL, [seconds], {"lambda_max": value}),
        TANGENTS_ALL: Result("lambda-max", TANGENTS_ALL, [faster], facts),
    }


def lambda_max_facts() -> dict[str, Any]:
    """Return what lambda_max of the CNN on 1,000 images costs and is, by double backward and by tangents."""
    before = _lambda_max(False, 1000)
    after = _lambda_max(True, 1000)
    return {"lambda_seconds": after[0] / before[0], "lambda_difference": abs(after[1] / before[1] - 1)}


def _lambda_max(tangents: bool, number: int) -> tuple[float, float]:
    trial, sums.tangents_agree = sums.tangents_agree, lambda batch: tangents
    try:
        lab = ff.laboratory(ff.Task(CONV.fresh_model(), [images(number)]))
        started = time.process_time()
        value = lab.measure("lambda_max")["lambda_max"].numbers["lambda_max"]
        return time.process_time() - started, value
    finally:
        sums.tangents_agree = trial


def eigenvalue_facts() -> dict[str, Any]:
    """Return how many products five eigenvalues to 1 % take, and how far estimates from five start vectors are apart.

    The model is trained: fedavg on digits, 100 rounds. Power iteration is given its best case: it goes on with a value
    until that is within 1 % of the truth, without a cap, and then deflates.
    """
    surface, truth = _trained()
    lanczos = statistics.median(_lanczos_products(surface, truth, seed) for seed in range(5))
    power = statistics.median(_power_products(surface, truth, seed) for seed in range(5))
    size, dtype = surface.size, surface.w.dtype
    ours = [largest_eigenvalues(surface.product, size, 5, tolerance=0.01, seed=s, dtype=dtype) for s in range(5)]
    theirs = [power_iteration(surface.product, size, 5, seed=s, dtype=dtype) for s in range(5)]
    return {
        "lanczos_products": lanczos,
        "power_products": power,
        "lanczos_spread": _spread([float(one.values[0]) for one in ours]),
        "power_spread": _spread([float(one.values[0]) for one in theirs]),
        "lanczos_spread_5": _spread([float(one.values[4]) for one in ours]),
        "power_spread_5": _spread([float(one.values[4]) for one in theirs]),
        "capped_power_products": statistics.median(one.products for one in theirs),
        "capped_power_error_5": max(abs(float(one.values[4]) / float(truth[4]) - 1) for one in theirs),
    }


def _trained() -> tuple[Any, Tensor]:
    from flatfed.experiments.tasks.recipe import TaskRecipe

    task = TaskRecipe("digits", clients=20, partition={"id": "dirichlet", "alpha": 0.3}).build()
    run = ff.train(
        task,
        ff.make("fedavg"),
        rounds=100,
        sampling=5,
        lr=0.1,
        batch_size=16,
        workers=0,
        evaluate_every=100,
        evaluate_last=0,
    )
    surface = ff.laboratory(run).surface
    found = largest_eigenvalues(surface.product, surface.size, 5, tolerance=1e-5, most=300, dtype=surface.w.dtype)
    return surface, found.values


def _lanczos_products(surface: Any, truth: Tensor, seed: int) -> int:
    """Return after how many products all five values are within 1 % of the truth."""
    start = torch.randn(surface.size, generator=torch.Generator().manual_seed(seed), dtype=surface.w.dtype)
    lanczos = Lanczos(surface.product, start, 300)
    while lanczos.step():
        found_all = torch.linalg.eigvalsh(lanczos.tridiagonal.matrix).flip(0)
        found = found_all[:5]
        if len(found) == 5 and bool(((found / truth - 1).abs() < 0.01).all()):
            return len(found_all)
    return 300


def _power_products(surface: Any, truth: Tensor, seed: int) -> int:
    generator, products = torch.Generator().manual_seed(seed), 0
    known: list[tuple[float, Tensor]] = []
    for value in truth.tolist():
        v = torch.rand(surface.size, generator=generator, dtype=surface.w.dtype)
        v /= v.norm()
        for _ in range(500):
            u = surface.product(v)
            products += 1
            for old, vector in known:
                u = u - old * torch.dot(vector, v) * vector
            estimate = float(v @ u)
            v = u / u.norm()
            if abs(estimate / value - 1) < 0.01:
                break
        known.append((estimate, v))
    return products


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)
