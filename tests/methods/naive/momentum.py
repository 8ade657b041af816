"""The methods that mix a global momentum into the local steps: FedCM, MoFedSAM, FedACG, MimeLite, Mime."""

from __future__ import annotations

from flatfed.testing.naive.client_optimisers import SGD, Opt, local_gradient
from flatfed.testing.naive.local import lr_of_round, mean, train_client, weighted_mean, weighted_update
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept


def fedcm(s: Setup, opt: Opt = SGD, alpha: float = 0.1) -> Outcome:
    """docs/algorithms/fedcm.md. Uniform mean; the momentum points uphill and has the size of a gradient."""
    w, m, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        eta = lr_of_round(s, t)
        Delta = {}
        for i in S:
            g = local_gradient(s, opt, i)
            w_K = train_client(s, i, t, w, lambda v, g=g, m=m: alpha * g(v) + (1 - alpha) * m)
            Delta[i] = w_K - w
        m = -mean([Delta[i] / (s.K(i) * eta) for i in S])
        w = w + mean([Delta[i] for i in S])
        w = kept(s, models, w)
    return Outcome(s, models, server={"momentum": m})


def mofedsam(s: Setup, rho: float = 0.1, beta: float = 0.1) -> Outcome:
    """docs/algorithms/mofedsam.md: FedCM with SAM's gradient for the fresh one."""
    return fedcm(s, Opt("sam", rho), alpha=beta)


def fedacg(s: Setup, opt: Opt = SGD, lam: float = 0.85, beta: float = 0.001) -> Outcome:
    """docs/algorithms/fedacg.md. Uniform mean; clients start from the look-ahead model, w is evaluated."""
    w, m, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        ahead = w + lam * m
        Delta = []
        for i in S:
            g = local_gradient(s, opt, i)
            w_K = train_client(s, i, t, ahead, lambda v, g=g, ahead=ahead: g(v) + beta * (v - ahead))
            Delta.append(w_K - ahead)
        m = lam * m + mean(Delta)
        w = w + m
        w = kept(s, models, w)
    return Outcome(s, models, server={"momentum": m})


def mimelite(s: Setup, opt: Opt = SGD, beta: float = 0.9) -> Outcome:
    """docs/algorithms/mimelite.md. The momentum stands still during a round."""
    w, m, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        w_K, full = {}, {}
        for k in S:
            g = local_gradient(s, opt, k)
            w_K[k] = train_client(s, k, t, w, lambda v, g=g, m=m: (1 - beta) * g(v) + beta * m)
            full[k] = s.g(k, w)
        w = w + weighted_update(s, w, w_K)
        m = (1 - beta) * weighted_mean(s, full) + beta * m
        w = kept(s, models, w)
    return Outcome(s, models, server={"momentum": m})


def mime(s: Setup, beta: float = 0.9) -> Outcome:
    """docs/algorithms/mime.md. As MimeLite, each gradient corrected to the cohort's: two exchanges a round."""
    w, m, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        c = weighted_mean(s, {k: s.g(k, w) for k in S})
        w_K = {}
        for k in S:

            def q(v: Vector, k: int = k, w: Vector = w, m: Vector = m, c: Vector = c) -> Vector:
                return (1 - beta) * (s.g(k, v) - s.g(k, w) + c) + beta * m

            w_K[k] = train_client(s, k, t, w, q)
        w = w + weighted_update(s, w, w_K)
        m = (1 - beta) * c + beta * m
        w = kept(s, models, w)
    return Outcome(s, models, server={"momentum": m})
