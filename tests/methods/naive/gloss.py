"""The methods that perturb on the server: FedGloSS, NaiveFedGloSS."""

from __future__ import annotations

from dataclasses import replace

from flatfed.testing.naive.client_optimisers import SGD, Opt, local_gradient
from flatfed.testing.naive.local import train_client, weighted_update
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept
from flatfed.testing.naive.vectors import unit


def warmed(opt: Opt, t: int, rho_start: float, T: int) -> Opt:
    """N, fedgloss: the client optimiser's rho in round t."""
    if T == 0:
        return opt
    return replace(opt, rho=rho_start + (opt.rho - rho_start) * min(t, T) / T)


def server_radius(opt: Opt, t: int, rho_server: float, rho_start: float, T: int, warmup: str) -> float:
    """The server's rho in round t; "official" uses the client's final rho while the clients warm up.

    It warms up together with the clients' radius: not at all where they have none.
    """
    if T == 0 or warmup == "none" or opt.kind == "sgd":
        return rho_server
    if warmup == "ramp":
        return rho_start + (rho_server - rho_start) * min(t, T) / T
    return opt.rho + (rho_server - rho_start) / T if 1 <= t <= T else rho_server


def gloss_client(
    s: Setup, opt: Opt, k: int, t: int, anchor: Vector, sigma_k: Vector, beta: float, admm: bool
) -> Vector:
    """docs/algorithms/fedgloss.md, step 2; the anchor stays for the whole round."""
    g = local_gradient(s, opt, k)

    def q(v: Vector) -> Vector:
        return g(v) - sigma_k + (v - anchor) / beta if admm else g(v)

    return train_client(s, k, t, anchor, q)


def global_dual(
    s: Setup, sigma: Vector, w_K: dict[int, Vector], w: Vector, w_tilde: Vector, beta: float, dual: str
) -> Vector:
    """The next sigma; line 22 of the paper's algorithm counts from the unperturbed w, the code divides by m too."""
    origin = w if dual == "printed" else w_tilde
    scale = beta * s.N * (len(w_K) if dual == "official" else 1)
    return sigma - sum(v - origin for v in w_K.values()) / scale


def fedgloss(
    s: Setup,
    opt: Opt = SGD,
    rho_server: float = 0.1,
    beta: float = 10.0,
    admm: bool = True,
    dual: str = "mean",
    rho_start: float = 0.001,
    rho_warmup: int = 0,
    rho_server_warmup: str = "none",
) -> Outcome:
    """docs/algorithms/fedgloss.md."""
    w, sigma, sigma_k, D, models = s.w0, s.zeros(), s.zeros_per_client(), None, []
    for t, S in enumerate(s.schedule):
        rho_s = server_radius(opt, t, rho_server, rho_start, rho_warmup, rho_server_warmup)
        w_tilde = w if D is None else w + rho_s * unit(D)
        opt_t = warmed(opt, t, rho_start, rho_warmup)
        w_K = {k: gloss_client(s, opt_t, k, t, w_tilde, sigma_k[k], beta, admm) for k in S}
        D = -weighted_update(s, w_tilde, w_K)
        if admm:
            for k in S:
                sigma_k[k] = sigma_k[k] - (w_K[k] - w_tilde) / beta
            sigma = global_dual(s, sigma, w_K, w, w_tilde, beta, dual)
        w = w - D - (beta * sigma if admm else 0.0)
        w = kept(s, models, w)
    return Outcome(s, models, client={"sigma": sigma_k}, server={"sigma": sigma})


def naivefedgloss(
    s: Setup,
    opt: Opt = SGD,
    rho_server: float = 0.1,
    beta: float = 10.0,
    admm: bool = True,
    dual: str = "mean",
    rho_start: float = 0.001,
    rho_warmup: int = 0,
    rho_server_warmup: str = "none",
) -> Outcome:
    """docs/algorithms/naivefedgloss.md ; the duals are used in both passes, changed after the second only."""
    w, sigma, sigma_k, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        opt_t = warmed(opt, t, rho_start, rho_warmup)
        probing = replace(opt_t, memory=dict(opt_t.memory))  # nothing of the probe is remembered
        probe = {k: gloss_client(s, probing, k, t, w, sigma_k[k], beta, admm) for k in S}
        rho_s = server_radius(opt, t, rho_server, rho_start, rho_warmup, rho_server_warmup)
        w_tilde = w + rho_s * unit(-weighted_update(s, w, probe))
        w_K = {k: gloss_client(s, opt_t, k, t, w_tilde, sigma_k[k], beta, admm) for k in S}
        if admm:
            for k in S:
                sigma_k[k] = sigma_k[k] - (w_K[k] - w_tilde) / beta
            sigma = global_dual(s, sigma, w_K, w, w_tilde, beta, dual)
        w = w + weighted_update(s, w_tilde, w_K) - (beta * sigma if admm else 0.0)
        w = kept(s, models, w)
    return Outcome(s, models, client={"sigma": sigma_k}, server={"sigma": sigma})
