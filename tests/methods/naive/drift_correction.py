"""The methods that correct the drift of the clients: SCAFFOLD, FedDyn, AdaBest."""

from __future__ import annotations

from flatfed.testing.naive.client_optimisers import SGD, Opt, local_gradient
from flatfed.testing.naive.local import lr_of_round, mean, train_client
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept


def scaffold(s: Setup, opt: Opt = SGD, server_lr: float = 1.0, option: str = "II", send_dc: bool = True) -> Outcome:
    """docs/algorithms/scaffold.md. Uniform mean."""
    w, c, c_i, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        eta = lr_of_round(s, t)
        updates, changes, slopes = [], [], []
        for i in S:
            g = local_gradient(s, opt, i)
            w_K = train_client(s, i, t, w, lambda v, g=g, i=i, c=c: g(v) - c_i[i] + c)
            update = w_K - w
            fresh = s.g(i, w) if option == "I" else c_i[i] - c - update / (s.K(i) * eta)
            updates.append(update)
            slopes.append(update / (s.K(i) * eta))
            changes.append(fresh - c_i[i])
            c_i[i] = fresh
        w = w + server_lr * mean(updates)
        c = c + sum(changes) / s.N if send_dc else (1 - len(S) / s.N) * c - sum(slopes) / s.N
        w = kept(s, models, w)
    return Outcome(s, models, client={"c": c_i}, server={"c": c})


def feddyn(s: Setup, opt: Opt = SGD, alpha: float = 0.01, prox: bool = True) -> Outcome:
    """docs/algorithms/feddyn.md. `prox=False` is no published method: it is the reference for FedGMT with gamma = 0."""
    w, H, h, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:
            g = local_gradient(s, opt, i)

            def q(v: Vector, i: int = i, w: Vector = w, g=g) -> Vector:
                return g(v) + (alpha * (v - w) if prox else 0.0) + alpha * h[i]

            w_K[i] = train_client(s, i, t, w, q)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
            H = H + (w_K[i] - w) / s.N
        w = mean(list(w_K.values())) + H
        w = kept(s, models, w)
    return Outcome(s, models, client={"h": h}, server={"H": H})


def adabest(s: Setup, opt: Opt = SGD, beta: float = 0.9, mu: float = 0.02, mu_scaling: str = "paper") -> Outcome:
    """docs/algorithms/adabest.md. Uniform mean; rounds count from 1, so that 0 stands for "never yet"."""
    w, w_bar, models = s.w0, s.w0, []
    h, last = s.zeros_per_client(), [0.0] * s.N
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:
            g = local_gradient(s, opt, i)
            w_K[i] = train_client(s, i, t, w, lambda v, g=g, i=i: g(v) - h[i])
        for i in S:
            mu_i = mu * s.local_epochs / s.K(i) if mu_scaling == "per-step" else mu
            h[i] = h[i] / (t + 1 - last[i]) + mu_i * (w - w_K[i])
            last[i] = float(t + 1)
        w_bar_before, w_bar = w_bar, mean(list(w_K.values()))
        w = w_bar + beta * (w_bar - w_bar_before)
        w = kept(s, models, w)
    return Outcome(s, models, client={"h": h, "last": last}, server={"mean": w_bar})
