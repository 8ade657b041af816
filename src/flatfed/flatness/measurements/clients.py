"""Measurements of the clients' own models and of the global model on each client's examples.

Local models are those of the last round, as they were trained and before they were averaged, or with `round="next"`
those that the next round would train from the model as it is now (`core/round/probe.py`).
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable
from typing import Literal

from flatfed.core.configuration.config import Count, Index, Positive
from flatfed.core.randomness import numpy_generator
from flatfed.core.round.federation import Federation
from flatfed.core.round.probe import ClientModel, Probe, last_round, probe
from flatfed.flatness import pieces
from flatfed.flatness.measurement import Measurement, Reading, Subject
from flatfed.flatness.measurements.radius import RADIUS, RHO, radius
from flatfed.flatness.sample import own
from flatfed.flatness.sharpness import sharpness
from flatfed.flatness.spectra.spectrum import eigenvalues
from flatfed.flatness.surface import Surface

Moment = Literal["last", "next"]


class LocalModels(Measurement):
    """What is measured of the clients' models of one round, after local training and before they are averaged."""

    round: Moment = dataclasses.field(default="last", kw_only=True)

    @property
    def looks_back(self) -> bool:
        """Say whether it asks for the local models of the last round."""
        return self.round == "last"

    def trained(self, federation: Federation) -> Probe:
        """Return the round whose local models are measured."""
        return last_round(federation) if self.round == "last" else probe(federation)

    def words(self, count: int) -> str:
        """Say whose models they were."""
        return f"{count} clients of the {self.round} round"


class LocalGlobal(LocalModels, id="local_global"):
    """lambda_max of each client's model after local training, on its own examples and on everyone's."""

    tolerance: Positive = 0.01
    most: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the means over the clients of a round, and each client's two values."""
        models = self.trained(subject.run(self.id)).models
        local, everywhere = dict[int, float](), dict[int, float]()
        for number, model in enumerate(models):
            subject.on_step(f"{self.id}: client {model.client}", number, len(models))
            local[model.client] = self._lambda(_own_surface(subject, model))
            everywhere[model.client] = self._lambda(subject.surface.at(model.w, model.buffers))
        numbers = {"lambda_local": _mean(local.values()), "lambda_global": _mean(everywhere.values())}
        by_client = {"lambda_local": local, "lambda_global": everywhere}
        return Reading(numbers, by_client, verdict=self.words(len(models)))

    def _lambda(self, surface: Surface) -> float:
        found = eigenvalues(surface, tolerance=self.tolerance, most=self.most, seed=self.seed)
        return float(found.values[0])


class ClientLambda(LocalModels, id="client_lambda"):
    """lambda_max of each client's model after local training, on its own examples alone."""

    tolerance: Positive = 0.01
    most: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the mean over the clients of a round, and each client's value."""
        found = dict[int, float]()
        for model in self.trained(subject.run(self.id)).models:
            surface = _own_surface(subject, model)
            answer = eigenvalues(surface, tolerance=self.tolerance, most=self.most, seed=self.seed)
            found[model.client] = float(answer.values[0])
        return Reading({self.id: _mean(found.values())}, {self.id: found}, verdict=self.words(len(found)))


class ClientDivergence(LocalModels, id="client_divergence"):
    """How far clients go apart: the mean of ||w_k - w||^2 over a round, w the global model before it."""

    def measure(self, subject: Subject) -> Reading:
        """Return the mean, and each client's value."""
        federation = subject.run(self.id)
        models = self.trained(federation).models
        before = federation.past().federation if self.round == "last" else federation
        w = before.server.w
        found = {m.client: float((m.w - w).double().square().sum()) for m in models}
        return Reading({self.id: _mean(found.values())}, {self.id: found}, verdict=self.words(len(found)))


class Discrepancy(Measurement, id="discrepancy"):
    """Flatness discrepancy: sharpness of the global model against the clients' mean sharpness of their own models.

    One radius for all methods, unless each method's own is asked for (`own_rho`); with `steps` > 1 the maximum is
    sought by so many steps of projected ascent.
    """

    rho: Positive = RHO
    steps: Count = 1
    own_rho: bool = False
    clients: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return `|S(w; everyone) - sum_i (n_i/n) S(w_i; own)|` and both terms, `S` the rise within the radius."""
        federation = subject.run(self.id)
        rho = radius(self, federation)
        chosen = fixed_clients(federation, self.clients, self.seed)
        whole = sharpness(subject.everywhere(), rho, steps=self.steps).rise
        rises, counts = dict[int, float](), dict[int, int]()
        for number, model in enumerate(probe(federation, chosen).models):
            subject.on_step(f"{self.id}: client {model.client}", number, len(chosen))
            rises[model.client] = sharpness(_own_surface(subject, model), rho, steps=self.steps).rise
            counts[model.client] = model.samples
        mean = sum(rises[k] * counts[k] for k in rises) / sum(counts.values())
        numbers = {self.id: abs(whole - mean), "sharpness_global": whole, "sharpness_local": mean, RADIUS: rho}
        steps = "one step" if self.steps == 1 else f"{self.steps} steps"
        told = f"radius {rho:g}, {steps}, {len(rises)} clients trained for one round"
        return Reading(numbers, {"sharpness_local": rises}, verdict=told)


class FeatureNorm(Measurement, id="feature_norm"):
    """The mean norm of the network's outputs over each client's examples."""

    clients: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the mean over clients, and each client's value."""
        chosen = fixed_clients(subject.run(self.id), self.clients, self.seed)
        norms = {k: float(subject.on(k).stretches(pieces.output_norms)["norms"].mean()) for k in chosen}
        return Reading({self.id: _mean(norms.values())}, {self.id: norms}, verdict=f"{len(norms)} clients")


class ClientAccuracy(Measurement, id="client_accuracy"):
    """Accuracy and loss of the global model on each client's own examples."""

    clients: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the means over clients, and each client's values."""
        chosen = fixed_clients(subject.run(self.id), self.clients, self.seed)
        found = {k: subject.on(k).figures() for k in chosen}
        numbers, by_client = dict[str, float](), dict[str, dict[int, float]]()
        for name in ("accuracy", "loss"):
            told = {k: value for k, one in found.items() if isinstance(value := one.get(name), float)}
            if told:
                numbers[f"client_{name}"], by_client[f"client_{name}"] = _mean(told.values()), told
        return Reading(numbers, by_client, verdict=f"{len(found)} clients")


def fixed_clients(federation: Federation, count: int | None, seed: int) -> list[int]:
    """Return a fixed set of clients that hold examples: all, or so many, the same in every round and every run."""
    task = federation.task
    holders = [client for client in range(task.population) if len(task.examples(client))]
    if count is None or count >= len(holders):
        return holders
    generator = numpy_generator(seed, "fixed clients")
    return sorted(holders[int(n)] for n in generator.choice(len(holders), count, replace=False))


def _own_surface(subject: Subject, model: ClientModel) -> Surface:
    return subject.surface.over(own(model.client)).at(model.w, model.buffers)


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)
