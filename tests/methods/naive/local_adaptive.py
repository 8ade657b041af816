"""The methods whose clients take adaptive steps: FedAdamW."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flatfed.testing.naive.client_optimisers import SGD, Opt, local_gradient
from flatfed.testing.naive.local import lr_of_round, mean, train_client
from flatfed.testing.naive.model import SHAPES, Vector, unpack
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept


def fedadamw(
    s: Setup,
    opt: Opt = SGD,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    alpha: float = 0.5,
    blocks: str = "tensor",
) -> Outcome:
    """docs/algorithms/fedadamw.md. Uniform mean; the decay of the local step is decoupled, as g does not hold it."""
    w, d, v, t0, models = s.w0, s.zeros(), s.zeros(), 0, []
    for t, S in enumerate(s.schedule):
        Delta, V = {}, {}
        for k in S:
            moments = {"m": s.zeros(), "v": v, "i": 0}
            q = adamw_direction(local_gradient(s, opt, k), moments, beta1, beta2, eps, t0)
            Delta[k] = train_client(s, k, t, w, lambda x, q=q, d=d: q(x) + alpha * d) - w
            V[k] = tensor_means(moments["v"]) if blocks == "tensor" else moments["v"]
        d = -mean([Delta[k] / (s.K(k) * lr_of_round(s, t)) for k in S])
        v = mean([V[k] for k in S])
        t0 = t0 + round(sum(s.K(k) for k in S) / len(S))
        w = w + mean([Delta[k] for k in S])
        w = kept(s, models, w)
    shown = np.array([part.flat[0] for part in unpack(v).values()]) if blocks == "tensor" else v
    return Outcome(s, models, server={"d": d, "v": shown, "steps": float(t0)})


def adamw_direction(
    g: Callable[[Vector], Vector], moments: dict, beta1: float, beta2: float, eps: float, t0: int
) -> Callable[[Vector], Vector]:
    """Adam's direction; the first moment has seen the steps of this round alone, the second all of them."""

    def q(x: Vector) -> Vector:
        gradient = g(x)
        moments["i"] += 1
        moments["m"] = beta1 * moments["m"] + (1 - beta1) * gradient
        moments["v"] = beta2 * moments["v"] + (1 - beta2) * gradient**2
        m_hat = moments["m"] / (1 - beta1 ** moments["i"])
        v_hat = moments["v"] / (1 - beta2 ** (t0 + moments["i"]))
        return m_hat / (np.sqrt(v_hat) + eps)

    return q


def tensor_means(v: Vector) -> Vector:
    """Each tensor filled with its mean."""
    parts = unpack(v)
    return np.concatenate([np.full(parts[name].size, parts[name].mean()) for name in SHAPES])
