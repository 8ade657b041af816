"""A drift correction whose clients take SAM-type gradients: FedGAMMA, FedSpeed."""

from __future__ import annotations

from flatfed.testing.naive.client_optimisers import Opt
from flatfed.testing.naive.local import mean, train_client
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept
from flatfed.testing.naive.vectors import unit
from methods.naive.drift_correction import scaffold


def fedgamma(s: Setup, rho: float = 0.1, send_dc: bool = True) -> Outcome:
    """docs/algorithms/fedgamma.md: SCAFFOLD with SAM's gradient."""
    return scaffold(s, Opt("sam", rho), send_dc=send_dc)


def fedspeed(
    s: Setup,
    rho: float = 0.1,
    alpha: float = 0.95,
    lam: float = 100.0,
    server_dual: str = "all",
    normalise: bool = True,
) -> Outcome:
    """docs/algorithms/fedspeed.md. Uniform mean; h_i = -lam ghat_i."""
    w, H, h, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:

            def q(v: Vector, i: int = i, w: Vector = w) -> Vector:
                g1 = s.g(i, v)
                g2 = s.g(i, v + rho * (unit(g1) if normalise else g1))
                ghat = -h[i] / lam
                return (1 - alpha) * g1 + alpha * g2 - ghat + (v - w) / lam

            w_K[i] = train_client(s, i, t, w, q)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
            H = H + (w_K[i] - w) / s.N
        w = mean([w_K[i] + h[i] for i in S]) if server_dual == "active" else mean([w_K[i] for i in S]) + H
        w = kept(s, models, w)
    return Outcome(s, models, client={"h": h}, server={"H": H} if server_dual == "all" else {})
