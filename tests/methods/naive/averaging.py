"""The methods that average: FedAvg and, on its clients or server, one thing more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flatfed.testing.naive.client_optimisers import SGD, Opt, local_gradient
from flatfed.testing.naive.local import train_client, weighted_update
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept


def fedavg(s: Setup, opt: Opt = SGD, server_lr: float = 1.0) -> Outcome:
    """docs/algorithms/fedavg.md."""
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, local_gradient(s, opt, k)) for k in S}
        w = w + server_lr * weighted_update(s, w, w_K)
        w = kept(s, models, w)
    return Outcome(s, models)


def centralised(s: Setup, opt: Opt = SGD) -> Outcome:
    """docs/algorithms/centralised.md: FedAvg over one client that holds everything."""
    everything = (np.concatenate([x for x, _ in s.clients]), np.concatenate([y for _, y in s.clients]))
    alone = fedavg(replace(s, clients=[everything], schedule=[(0,)] * s.rounds), opt)
    return Outcome(s, alone.models)


def fedsam(s: Setup, rho: float = 0.05) -> Outcome:
    """docs/algorithms/fedsam.md."""
    return fedavg(s, Opt("sam", rho))


def fedasam(s: Setup, rho: float = 0.5, eta: float = 0.2, tensors: str = "weights") -> Outcome:
    """docs/algorithms/fedasam.md."""
    return fedavg(s, Opt("asam", rho, {"eta": eta, "tensors": tensors}))


def fedprox(s: Setup, opt: Opt = SGD, mu: float = 0.1) -> Outcome:
    """docs/algorithms/fedprox.md."""
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for k in S:
            g = local_gradient(s, opt, k)
            w_K[k] = train_client(s, k, t, w, lambda v, g=g, w=w: g(v) + mu * (v - w))
        w = w + weighted_update(s, w, w_K)
        w = kept(s, models, w)
    return Outcome(s, models)


def fedavgm(s: Setup, opt: Opt = SGD, server_momentum: float = 0.9, server_lr: float = 1.0) -> Outcome:
    """docs/algorithms/fedavgm.md."""
    w, m, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, local_gradient(s, opt, k)) for k in S}
        m = server_momentum * m + weighted_update(s, w, w_K)
        w = w + server_lr * m
        w = kept(s, models, w)
    return Outcome(s, models, server={"momentum": m})
