"""Measurements of directions: whether clients perturb, and the server steps, along what they should."""

from __future__ import annotations

import math
import statistics
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from flatfed.algorithms.sharpness_aware.fedgloss import FedGloSS, NaiveFedGloSS
from flatfed.core.configuration.config import Count, Index, Positive, Range
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.vectors import norm, unit
from flatfed.core.round.federation import Federation
from flatfed.core.round.probe import probe
from flatfed.flatness.measurement import Measurement, Reading, Subject
from flatfed.flatness.measurements.clients import fixed_clients
from flatfed.flatness.measurements.radius import RADIUS, RHO, radius
from flatfed.flatness.sample import Sample, own
from flatfed.flatness.sharpness import sharpness


class Incompatibility(Measurement, id="incompatibility"):
    """Flatness incompatibility: how differently the clients' losses rise along the directions they perturb along.

    `phi_i = F_i(w + rho unit(m_i)) - F_i(w)`, `m_i` the direction along which the method's clients perturb. The paper's
    formula can be read as dispersion about the mean of phi_i or about the rise of the global loss: both are told. Its
    two sources: heterogeneity of the clients' gradients, and deviation of a batch's gradient from its client's.
    """

    rho: Positive = RHO
    own_rho: bool = False
    clients: Count = 50
    batch: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return both dispersions over a fixed set of clients, and their sources."""
        federation = subject.run(self.id)
        rho, batch = radius(self, federation), batch_size(self.batch, federation)
        shadow = federation.shadow()  # the server and the method as they will be in the next round
        chosen, base = fixed_clients(federation, self.clients, self.seed), subject.everywhere()
        rises, gradients, deviations = dict[int, float](), list[Tensor](), list[float]()
        for number, client in enumerate(chosen):
            subject.on_step(f"{self.id}: client {client}", number, len(chosen))
            surface = subject.on(client, base)
            g = surface.gradient()
            m = shadow.method.perturbed_along(shadow.server, client, shadow.clients.read(client), g)
            rises[client] = surface.loss(surface.w + rho * unit(m)) - surface.loss()
            gradients.append(g)
            if batch is not None and len(federation.task.examples(client)) > batch:
                deviations.append(_square(subject.on(client, base, own(client, batch, self.seed)).gradient() - g))
        mean = torch.stack(gradients).mean(dim=0)
        whole = sharpness(base, rho).rise
        numbers = {
            self.id: statistics.pvariance(rises.values()),
            "incompatibility_global": statistics.fmean((rise - whole) ** 2 for rise in rises.values()),
            "rise_global": whole,
            "heterogeneity": statistics.fmean(_square(g - mean) for g in gradients),
            "batch_deviation": statistics.fmean(deviations) if deviations else math.nan,
            RADIUS: rho,
        }
        told = f"radius {rho:g}, {len(chosen)} fixed clients; {_about_batches(batch, len(deviations), len(chosen))}"
        return Reading(numbers, {"rise": rises}, verdict=told)


class FriendlyRate(Measurement, id="friendly_rate"):
    """How often two batches of one client are friendly: the perturbation of one lowers the other's loss.

    To first order, batch B's loss changes by `rho <g_A, g_B>/||g_A||` along batch A's perturbation. The batches have
    the run's size and no example in common.
    """

    version: ClassVar[int] = 2

    clients: Count = 50
    batches: Annotated[int, Range(low=2)] = 4
    batch: Count | None = None
    rho: Positive = RHO
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the share of pairs with `<g_A, g_B> < 0`, and the mean of the change of the loss."""
        federation = subject.run(self.id)
        batch, base = batch_size(self.batch, federation), subject.everywhere()
        chosen = fixed_clients(federation, self.clients, self.seed)
        changes = dict[int, Tensor]()
        for number, client in enumerate(chosen):
            subject.on_step(f"{self.id}: client {client}", number, len(chosen))
            parts = 0 if batch is None else min(self.batches, len(federation.task.examples(client)) // batch)
            if parts < 2:
                continue
            samples = [own(client, batch, self.seed, part) for part in range(parts)]
            g = torch.stack([subject.on(client, base, sample).gradient() for sample in samples])
            changes[client] = _apart(self.rho * (unit_rows(g) @ g.T))
        rates = {client: float((change < 0).double().mean()) for client, change in changes.items()}
        every = torch.cat(list(changes.values())).double() if changes else torch.tensor([math.nan])
        rate = float((every < 0).double().mean()) if changes else math.nan
        numbers = {self.id: rate, "friendly_change": float(every.mean())}
        return Reading(numbers, {self.id: rates}, verdict=self._words(batch, len(changes), len(chosen), len(every)))

    def _words(self, batch: int | None, able: int, all_clients: int, pairs: int) -> str:
        if batch is None:
            return "means nothing here: the run trains on full batches, so that a client has only one"
        if able == 0:
            return f"means nothing here: no client holds two batches of {batch}"
        left = f"; {all_clients - able} of {all_clients} clients hold fewer than two" if able < all_clients else ""
        return f"{pairs} ordered pairs of batches of {batch} within {able} clients{left}; change at radius {self.rho:g}"


class ClientConflict(Measurement, id="client_conflict"):
    """How often one client's perturbation lowers another client's loss, to first order: a sign of heterogeneity."""

    clients: Count = 50
    batch: Count | None = None
    rho: Positive = RHO
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the share of pairs with `rho <g_A, g_B>/||g_A|| < 0`, and the mean of that change."""
        federation = subject.run(self.id)
        batch, base = batch_size(self.batch, federation), subject.everywhere()
        chosen = fixed_clients(federation, self.clients, self.seed)
        if len(chosen) < 2:
            raise ConfigError(f"{self.id} compares clients in pairs; there must be at least two that hold examples")
        samples = [own(client, batch, self.seed) for client in chosen]
        g = torch.stack(
            [subject.on(client, base, sample).gradient() for client, sample in zip(chosen, samples, strict=True)]
        )
        pairs = _apart(self.rho * (unit_rows(g) @ g.T))
        numbers = {self.id: float((pairs < 0).double().mean()), "conflict_change": float(pairs.double().mean())}
        size = "all examples" if batch is None else f"batches of at most {batch}"
        return Reading(numbers, verdict=f"{len(pairs)} ordered pairs of clients, {size}; change at radius {self.rho:g}")


class TrackingError(Measurement, id="tracking_error"):
    """How far what a method takes for the global ascent is from the gradient of the global loss.

    Of a server's direction `d`: `||d - G||^2`, its root relative to `||G||`, and the cosine. Of a global perturbation
    `e` (FedGF, FedLESAM): `epsilon = ||e - ||e|| unit(G)||`, how far it is from the true one, and the cosine; where
    each client has its own, the mean over a fixed set of clients.
    """

    batches: Count = 10
    batch: Count = 512
    clients: Count = 50
    seed: Index = 0

    def unfit(self, algorithm: Algorithm) -> str:
        """Refuse methods that keep nothing of the kind."""
        cls = type(algorithm)
        has_direction = cls.global_direction is not Algorithm.global_direction
        has_perturbation = cls.global_perturbation is not Algorithm.global_perturbation
        fits = has_direction or has_perturbation
        return "" if fits else f"{self.id}: {algorithm.id} keeps no estimate of the global gradient"

    def measure(self, subject: Subject) -> Reading:
        """Return the errors, `G` a mean over random batches."""
        federation = subject.run(self.id)
        reason = self.unfit(federation.algorithm)
        if reason:
            raise ConfigError(reason)
        surface = subject.everywhere()
        samples = [Sample("train", self.batch, self.seed + number) for number in range(self.batches)]
        G = torch.stack([surface.over(sample).gradient() for sample in samples]).mean(dim=0)
        shadow = federation.shadow()
        d = shadow.method.global_direction(shadow.server)
        told = f"{self.batches} random batches of {self.batch}"
        if d is not None:
            return Reading(self._of_direction(d, G), verdict=told)
        found = self._perturbations(shadow, fixed_clients(federation, self.clients, self.seed))
        if not found:
            raise ConfigError(f"{self.id}: no client has met the global model before, so there is no direction yet")
        errors = [norm(e - norm(e) * unit(G)) for e in found]
        cosines = [float(unit(e) @ unit(G)) for e in found]
        numbers = {"epsilon": statistics.fmean(errors), "tracking_cosine": statistics.fmean(cosines)}
        return Reading(numbers, verdict=f"{told}; mean over {len(found)} clients")

    def _of_direction(self, d: Tensor, G: Tensor) -> dict[str, float]:
        return {
            self.id: _square(d - G),
            "tracking_relative": norm(d - G) / max(norm(G), 1e-30),
            "tracking_cosine": float(unit(d) @ unit(G)),
        }

    def _perturbations(self, shadow: Federation, clients: list[int]) -> list[Tensor]:
        """Return what the clients would perturb along in the next round; those that have none are left out."""
        every = [shadow.method.global_perturbation(shadow.server, shadow.clients.read(client)) for client in clients]
        return [e for e in every if e is not None]


class PerturbationGap(Measurement, id="perturbation_gap"):
    """FedGloSS's approximation: how far last round's pseudo-gradient is from the one the ascent should follow."""

    version: ClassVar[int] = 2

    def unfit(self, algorithm: Algorithm) -> str:
        """Refuse all but FedGloSS."""
        is_it = isinstance(algorithm, FedGloSS) and not isinstance(algorithm, NaiveFedGloSS)
        return "" if is_it else f"{self.id} is about fedgloss, not {algorithm.id}"

    def measure(self, subject: Subject) -> Reading:
        """Return `rho_server ||unit(D) - unit(Delta)||`, `Delta` from a probe at the unperturbed model."""
        federation = subject.run(self.id)
        method = federation.algorithm.at(federation.round)
        if not isinstance(method, FedGloSS) or isinstance(method, NaiveFedGloSS):
            raise ConfigError(self.unfit(federation.algorithm))
        plain = method.replace(rho_server=0.0, rho_server_warmup="none")
        true = probe(federation, algorithm=plain).pseudo_gradient
        share = norm(unit(federation.server.kept.pseudo_gradient) - unit(true))
        rho = method.server_radius(federation.round)
        return Reading({self.id: rho * share, "perturbation_gap_share": share}, verdict=f"server radius {rho:g}")


def unit_rows(matrix: Tensor) -> Tensor:
    """Return the rows at unit length; a zero row stays zero."""
    return torch.stack([unit(row) for row in matrix])


def batch_size(asked: int | None, federation: Federation) -> int | None:
    """Return the size of a batch: what is asked for, or the run's; None is a client's every example."""
    return federation.settings.batch_size if asked is None else asked


def _about_batches(batch: int | None, able: int, all_clients: int) -> str:
    """Say over which clients the deviation of a batch was taken: one that is all of a client's examples has none."""
    if batch is None:
        return "batch deviation means nothing here: the run trains on full batches"
    if able == 0:
        return f"batch deviation means nothing here: no client holds more than a batch of {batch}"
    left = f" ({all_clients - able} hold no more than that)" if able < all_clients else ""
    return f"batch deviation of {batch} examples over {able} clients{left}"


def _apart(matrix: Tensor) -> Tensor:
    """Return the entries beside the diagonal."""
    return matrix[~torch.eye(len(matrix), dtype=torch.bool)]


def _square(v: Tensor) -> float:
    return float(v.double().square().sum())
