"""The methods that steer the clients by the sharpness of the global model: FedSMOO, FedGF, FedGMT."""

from __future__ import annotations

from flatfed.testing.naive.local import mean, train_client, weighted_mean, weighted_update
from flatfed.testing.naive.model import Vector, kl_gradient
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept
from flatfed.testing.naive.vectors import norm, unit


def fedsmoo(s: Setup, rho: float = 0.1, beta: float = 10.0, variant: str = "A", regularise: bool = True) -> Outcome:
    """docs/algorithms/fedsmoo.md."""
    a = 1.0 / beta
    w, H, sv, models = s.w0, s.zeros(), s.zeros(), []
    h, mu = s.zeros_per_client(), s.zeros_per_client()
    for t, S in enumerate(s.schedule):
        w_K, s_last = {}, {}
        for i in S:

            def q(v: Vector, i: int = i, w: Vector = w, sv: Vector = sv) -> Vector:
                s_hat = rho * unit(s.g(i, v) - mu[i] - sv)
                mu[i] = mu[i] + s_hat - sv
                s_last[i] = s_hat  # noqa: B023
                return s.g(i, v + s_hat) + (a * (v - w) + a * h[i] if regularise else 0.0)

            w_K[i] = train_client(s, i, t, w, q)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
            H = H + (w_K[i] - w) / s.N
        w = mean(list(w_K.values())) + (H if regularise else 0.0)
        if variant == "A":
            sv = rho * unit(mean([mu[i] - s_last[i] for i in S]))
        elif variant == "B":
            sv = rho * unit(mean([mu[i] for i in S]))
        else:
            sv = rho * unit(-mean(mu))
        w = kept(s, models, w)
    if not regularise:
        return Outcome(s, models, client={"mu": mu}, server={"s": sv})
    return Outcome(s, models, client={"h": h, "mu": mu}, server={"H": H, "s": sv})


def fedgf(
    s: Setup,
    rho: float = 0.05,
    rho_global: float | None = None,
    threshold: float = 0.2,
    window: int = 30,
    c: float | None = None,
    share_of: str = "seen",
) -> Outcome:
    """docs/algorithms/fedgf.md. Round 0 is FedSAM whatever c."""
    rho_g = rho if rho_global is None else rho_global
    w, w_before, flags, c_now, models = s.w0, None, [], 0.0, []
    for t, S in enumerate(s.schedule):
        w_tilde = None if w_before is None else w + rho_g * unit(w_before - w)
        c_used = c_now if c is None else c
        w_K = {}
        for k in S:

            def q(v: Vector, k: int = k, w_tilde: Vector | None = w_tilde, c_used: float = c_used) -> Vector:
                w_hat = v + rho * unit(s.g(k, v))
                z = w_hat if w_tilde is None else c_used * w_tilde + (1 - c_used) * w_hat
                return s.g(k, z)

            w_K[k] = train_client(s, k, t, w, q)
        D = sum(norm(w - w_K[k]) for k in S) / len(S)
        flags = [*flags, float(threshold < D)][-window:]
        c_now = sum(flags) / (window if share_of == "window" else len(flags))
        w_before, w = w, w + weighted_update(s, w, w_K)
        w = kept(s, models, w)
    return Outcome(s, models, server={"c": c_now} if c is None else {})


def fedgmt(
    s: Setup,
    alpha: float = 0.95,
    gamma: float = 1.0,
    tau: float = 3.0,
    beta: float = 10.0,
    server_dual: str = "all",
) -> Outcome:
    """docs/algorithms/fedgmt.md: the model mean follows `weighting`, the dual mean is over all N.

    With `server_dual="active"` each of the round's clients uploads its model plus its new dual.
    """
    b = 1.0 / beta
    w, e, h, models = s.w0, s.w0, s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:

            def q(v: Vector, i: int = i, e: Vector = e) -> Vector:
                pull = kl_gradient(v, e, s.clients[i][0], tau)
                return s.g(i, v) + gamma * tau**2 * pull + b * h[i]

            w_K[i] = train_client(s, i, t, w, q)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
        if server_dual == "active":
            w = weighted_mean(s, {i: w_K[i] + h[i] for i in S})
        else:
            w = w + weighted_update(s, w, w_K) + mean(h)
        e = alpha * e + (1 - alpha) * w
        w = kept(s, models, w)
    return Outcome(
        s, models, client={"h": h}, server={"teacher": e, **({"H": mean(h)} if server_dual == "all" else {})}
    )
