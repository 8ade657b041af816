"""The methods whose server does more with the mean update than add it: FedAdam, FedYogi, FedAdaGrad, FedNova."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flatfed.testing.naive.client_optimisers import SGD, Opt, local_gradient
from flatfed.testing.naive.local import train_client, weighted_mean, weighted_update, weights
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept


def adaptive(
    s: Setup,
    opt: Opt,
    server_lr: float,
    beta1: float,
    tau: float,
    v0: float | None,
    next_v: Callable[[Vector, Vector], Vector],
    corrections: Callable[[int], tuple[float, float]] = lambda t: (1.0, 1.0),
) -> Outcome:
    """What the three adaptive servers share; `next_v(v, Delta)` is where they differ.

    The moments are divided by `corrections` of the round, from 1.
    """
    w, m, models = s.w0, s.zeros(), []
    v = np.full_like(s.w0, tau**2 if v0 is None else v0)
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, local_gradient(s, opt, k)) for k in S}
        Delta = weighted_update(s, w, w_K)
        m = beta1 * m + (1 - beta1) * Delta
        v = next_v(v, Delta)
        of_m, of_v = corrections(t + 1)
        w = w + server_lr * (m / of_m) / (np.sqrt(v / of_v) + tau)
        w = kept(s, models, w)
    return Outcome(s, models, server={"m": m, "v": v})


def fedadam(
    s: Setup,
    opt: Opt = SGD,
    server_lr: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
    v0: float | None = None,
    bias_correction: bool = False,
) -> Outcome:
    """docs/algorithms/fedadam.md."""

    def next_v(v: Vector, Delta: Vector) -> Vector:
        return beta2 * v + (1 - beta2) * Delta**2

    def corrections(t: int) -> tuple[float, float]:
        return (1 - beta1**t, 1 - beta2**t) if bias_correction else (1.0, 1.0)

    return adaptive(s, opt, server_lr, beta1, tau, v0, next_v, corrections)


def fedyogi(
    s: Setup,
    opt: Opt = SGD,
    server_lr: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
    v0: float | None = None,
) -> Outcome:
    """docs/algorithms/fedyogi.md."""

    def next_v(v: Vector, Delta: Vector) -> Vector:
        return v - (1 - beta2) * Delta**2 * np.sign(v - Delta**2)

    return adaptive(s, opt, server_lr, beta1, tau, v0, next_v)


def fedadagrad(
    s: Setup,
    opt: Opt = SGD,
    server_lr: float = 0.01,
    beta1: float = 0.0,
    tau: float = 1e-3,
    v0: float | None = None,
) -> Outcome:
    """docs/algorithms/fedadagrad.md."""
    return adaptive(s, opt, server_lr, beta1, tau, v0, lambda v, Delta: v + Delta**2)


def fednova(s: Setup, opt: Opt = SGD) -> Outcome:
    """docs/algorithms/fednova.md."""
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        a = {k: gradients_in_an_update(s.K(k), s.momentum) for k in S}
        Delta = {k: train_client(s, k, t, w, local_gradient(s, opt, k)) - w for k in S}
        p = weights(s, S)
        tau_eff = sum(p[k] * a[k] for k in S)
        w = w + tau_eff * weighted_mean(s, {k: Delta[k] / a[k] for k in S})
        w = kept(s, models, w)
    return Outcome(s, models)


def gradients_in_an_update(steps: int, momentum: float) -> float:
    """`a_i` of FedNova: how many gradients, each times the rate, an update adds up."""
    c, a = 0.0, 0.0
    for _ in range(steps):
        c = momentum * c + 1
        a = a + c
    return a
