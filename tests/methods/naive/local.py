"""The client optimisers, the local step, the weights, the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from methods.naive.model import Vector
from methods.naive.swa import swa_start
from methods.naive.training import Setup, Swa


@dataclass(frozen=True)
class Opt:
    kind: str = "sgd"
    rho: float = 0.0
    eta: float = 0.2  # asam
    theta: float = 0.9  # vasso: weight of the fresh gradient
    sigma: float = 1.0  # fsam: how much of the past direction is taken out
    lam: float = 0.6  # fsam: weight of the past
    tensors: str = "weights"  # asam: which are scaled
    memory: dict[int, Vector] = field(default_factory=dict, compare=False)  # sam-prev: by client, for a whole run

    def afresh(self) -> Opt:
        """The same optimiser in a run of its own."""
        return replace(self, memory={})


SGD = Opt()


def norm(v: Vector) -> float:
    return math.sqrt(float((v**2).sum()))


def unit(v: Vector) -> Vector:
    return v / (norm(v) + 1e-16) if norm(v) > 0 else np.zeros_like(v)


def ascent(s: Setup, opt: Opt, g: Vector, w: Vector) -> Vector:
    """`eps` of SAM or ASAM for the data gradient g at w."""
    if opt.kind == "sam":
        return opt.rho * unit(g)
    T = np.where(s.is_weight | (opt.tensors == "all"), np.abs(w) + opt.eta, 1.0)
    return opt.rho * T**2 * g / (norm(T * g) + 1e-16)


def local_gradient(s: Setup, opt: Opt, k: int) -> Callable[[Vector], Vector]:
    """What takes the place of g(w) in the local steps of client k in one round.

    VaSSO and Friendly-SAM remember a direction; it begins and ends with what is returned here. That of `sam-prev` lives
    on in the optimiser's memory.
    """
    past: Vector | None = None

    def gradient(w: Vector) -> Vector:
        nonlocal past
        if opt.kind == "sam-prev":
            opt.memory[k] = s.g(k, w + opt.rho * unit(opt.memory.get(k, s.zeros())))
            return opt.memory[k]
        g = s.g(k, w)
        if opt.kind == "sgd":
            return g
        if opt.kind == "vasso":
            past = g if past is None else (1 - opt.theta) * past + opt.theta * g
            return s.g(k, w + opt.rho * unit(past))
        if opt.kind == "fsam":
            eps = opt.rho * unit(g if past is None else g - opt.sigma * past)
            past = g if past is None else opt.lam * past + (1 - opt.lam) * g
            return s.g(k, w + eps)
        return s.g(k, w + ascent(s, opt, g, w))

    return gradient


def train_client(s: Setup, k: int, t: int, start: Vector, direction: Callable[[Vector], Vector]) -> Vector:
    """N, "The local step": direction, clip, weight decay, momentum buffer (zero at first), step."""
    w, b = start.copy(), np.zeros_like(start)
    for _ in range(s.K(k)):
        q = direction(w)
        if s.clip is not None and norm(q) > s.clip:
            q = q * (s.clip / norm(q))
        d = q + s.weight_decay * w
        b = s.momentum * b + d
        w = w - lr_of_round(s, t) * b
    return w


def weights(s: Setup, cohort: Sequence[int]) -> dict[int, float]:
    if s.weighting == "uniform":
        return {k: 1.0 / len(cohort) for k in cohort}
    total = sum(len(s.clients[k][1]) for k in cohort)
    return {k: len(s.clients[k][1]) / total for k in cohort}


def mean(vectors: Sequence[Vector]) -> Vector:
    total = np.zeros_like(vectors[0])
    for v in vectors:
        total = total + v
    return total / len(vectors)


def weighted_mean(s: Setup, vectors: dict[int, Vector]) -> Vector:
    """sum_k p_k v_k, with the weights that `weighting` asks for."""
    p = weights(s, list(vectors))
    total = s.zeros()
    for k, v in vectors.items():
        total = total + p[k] * v
    return total


def weighted_update(s: Setup, start: Vector, w_K: dict[int, Vector]) -> Vector:
    """sum_k p_k (w_{k,K} - start)."""
    return weighted_mean(s, {k: w - start for k, w in w_K.items()})


def lr_of_round(s: Setup, t: int) -> float:
    gamma1 = s.lr * s.lr_decay**t
    if not isinstance(s.average, Swa) or s.average.cycle == 1 or t < swa_start(s, s.average):
        return gamma1
    c = s.average.cycle
    phase = {
        "paper": (((t - 1) % c) + 1) / c,
        "official": ((t % c) + 1) / c,
        "end-of-cycle": (((t - swa_start(s, s.average)) % c) + 1) / c,
    }[s.average.mode]
    return (1 - phase) * gamma1 + phase * s.average.lr_low
