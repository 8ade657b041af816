"""The methods whose perturbation follows a direction that the server keeps: FedWMSAM, FedVSSAM."""

from __future__ import annotations

from flatfed.testing.naive.local import lr_of_round, mean, train_client
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept
from flatfed.testing.naive.vectors import norm, unit


def fedwmsam(
    s: Setup,
    rho: float = 0.01,
    alpha: float = 0.1,
    lam: float = 0.01,
    control: bool = True,
    perturb_sign: int = 1,
    reading: str = "code",
) -> Outcome:
    """docs/algorithms/fedwmsam.md. Uniform mean; the server holds every c_k."""
    w, m, models = s.w0, s.zeros(), []
    c, c_k = s.zeros(), s.zeros_per_client()
    for t, S in enumerate(s.schedule):
        eta = lr_of_round(s, t)
        U = {}
        for k in S:
            corr = (c_k[k] if reading == "poster" else c - c_k[k]) if control else s.zeros()
            U[k] = wmsam_client(s, k, t, w, m, corr, alpha, perturb_sign * rho) - w
        change = {k: -c - U[k] / (eta * s.K(k)) for k in S}
        for k in S:
            c_k[k] = c_k[k] + change[k]
        moved = mean([U[k] / (eta * s.K(k)) for k in S])
        c = c + (moved if reading == "poster" else sum(change[k] for k in S) / s.N)
        likeness = sum(cosine(U[k], m, 0 if reading == "poster" else 1) for k in S) / len(S)
        alpha = (1 - lam) * alpha + lam * min(max(likeness, 0.1), 0.9)
        m = -moved
        w = w + mean([U[k] for k in S])
        w = kept(s, models, w)
    return Outcome(s, models, server={"momentum": m, "alpha": alpha, **({"c": c} if control else {})})


def wmsam_client(s: Setup, k: int, t: int, w: Vector, m: Vector, corr: Vector, alpha: float, radius: float) -> Vector:
    """The local steps; `m_k` is the momentum that this client is sent (alpha = 1 only where nothing is perturbed)."""
    m_k = m + alpha / (1 - alpha) * corr if radius != 0 else m
    step = 0

    def q(v: Vector) -> Vector:
        nonlocal step
        delta = (w + step * m_k) - v
        step += 1
        g = s.g(k, v + radius * unit(delta))
        return alpha * (g + corr) + (1 - alpha) * m

    return train_client(s, k, t, w, q)


def cosine(u: Vector, v: Vector, plus: float) -> float:
    """0 where there is no angle."""
    if norm(u) == 0 or norm(v) == 0:
        return 0.0
    return plus + float((u * v).sum()) / (norm(u) * norm(v))


def fedvssam(
    s: Setup,
    rho: float = 0.05,
    mix_local: float = 0.5,
    mix_global: float = 0.5,
    mix_perturb: float | None = None,
    mix_update: float | None = None,
    server_lr: float = 1.0,
) -> Outcome:
    """docs/algorithms/fedvssam.md. Uniform mean; each update is divided by its own K_k, the step has the mean K_k."""
    a_pert = mix_local if mix_perturb is None else mix_perturb
    a_upd = mix_local if mix_update is None else mix_update
    w, d, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        eta = lr_of_round(s, t)
        G = []
        for k in S:

            def q(v: Vector, k: int = k, d: Vector = d) -> Vector:
                m = a_pert * s.g(k, v) + (1 - a_pert) * d
                return a_upd * s.g(k, v + rho * unit(m)) + (1 - a_upd) * d

            G.append((w - train_client(s, k, t, w, q)) / (eta * s.K(k)))
        d = (1 - mix_global) * d + mix_global * mean(G)
        K = sum(s.K(k) for k in S) / len(S)
        w = w - server_lr * eta * K * d
        w = kept(s, models, w)
    return Outcome(s, models, server={"d": d})
