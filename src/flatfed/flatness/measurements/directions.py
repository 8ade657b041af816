"""Measurements of directions: whether clients perturb, and the server steps, along what they should."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeGuard

import torch
from torch import Tensor

from flatfed.algorithms.sharpness_aware.fedgloss import FedGloSS, NaiveFedGloSS
from flatfed.core.configuration.checking import Count, Index, Positive, Range
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.vectors import norm, unit
from flatfed.core.round.federation import Federation
from flatfed.core.round.probe import probe
from flatfed.flatness.measurement import ClientMeasurement, MeasurementResult, Subject
from flatfed.flatness.measurements.clients import fixed_clients, squared_norm
from flatfed.flatness.measurements.radius import RADIUS, RHO, radius
from flatfed.flatness.sharpness import sharpness
from flatfed.flatness.sums import Sample, own
from flatfed.flatness.surface import Surface


class Incompatibility(ClientMeasurement, id="incompatibility"):
    """Flatness incompatibility: how differently the clients' losses rise along the directions they perturb along.

    `phi_i = F_i(w + rho unit(m_i)) - F_i(w)`, `m_i` the direction along which the method's clients perturb. The paper's
    formula can be read as dispersion about the mean of phi_i or about the rise of the global loss: both are given. Its
    two sources: heterogeneity of the clients' gradients, and deviation of a batch's gradient from its client's.
    """

    rho: Positive = RHO
    own_rho: bool = False
    clients: Count = 50
    batch: Count | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return both dispersions over a fixed set of clients, and their sources."""
        federation = subject.run(self.id)
        rho, batch = radius(self, federation), batch_size(self.batch, federation)
        chosen, base = fixed_clients(federation, self.clients, self.seed), subject.everywhere()
        # The shadow has the server and the method as they will be in the next round; reading it leaves no trace.
        shadow = federation.shadow()
        rises, gradients, deviations = dict[int, float](), list[Tensor](), list[float]()
        for number, client in enumerate(chosen):
            subject.on_step(f"{self.id}: client {client}", number, len(chosen))
            surface = subject.on(client, base)
            g = surface.gradient()
            m = shadow.method.perturbed_along(shadow.server, client, shadow.clients.read(client), g)
            rises[client] = surface.loss(surface.w + rho * unit(m)) - surface.loss()
            gradients.append(g)
            if batch is not None and federation.task.samples(client) > batch:
                batch_gradient = subject.on(client, base, own(client, batch, self.seed)).gradient()
                deviations.append(squared_norm(batch_gradient - g))
        whole = sharpness(base, rho).rise
        numbers = self._dispersions(list(rises.values()), whole) | _sources(gradients, deviations) | {RADIUS: rho}
        about = _about_batches(batch, len(deviations), len(chosen))
        remark = f"radius {rho:g}, {len(chosen)} fixed clients; {about}"
        return MeasurementResult(numbers, {"rise": rises}, remark=remark)

    def _dispersions(self, rises: list[float], whole: float) -> dict[str, float]:
        """Return the dispersion of the rises about their mean and about the rise of the global loss."""
        return {
            # The set is fixed: this is its own dispersion, not an estimate from a sample.
            self.id: statistics.pvariance(rises),
            "incompatibility_global": statistics.fmean((rise - whole) ** 2 for rise in rises),
            "rise_global": whole,
        }


def _sources(gradients: list[Tensor], deviations: list[float]) -> dict[str, float]:
    """Return the two sources of incompatibility: how the clients' gradients differ, and batches from their client."""
    mean = torch.stack(gradients).mean(dim=0)
    return {
        "heterogeneity": statistics.fmean(squared_norm(g - mean) for g in gradients),
        "batch_deviation": statistics.fmean(deviations) if deviations else math.nan,
    }


class FriendlyRate(ClientMeasurement, id="friendly_rate"):
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

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the share of pairs with `<g_A, g_B> < 0`, and the mean of the change of the loss."""
        federation = subject.run(self.id)
        batch, base = batch_size(self.batch, federation), subject.everywhere()
        chosen = fixed_clients(federation, self.clients, self.seed)
        changes = dict[int, Tensor]()
        for number, client in enumerate(chosen):
            subject.on_step(f"{self.id}: client {client}", number, len(chosen))
            samples = self._batches(client, federation.task.samples(client), batch)
            # A pair needs two batches.
            if len(samples) > 1:
                gradients = [subject.on(client, base, sample).gradient() for sample in samples]
                changes[client] = _pairwise_changes(gradients, self.rho)
        rates = {client: _share_below_zero(change) for client, change in changes.items()}
        every = torch.cat([*changes.values()]) if changes else torch.tensor([math.nan])
        numbers = {
            self.id: _share_below_zero(every) if changes else math.nan,
            "friendly_change": float(every.double().mean()),
        }
        remark = self._words(batch, len(changes), len(chosen), len(every))
        return MeasurementResult(numbers, {self.id: rates}, remark=remark)

    def _batches(self, client: int, examples: int, batch: int | None) -> list[Sample]:
        """Return as many batches of a client as it holds, up to what is asked for; full batches are no parts."""
        if batch is None:
            return []
        count = min(self.batches, examples // batch)
        return [own(client, batch, self.seed, part) for part in range(count)]

    def _words(self, batch: int | None, able: int, all_clients: int, pairs: int) -> str:
        if batch is None:
            return "means nothing here: the run trains on full batches, so that a client has only one"
        if able == 0:
            return f"means nothing here: no client holds two batches of {batch}"
        where = f"{able} clients"
        if able < all_clients:
            where += f"; {all_clients - able} of {all_clients} clients hold fewer than two"
        return f"{pairs} ordered pairs of batches of {batch} within {where}; change at radius {self.rho:g}"


class ClientConflict(ClientMeasurement, id="client_conflict"):
    """How often one client's perturbation lowers another client's loss, to first order: a sign of heterogeneity."""

    clients: Count = 50
    batch: Count | None = None
    rho: Positive = RHO
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the share of pairs with `rho <g_A, g_B>/||g_A|| < 0`, and the mean of that change."""
        federation = subject.run(self.id)
        batch, base = batch_size(self.batch, federation), subject.everywhere()
        chosen = fixed_clients(federation, self.clients, self.seed)
        if len(chosen) < 2:
            raise ConfigError(f"{self.id} compares clients in pairs; there must be at least two that hold examples")
        gradients = [subject.on(client, base, own(client, batch, self.seed)).gradient() for client in chosen]
        changes = _pairwise_changes(gradients, self.rho)
        numbers = {self.id: _share_below_zero(changes), "conflict_change": float(changes.double().mean())}
        size = "all examples" if batch is None else f"batches of at most {batch}"
        remark = f"{len(changes)} ordered pairs of clients, {size}; change at radius {self.rho:g}"
        return MeasurementResult(numbers, remark=remark)


class TrackingError(ClientMeasurement, id="tracking_error"):
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
        if has_direction or has_perturbation:
            return ""
        return f"{self.id}: {algorithm.id} keeps no estimate of the global gradient"

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the errors, `G` a mean over random batches."""
        federation = subject.run(self.id)
        reason = self.unfit(federation.algorithm)
        if reason:
            raise ConfigError(reason)
        G = self._global_gradient(subject.everywhere())
        shadow = federation.shadow()
        d = shadow.method.global_direction(shadow.server)
        remark = f"{self.batches} random batches of {self.batch}"
        if d is not None:
            return MeasurementResult(self._of_direction(d, G), remark=remark)
        perturbations = self._perturbations(shadow, fixed_clients(federation, self.clients, self.seed))
        if not perturbations:
            raise ConfigError(f"{self.id}: no client has met the global model before, so there is no direction yet")
        numbers = self._of_perturbations(perturbations, G)
        return MeasurementResult(numbers, remark=f"{remark}; mean over {len(perturbations)} clients")

    def _global_gradient(self, surface: Surface) -> Tensor:
        """Return the mean gradient over random batches of everyone's examples."""
        samples = [Sample("train", self.batch, self.seed + number) for number in range(self.batches)]
        return torch.stack([surface.over(sample).gradient() for sample in samples]).mean(dim=0)

    def _of_perturbations(self, perturbations: list[Tensor], G: Tensor) -> dict[str, float]:
        errors = [norm(e - norm(e) * unit(G)) for e in perturbations]
        cosines = [float(unit(e) @ unit(G)) for e in perturbations]
        return {"epsilon": statistics.fmean(errors), "tracking_cosine": statistics.fmean(cosines)}

    def _of_direction(self, d: Tensor, G: Tensor) -> dict[str, float]:
        return {
            self.id: squared_norm(d - G),
            # The gradient may vanish at a minimum.
            "tracking_relative": norm(d - G) / max(norm(G), 1e-30),
            "tracking_cosine": float(unit(d) @ unit(G)),
        }

    def _perturbations(self, shadow: Federation, clients: list[int]) -> list[Tensor]:
        """Return what the clients would perturb along in the next round; those that have none are left out."""
        every = [shadow.method.global_perturbation(shadow.server, shadow.clients.read(client)) for client in clients]
        return [e for e in every if e is not None]


class PerturbationGap(ClientMeasurement, id="perturbation_gap"):
    """FedGloSS's approximation: how far last round's pseudo-gradient is from the one the ascent should follow."""

    version: ClassVar[int] = 2

    def unfit(self, algorithm: Algorithm) -> str:
        """Refuse all but FedGloSS."""
        if _approximates(algorithm):
            return ""
        return f"{self.id} is about fedgloss, not {algorithm.id}"

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return `rho_server ||unit(D) - unit(Delta)||`, `Delta` from a probe at the unperturbed model."""
        federation = subject.run(self.id)
        method = federation.algorithm.at(federation.round)
        if not _approximates(method):
            raise ConfigError(self.unfit(federation.algorithm))
        plain = method.replace(rho_server=0.0, rho_server_warmup="none")
        true = probe(federation, algorithm=plain).pseudo_gradient
        share = norm(unit(federation.server.kept.pseudo_gradient) - unit(true))
        rho = method.server_radius(federation.round)
        numbers = {self.id: rho * share, "perturbation_gap_share": share}
        return MeasurementResult(numbers, remark=f"server radius {rho:g}")


def _approximates(algorithm: Algorithm) -> TypeGuard[FedGloSS]:
    """Say whether a method takes last round's pseudo-gradient for this round's; NaiveFedGloSS has the true one."""
    return isinstance(algorithm, FedGloSS) and not isinstance(algorithm, NaiveFedGloSS)


def _pairwise_changes(gradients: Sequence[Tensor], rho: float) -> Tensor:
    """Return `rho <g_A, g_B>/||g_A||` of all ordered pairs of different gradients."""
    g = torch.stack([*gradients])
    return _apart(rho * (unit_rows(g) @ g.T))


def _share_below_zero(changes: Tensor) -> float:
    return float((changes < 0).double().mean())


def unit_rows(matrix: Tensor) -> Tensor:
    """Return the rows at unit length; a zero row stays zero."""
    return torch.stack([unit(row) for row in matrix])


def batch_size(asked: int | None, federation: Federation) -> int | None:
    """Return the size of a batch: what is asked for, or the run's; None is a client's every example."""
    if asked is None:
        return federation.settings.batch_size
    return asked


def _about_batches(batch: int | None, able: int, all_clients: int) -> str:
    """Say over which clients the deviation of a batch was taken: one that is all of a client's examples has none."""
    if batch is None:
        return "batch deviation means nothing here: the run trains on full batches"
    if able == 0:
        return f"batch deviation means nothing here: no client holds more than a batch of {batch}"
    remark = f"batch deviation of {batch} examples over {able} clients"
    if able < all_clients:
        remark += f" ({all_clients - able} hold no more than that)"
    return remark


def _apart(matrix: Tensor) -> Tensor:
    """Return the entries beside the diagonal."""
    return matrix[~torch.eye(len(matrix), dtype=torch.bool)]
