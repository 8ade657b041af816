"""The methods that correct the drift of the clients: SCAFFOLD, FedDyn."""

from __future__ import annotations

from methods.naive.local import SGD, Opt, lr_of_round, mean, opt_gradient, train_client
from methods.naive.model import Vector
from methods.naive.outcome import Outcome
from methods.naive.training import Setup


def scaffold(s: Setup, opt: Opt = SGD, server_lr: float = 1.0, option: str = "II") -> Outcome:
    """docs/algorithms/scaffold.md. Uniform mean."""
    w, c, c_i, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        eta = lr_of_round(s, t)
        updates, changes = [], []
        for i in S:
            w_K = train_client(s, i, t, w, lambda v, i=i, c=c: opt_gradient(s, opt, i, v) - c_i[i] + c)
            update = w_K - w
            fresh = s.g(i, w) if option == "I" else c_i[i] - c - update / (s.K(i) * eta)
            updates.append(update)
            changes.append(fresh - c_i[i])
            c_i[i] = fresh
        w = w + server_lr * mean(updates)
        c = c + sum(changes) / s.N
        models.append(w)
    return Outcome(s, models, client={"c": c_i}, server={"c": c})


def feddyn(s: Setup, opt: Opt = SGD, alpha: float = 0.01, prox: bool = True) -> Outcome:
    """docs/algorithms/feddyn.md. `prox=False` is no published method: it is the reference for FedGMT with gamma = 0."""
    w, H, h, models = s.w0, s.zeros(), s.zeros_per_client(), []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:

            def q(v: Vector, i: int = i, w: Vector = w) -> Vector:
                return opt_gradient(s, opt, i, v) + (alpha * (v - w) if prox else 0.0) + alpha * h[i]

            w_K[i] = train_client(s, i, t, w, q)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
            H = H + (w_K[i] - w) / s.N
        w = mean(list(w_K.values())) + H
        models.append(w)
    return Outcome(s, models, client={"h": h}, server={"H": H})
