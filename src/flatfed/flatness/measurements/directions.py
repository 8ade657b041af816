"""Measurements of directions: whether clients perturb, and the server steps, along what they should."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from flatfed.algorithms.fedgloss import FedGloSS, NaiveFedGloSS
from flatfed.core.algorithm import Algorithm
from flatfed.core.config import Count, Index, Positive
from flatfed.core.errors import ConfigError
from flatfed.core.probe import probe
from flatfed.core.vectors import norm, unit
from flatfed.flatness.measurement import Measurement, Reading, Subject
from flatfed.flatness.measurements.clients import fixed_clients, radius_of
from flatfed.flatness.sample import Sample


class Incompatibility(Measurement, id="incompatibility"):
    """Flatness incompatibility: how differently the clients' losses rise along the directions they perturb along.

    Its two sources: heterogeneity of the clients' gradients, and deviation of a batch's gradient from its client's.
    """

    rho: Positive | None = None
    clients: Count = 50
    batch: Count = 64
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the variance of `phi_i = F_i(w + rho unit(m_i)) - F_i(w)` over a fixed set of clients."""
        federation = subject.run(self.id)
        rho = self.rho if self.rho is not None else radius_of(federation)
        w, method = federation.server.w, federation.algorithm.at(federation.coming)
        chosen, base = fixed_clients(federation, self.clients, self.seed), subject.everywhere()
        rises, gradients, deviations = dict[int, float](), list[Tensor](), list[float]()
        for number, client in enumerate(chosen):
            subject.on_step(f"{self.id}: client {client}", number, len(chosen))
            surface = subject.on(client, base)
            g = surface.gradient()
            e = rho * unit(method.perturbed_along(federation.server, g))
            rises[client] = surface.loss(w + e) - surface.loss()
            batch = subject.on(client, base, self.batch, self.seed).gradient()
            deviations.append(_square(batch - g))
            gradients.append(g)
        mean = torch.stack(gradients).mean(dim=0)
        numbers = {
            self.id: statistics.pvariance(rises.values()),
            "heterogeneity": statistics.fmean(_square(g - mean) for g in gradients),
            "batch_deviation": statistics.fmean(deviations),
        }
        return Reading(numbers, {"rise": rises}, verdict=f"radius {rho:g}, {len(chosen)} fixed clients")


class FriendlyRate(Measurement, id="friendly_rate"):
    """How often one client's perturbation lowers another client's loss, to first order."""

    clients: Count = 50
    batch: Count = 64
    rho: Positive | None = None
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the share of pairs with `rho <g_A, g_B>/||g_A|| < 0`, and the mean of that change."""
        federation = subject.run(self.id)
        rho = self.rho if self.rho is not None else radius_of(federation)
        chosen = fixed_clients(federation, self.clients, self.seed)
        if len(chosen) < 2:
            raise ConfigError(f"{self.id} compares clients in pairs; there must be at least two that hold examples")
        base = subject.everywhere()
        g = torch.stack([subject.on(client, base, self.batch, self.seed).gradient() for client in chosen])
        change = rho * (unit_rows(g) @ g.T)
        pairs = change[~torch.eye(len(chosen), dtype=torch.bool)]
        numbers = {self.id: float((pairs < 0).double().mean()), "friendly_change": float(pairs.double().mean())}
        return Reading(numbers, verdict=f"{len(pairs)} pairs of batches of {self.batch}, radius {rho:g}")


class TrackingError(Measurement, id="tracking_error"):
    """How far the server's direction is from the global gradient."""

    batches: Count = 10
    batch: Count = 512
    seed: Index = 0

    def unfit(self, algorithm: Algorithm) -> str:
        """Refuse methods whose server has no such direction."""
        has_none = type(algorithm).global_direction is Algorithm.global_direction
        return f"{self.id}: {algorithm.id} keeps no estimate of the global gradient" if has_none else ""

    def measure(self, subject: Subject) -> Reading:
        """Return `||d - G||^2`, its root relative to `||G||` and the cosine, `G` a mean over random batches."""
        federation = subject.run(self.id)
        d = federation.algorithm.global_direction(federation.server)
        if d is None:
            raise ConfigError(self.unfit(federation.algorithm))
        surface = subject.everywhere()
        samples = [Sample("train", self.batch, self.seed + number) for number in range(self.batches)]
        G = torch.stack([surface.over(sample).gradient() for sample in samples]).mean(dim=0)
        numbers = {
            self.id: _square(d - G),
            "tracking_relative": norm(d - G) / max(norm(G), 1e-30),
            "tracking_cosine": float(unit(d) @ unit(G)),
        }
        return Reading(numbers, verdict=f"{self.batches} random batches of {self.batch}")


class PerturbationGap(Measurement, id="perturbation_gap"):
    """FedGloSS's approximation: how far last round's pseudo-gradient is from the one the ascent should follow."""

    def unfit(self, algorithm: Algorithm) -> str:
        """Refuse all but FedGloSS."""
        is_it = isinstance(algorithm, FedGloSS) and not isinstance(algorithm, NaiveFedGloSS)
        return "" if is_it else f"{self.id} is about fedgloss, not {algorithm.id}"

    def measure(self, subject: Subject) -> Reading:
        """Return `rho_server ||unit(D) - unit(Delta)||`, `Delta` from a probe at the unperturbed model."""
        federation = subject.run(self.id)
        method = federation.algorithm.at(federation.coming)
        if not isinstance(method, FedGloSS) or isinstance(method, NaiveFedGloSS):
            raise ConfigError(self.unfit(federation.algorithm))
        plain = method.replace(rho_server=0.0, rho_server_warmup="none")
        true = probe(federation, algorithm=plain).pseudo_gradient
        share = norm(unit(federation.server.kept.pseudo_gradient) - unit(true))
        rho = method.server_radius(federation.coming)
        return Reading({self.id: rho * share, "perturbation_gap_share": share}, verdict=f"server radius {rho:g}")


def unit_rows(matrix: Tensor) -> Tensor:
    """Return the rows at unit length; a zero row stays zero."""
    return torch.stack([unit(row) for row in matrix])


def _square(v: Tensor) -> float:
    return float(v.double().square().sum())
