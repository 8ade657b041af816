"""Measurements of the clients' own models and of the global model on each client's examples.

Local models are those of the last round, as they were trained and before they were averaged, or with `round="next"`
those that the next round would train from the model as it is now (`core/round/probe.py`).
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import ClassVar, Literal

from torch import Tensor

from flatfed.core.configuration.checking import Count, Index, Positive
from flatfed.core.randomness import numpy_generator
from flatfed.core.round.federation import Federation
from flatfed.core.round.probe import ClientModel, Probe, last_round, probe
from flatfed.core.task.metrics import MetricValue
from flatfed.flatness import sums
from flatfed.flatness.measurement import PRODUCTS_VERSION, ClientMeasurement, MeasurementResult, Subject
from flatfed.flatness.measurements.radius import RADIUS, RHO, radius
from flatfed.flatness.measurements.rises import count_steps
from flatfed.flatness.sharpness import sharpness
from flatfed.flatness.spectra.spectrum import eigenvalues
from flatfed.flatness.sums import own
from flatfed.flatness.surface import Surface

Moment = Literal["last", "next"]


class LocalModels(ClientMeasurement):
    """What is measured of the clients' models of one round, after local training and before they are averaged."""

    round: Moment = dataclasses.field(default="last", kw_only=True)

    @property
    def looks_back(self) -> bool:
        """Say whether it asks for the local models of the last round."""
        return self.round == "last"

    def trained(self, federation: Federation) -> Probe:
        """Return the round whose local models are measured."""
        if self.round == "last":
            return last_round(federation)
        return probe(federation)

    def words(self, count: int) -> str:
        """Say whose models they were."""
        return f"{count} clients of the {self.round} round"


class LocalEigenvalues(LocalModels):
    """Measurements of lambda_max of the clients' models."""

    version: ClassVar[int] = PRODUCTS_VERSION
    tolerance: Positive = 0.01
    most: Count = 100
    seed: Index = 0

    def lambda_max(self, surface: Surface) -> float:
        """Return the largest eigenvalue of the Hessian."""
        largest = eigenvalues(surface, tolerance=self.tolerance, most=self.most, seed=self.seed)
        return float(largest.values[0])


class LocalGlobal(LocalEigenvalues, id="local_global"):
    """lambda_max of each client's model after local training, on its own examples and on everyone's."""

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the means over the clients of a round, and each client's two values."""
        models = self.trained(subject.run(self.id)).models
        local, everywhere = dict[int, float](), dict[int, float]()
        for number, model in enumerate(models):
            subject.on_step(f"{self.id}: client {model.client}", number, len(models))
            local[model.client] = self.lambda_max(_own_surface(subject, model))
            everywhere[model.client] = self.lambda_max(subject.surface.at(model.w, model.buffers))
        by_client = {"lambda_local": local, "lambda_global": everywhere}
        return _means(by_client, remark=self.words(len(models)))


class ClientLambda(LocalEigenvalues, id="client_lambda"):
    """lambda_max of each client's model after local training, on its own examples alone."""

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the mean over the clients of a round, and each client's value."""
        models = self.trained(subject.run(self.id)).models
        values = {model.client: self.lambda_max(_own_surface(subject, model)) for model in models}
        return _means({self.id: values}, remark=self.words(len(values)))


class ClientDivergence(LocalModels, id="client_divergence"):
    """How far clients go apart: the mean of ||w_k - w||^2 over a round, w the global model before it."""

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the mean, and each client's value."""
        federation = subject.run(self.id)
        models = self.trained(federation).models
        w = self._start(federation)
        distances = {model.client: squared_norm(model.w - w) for model in models}
        return _means({self.id: distances}, remark=self.words(len(distances)))

    def _start(self, federation: Federation) -> Tensor:
        """Return the global model that the clients trained from."""
        if self.round == "last":
            return federation.past().federation.server.w
        return federation.server.w


class Discrepancy(ClientMeasurement, id="discrepancy"):
    """Flatness discrepancy: sharpness of the global model against the clients' mean sharpness of their own models.

    One radius for all methods, unless each method's own is asked for (`own_rho`); with `steps` > 1 the maximum is
    sought by that number of steps of projected ascent.
    """

    rho: Positive = RHO
    steps: Count = 1
    own_rho: bool = False
    clients: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return `|S(w; everyone) - sum_i (n_i/n) S(w_i; own)|` and both terms, `S` the rise within the radius."""
        federation = subject.run(self.id)
        rho = radius(self, federation)
        chosen = fixed_clients(federation, self.clients, self.seed)
        # Not the model of weight averaging: the clients train from the server's own.
        whole = sharpness(subject.everywhere(), rho, steps=self.steps).rise
        rises, counts = dict[int, float](), dict[int, int]()
        for number, model in enumerate(probe(federation, chosen).models):
            subject.on_step(f"{self.id}: client {model.client}", number, len(chosen))
            rises[model.client] = sharpness(_own_surface(subject, model), rho, steps=self.steps).rise
            counts[model.client] = model.samples
        mean = sum(rises[k] * counts[k] for k in rises) / sum(counts.values())
        numbers = {self.id: abs(whole - mean), "sharpness_global": whole, "sharpness_local": mean, RADIUS: rho}
        remark = f"radius {rho:g}, {count_steps(self.steps)}, {len(rises)} clients trained for one round"
        return MeasurementResult(numbers, {"sharpness_local": rises}, remark=remark)


class FeatureNorm(ClientMeasurement, id="feature_norm"):
    """The mean norm of the network's outputs over each client's examples."""

    clients: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the mean over clients, and each client's value."""
        chosen = fixed_clients(subject.run(self.id), self.clients, self.seed)
        norms = {client: _mean_output_norm(subject.on(client)) for client in chosen}
        return _means({self.id: norms}, remark=f"{len(norms)} clients")


def _mean_output_norm(surface: Surface) -> float:
    return float(surface.stretches(sums.output_norms)["norms"].mean())


class ClientAccuracy(ClientMeasurement, id="client_accuracy"):
    """Accuracy and loss of the global model on each client's own examples."""

    clients: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the means over clients, and each client's values."""
        chosen = fixed_clients(subject.run(self.id), self.clients, self.seed)
        metrics = {client: subject.on(client).metrics() for client in chosen}
        by_client = {f"client_{name}": _column(metrics, name) for name in ("accuracy", "loss")}
        known = {name: values for name, values in by_client.items() if values}
        return _means(known, remark=f"{len(metrics)} clients")


def _column(metrics: Mapping[int, Mapping[str, MetricValue]], name: str) -> dict[int, float]:
    """Return one metric of every client that has it."""
    values = {client: row.get(name) for client, row in metrics.items()}
    return {client: value for client, value in values.items() if isinstance(value, float)}


def fixed_clients(federation: Federation, count: int | None, seed: int) -> list[int]:
    """Return a fixed set of clients that hold examples: all, or `count`, the same in every round and every run."""
    task = federation.task
    # A client without examples has no loss.
    holders = [client for client in range(task.population) if task.samples(client)]
    if count is None or count >= len(holders):
        return holders
    generator = numpy_generator(seed, "fixed clients")
    places = generator.choice(len(holders), count, replace=False)
    # In client order, so that sums are taken in one order.
    return sorted(holders[int(place)] for place in places)


def squared_norm(v: Tensor) -> float:
    """Return `||v||^2`, summed in double precision."""
    return float(v.double().square().sum())


def _own_surface(subject: Subject, model: ClientModel) -> Surface:
    return subject.surface.over(own(model.client)).at(model.w, model.buffers)


def _means(by_client: Mapping[str, Mapping[int, float]], remark: str) -> MeasurementResult:
    """Return numbers by client with their means."""
    means = {name: statistics.fmean(values.values()) for name, values in by_client.items()}
    return MeasurementResult(means, by_client, remark=remark)
