"""The methods that perturb on the server: FedGloSS, NaiveFedGloSS."""

from __future__ import annotations

from dataclasses import replace

from methods.naive.local import SGD, Opt, opt_gradient, train_client, unit, weighted_update
from methods.naive.model import Vector
from methods.naive.outcome import Outcome
from methods.naive.training import Setup


def warmed(opt: Opt, t: int, rho_start: float, T: int) -> Opt:
    """N, fedgloss: the client optimiser's rho in round t."""
    if T == 0:
        return opt
    return replace(opt, rho=rho_start + (opt.rho - rho_start) * min(t, T) / T)


def gloss_client(
    s: Setup, opt: Opt, k: int, t: int, anchor: Vector, sigma_k: Vector, beta: float, admm: bool
) -> Vector:
    """docs/algorithms/fedgloss.md, step 2; the anchor stays for the whole round."""

    def q(v: Vector) -> Vector:
        g = opt_gradient(s, opt, k, v)
        return g - sigma_k + (v - anchor) / beta if admm else g

    return train_client(s, k, t, anchor, q)


def fedgloss(
    s: Setup,
    opt: Opt = SGD,
    rho_server: float = 0.1,
    beta: float = 10.0,
    admm: bool = True,
    dual: str = "paper",
    rho_start: float = 0.001,
    rho_warmup: int = 0,
) -> Outcome:
    """docs/algorithms/fedgloss.md."""
    w, sigma, sigma_k, D, models = s.w0, s.zeros(), s.zeros_per_client(), None, []
    for t, S in enumerate(s.schedule):
        w_tilde = w if D is None else w + rho_server * unit(D)
        opt_t = warmed(opt, t, rho_start, rho_warmup)
        w_K = {k: gloss_client(s, opt_t, k, t, w_tilde, sigma_k[k], beta, admm) for k in S}
        D = -weighted_update(s, w_tilde, w_K)
        w = w - D
        if admm:
            for k in S:
                sigma_k[k] = sigma_k[k] - (w_K[k] - w_tilde) / beta
            scale = beta * s.N * (len(S) if dual == "official" else 1)
            sigma = sigma - sum(w_K[k] - w_tilde for k in S) / scale
            w = w - beta * sigma
        models.append(w)
    return Outcome(s, models, client={"sigma": sigma_k}, server={"sigma": sigma})


def naivefedgloss(
    s: Setup,
    opt: Opt = SGD,
    rho_server: float = 0.1,
    beta: float = 10.0,
    admm: bool = True,
    dual: str = "paper",
    rho_start: float = 0.001,
    rho_warmup: int = 0,
) -> Outcome:
    """docs/algorithms/naivefedgloss.md ; the duals are used in both passes, changed after the second only."""
    w, sigma, sigma_k, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        opt_t = warmed(opt, t, rho_start, rho_warmup)
        probe = {k: gloss_client(s, opt_t, k, t, w, sigma_k[k], beta, admm) for k in S}
        w_tilde = w + rho_server * unit(-weighted_update(s, w, probe))
        w_K = {k: gloss_client(s, opt_t, k, t, w_tilde, sigma_k[k], beta, admm) for k in S}
        w = w + weighted_update(s, w_tilde, w_K)
        if admm:
            for k in S:
                sigma_k[k] = sigma_k[k] - (w_K[k] - w_tilde) / beta
            scale = beta * s.N * (len(S) if dual == "official" else 1)
            sigma = sigma - sum(w_K[k] - w_tilde for k in S) / scale
            w = w - beta * sigma
        models.append(w)
    return Outcome(s, models, client={"sigma": sigma_k}, server={"sigma": sigma})
