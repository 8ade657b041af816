"""The local step, the weights, the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.swa import swa_start
from flatfed.testing.naive.training import Setup, Swa
from flatfed.testing.naive.vectors import norm


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
    """Return each client's weight in the mean that `weighting` asks for."""
    if s.weighting == "uniform":
        return {k: 1.0 / len(cohort) for k in cohort}
    total = sum(len(s.clients[k][1]) for k in cohort)
    return {k: len(s.clients[k][1]) / total for k in cohort}


def mean(vectors: Sequence[Vector]) -> Vector:
    """Return the plain mean."""
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
    """Return the learning rate of round t."""
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
