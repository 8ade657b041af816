"""A second, deliberately naive computation of the methods: NumPy, float64, one client after the other.

It shares no code with flatfed. It is written to be read next to the specifications: each function is named
after its method, quotes the section it follows (F = flat-algorithms.md, B = baselines.md, N = names.md) and
keeps that section's letters. Nothing here is fast, and nothing is shared between methods except the local
step, the client optimisers and the client weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Data = tuple[NDArray[np.float64], NDArray[np.int64]]
Gradient = Callable[[Vector, NDArray[np.float64], NDArray[np.int64]], Vector]

# --- the model: Linear(5, 4), tanh, Linear(4, 3), in the order of model.parameters() ---------------------

INPUTS, HIDDEN, CLASSES = 5, 4, 3
SHAPES: dict[str, tuple[int, ...]] = {
    "0.weight": (HIDDEN, INPUTS),
    "0.bias": (HIDDEN,),
    "2.weight": (CLASSES, HIDDEN),
    "2.bias": (CLASSES,),
}
DIMENSION = sum(math.prod(shape) for shape in SHAPES.values())
IS_WEIGHT = np.concatenate([np.full(math.prod(shape), "weight" in name) for name, shape in SHAPES.items()])


def unpack(w: Vector) -> dict[str, Vector]:
    tensors, at = {}, 0
    for name, shape in SHAPES.items():
        size = math.prod(shape)
        tensors[name] = w[at : at + size].reshape(shape)
        at += size
    return tensors


def softmax(z: Vector) -> Vector:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def hidden(w: Vector, x: Vector) -> Vector:
    p = unpack(w)
    return np.tanh(x @ p["0.weight"].T + p["0.bias"])


def logits(w: Vector, x: Vector) -> Vector:
    p = unpack(w)
    return hidden(w, x) @ p["2.weight"].T + p["2.bias"]


def backward(w: Vector, x: Vector, dz: Vector) -> Vector:
    """The flat parameter gradient, given the gradient `dz` of the loss with respect to the logits."""
    p, a = unpack(w), hidden(w, x)
    du = (dz @ p["2.weight"]) * (1.0 - a**2)
    parts = {"0.weight": du.T @ x, "0.bias": du.sum(0), "2.weight": dz.T @ a, "2.bias": dz.sum(0)}
    return np.concatenate([parts[name].ravel() for name in SHAPES])


def cross_entropy(w: Vector, x: Vector, y: NDArray[np.int64]) -> float:
    return float(-np.log(softmax(logits(w, x))[np.arange(len(y)), y]).mean())


def cross_entropy_gradient(w: Vector, x: Vector, y: NDArray[np.int64]) -> Vector:
    dz = softmax(logits(w, x))
    dz[np.arange(len(y)), y] -= 1.0
    return backward(w, x, dz / len(y))


def zero_gradient(w: Vector, x: Vector, y: NDArray[np.int64]) -> Vector:
    """The data gradient of a loss that is constant."""
    return np.zeros_like(w)


def kl(w: Vector, e: Vector, x: Vector, tau: float) -> float:
    """KL(softmax(z_e / tau) || softmax(z_w / tau)), batch mean."""
    teacher, student = softmax(logits(e, x) / tau), softmax(logits(w, x) / tau)
    return float((teacher * (np.log(teacher) - np.log(student))).sum(1).mean())


def kl_gradient(w: Vector, e: Vector, x: Vector, tau: float) -> Vector:
    dz = (softmax(logits(w, x) / tau) - softmax(logits(e, x) / tau)) / tau
    return backward(w, x, dz / len(x))


# --- one training set-up ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swa:
    """N, Averages: `ff.SWA`."""

    start: float = 0.75
    cycle: int = 10
    lr_low: float = 1e-4
    mode: str = "end-of-cycle"


@dataclass(frozen=True)
class Setup:
    """What `ff.train` is told, in NumPy. One entry of `schedule` is one round."""

    w0: Vector
    clients: Sequence[Data]
    schedule: Sequence[Sequence[int]]
    lr: float = 0.2
    local_epochs: int = 3
    batch_size: int | None = None
    weight_decay: float = 0.0
    momentum: float = 0.0
    lr_decay: float = 1.0
    clip: float | None = None
    weighting: str = "samples"
    average: Swa | None = None
    gradient: Gradient = field(default=cross_entropy_gradient)
    is_weight: NDArray[np.bool_] = field(default_factory=lambda: IS_WEIGHT)

    @property
    def N(self) -> int:  # noqa: N802
        return len(self.clients)

    @property
    def rounds(self) -> int:
        return len(self.schedule)

    def g(self, k: int, w: Vector) -> Vector:
        """The full-batch data gradient of client k."""
        x, y = self.clients[k]
        return self.gradient(w, x, y)

    def K(self, k: int) -> int:  # noqa: N802
        """Local steps of client k; with batches, set-ups must make every batch of a client equal."""
        if self.batch_size is None:
            return self.local_epochs
        return self.local_epochs * math.ceil(len(self.clients[k][1]) / self.batch_size)

    def zeros(self) -> Vector:
        return np.zeros_like(self.w0)

    def zeros_per_client(self) -> list[Vector]:
        return [self.zeros() for _ in self.clients]


@dataclass
class Outcome:
    """The global model after each round, and what clients and server hold at the end."""

    setup: Setup
    models: list[Vector]
    client: dict[str, list[Vector]] = field(default_factory=dict)
    server: dict[str, Vector | float] = field(default_factory=dict)

    @property
    def vector(self) -> Vector:
        return self.models[-1]

    @property
    def eval_vector(self) -> Vector:
        return swa_model(self.setup, self.models) if self.setup.average else self.vector


# --- client optimisers (F 1.3, F 2.2) --------------------------------------------------------------------


@dataclass(frozen=True)
class Opt:
    kind: str = "sgd"
    rho: float = 0.0
    eta: float = 0.2


SGD = Opt()


def norm(v: Vector) -> float:
    return math.sqrt(float((v**2).sum()))


def unit(v: Vector) -> Vector:
    return v / (norm(v) + 1e-16) if norm(v) > 0 else np.zeros_like(v)


def ascent(s: Setup, opt: Opt, g: Vector, w: Vector) -> Vector:
    """`eps` of SAM or ASAM for the data gradient g at w."""
    if opt.kind == "sam":
        return opt.rho * unit(g)
    T = np.where(s.is_weight, np.abs(w) + opt.eta, 1.0)
    return opt.rho * T**2 * g / (norm(T * g) + 1e-16)


def opt_gradient(s: Setup, opt: Opt, k: int, w: Vector) -> Vector:
    """What takes the place of g(w) in the local step."""
    g = s.g(k, w)
    if opt.kind == "sgd":
        return g
    return s.g(k, w + ascent(s, opt, g, w))


# --- the local step, the weights, the learning rate ------------------------------------------------------


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


def weighted_update(s: Setup, start: Vector, w_K: dict[int, Vector]) -> Vector:
    """sum_k p_k (w_{k,K} - start), with the weights that `weighting` asks for."""
    p = weights(s, list(w_K))
    total = s.zeros()
    for k, w in w_K.items():
        total = total + p[k] * (w - start)
    return total


def lr_of_round(s: Setup, t: int) -> float:
    gamma1 = s.lr * s.lr_decay**t
    if s.average is None or s.average.cycle == 1 or t < swa_start(s):
        return gamma1
    c = s.average.cycle
    phase = {
        "paper": (((t - 1) % c) + 1) / c,
        "official": ((t % c) + 1) / c,
        "end-of-cycle": (((t - swa_start(s)) % c) + 1) / c,
    }[s.average.mode]
    return (1 - phase) * gamma1 + phase * s.average.lr_low


# --- SWA (F 2.3) -----------------------------------------------------------------------------------------


def swa_start(s: Setup) -> int:
    assert s.average is not None
    return round(s.average.start * s.rounds)


def swa_captures(mode: str, t: int, t0: int, c: int) -> bool:
    """Is the model captured after the aggregation of round t?"""
    if mode == "paper":
        return t >= t0 and t % c == 0
    if mode == "official":
        return t > t0 and (t - t0) % c == 0
    return t >= t0 and (t - t0 + 1) % c == 0


def swa_weights(mode: str, rounds: int, t0: int, c: int) -> dict[int, float]:
    """Weight of the model after round t in the average; key -1 is the initial snapshot (mode paper)."""
    held: dict[int, float] = {-1: 1.0} if mode == "paper" else {}
    n = 0
    for t in range(rounds):
        if not swa_captures(mode, t, t0, c):
            continue
        if mode == "paper":
            n = t // c
        held = {key: value * n / (n + 1) for key, value in held.items()}
        held[t] = 1 / (n + 1)
        n += 1
    return held


def swa_model(s: Setup, models: Sequence[Vector]) -> Vector:
    assert s.average is not None
    t0 = swa_start(s)
    held = swa_weights(s.average.mode, s.rounds, t0, s.average.cycle)
    if not held or t0 >= s.rounds:
        return models[-1]
    snapshot = models[t0 - 1] if t0 > 0 else s.w0
    total = s.zeros()
    for t, weight in held.items():
        total = total + weight * (snapshot if t == -1 else models[t])
    return total


# --- the methods -----------------------------------------------------------------------------------------


def fedavg(s: Setup, opt: Opt = SGD, server_lr: float = 1.0) -> Outcome:
    """B 3.1."""
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, lambda v, k=k: opt_gradient(s, opt, k, v)) for k in S}
        w = w + server_lr * weighted_update(s, w, w_K)
        models.append(w)
    return Outcome(s, models)


def fedsam(s: Setup, rho: float = 0.05) -> Outcome:
    """F 2.1."""
    return fedavg(s, Opt("sam", rho))


def fedasam(s: Setup, rho: float = 0.5, eta: float = 0.2) -> Outcome:
    """F 2.2."""
    return fedavg(s, Opt("asam", rho, eta))


def fedprox(s: Setup, opt: Opt = SGD, mu: float = 0.1) -> Outcome:
    """B 3.2."""
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for k in S:
            w_K[k] = train_client(s, k, t, w, lambda v, k=k, w=w: opt_gradient(s, opt, k, v) + mu * (v - w))
        w = w + weighted_update(s, w, w_K)
        models.append(w)
    return Outcome(s, models)


def fedavgm(s: Setup, opt: Opt = SGD, server_momentum: float = 0.9, server_lr: float = 1.0) -> Outcome:
    """B 3.3."""
    w, m, models = s.w0, s.zeros(), []
    for t, S in enumerate(s.schedule):
        w_K = {k: train_client(s, k, t, w, lambda v, k=k: opt_gradient(s, opt, k, v)) for k in S}
        m = server_momentum * m + weighted_update(s, w, w_K)
        w = w + server_lr * m
        models.append(w)
    return Outcome(s, models, server={"momentum": m})


def scaffold(s: Setup, opt: Opt = SGD, server_lr: float = 1.0, option: str = "II") -> Outcome:
    """B 3.6. Uniform mean (N, "Uniform client mean")."""
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
    """B 3.7. `prox=False` is no published method: it is the reference for FedGMT with gamma = 0."""
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


def fedsmoo(s: Setup, rho: float = 0.1, beta: float = 10.0, variant: str = "A") -> Outcome:
    """B 3.18."""
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
                return s.g(i, v + s_hat) + a * (v - w) + a * h[i]

            w_K[i] = train_client(s, i, t, w, q)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
            H = H + (w_K[i] - w) / s.N
        w = mean(list(w_K.values())) + H
        if variant == "A":
            sv = rho * unit(mean([mu[i] - s_last[i] for i in S]))
        elif variant == "B":
            sv = rho * unit(mean([mu[i] for i in S]))
        else:
            sv = rho * unit(-mean(mu))
        models.append(w)
    return Outcome(s, models, client={"h": h, "mu": mu}, server={"H": H, "s": sv})


def fedgf(
    s: Setup,
    rho: float = 0.05,
    rho_global: float | None = None,
    threshold: float = 0.2,
    window: int = 30,
    c: float | None = None,
) -> Outcome:
    """F 2.8. Round 0 is FedSAM whatever c (N)."""
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
        c_now = sum(flags) / len(flags)
        w_before, w = w, w + weighted_update(s, w, w_K)
        models.append(w)
    return Outcome(s, models, server={"c": c_now} if c is None else {})


def warmed(opt: Opt, t: int, rho_start: float, T: int) -> Opt:
    """N, fedgloss: the client optimiser's rho in round t."""
    if T == 0:
        return opt
    return replace(opt, rho=rho_start + (opt.rho - rho_start) * min(t, T) / T)


def gloss_client(
    s: Setup, opt: Opt, k: int, t: int, anchor: Vector, sigma_k: Vector, beta: float, admm: bool
) -> Vector:
    """F 2.5, step 2; the anchor stays for the whole round."""

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
    """F 2.5."""
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
    """F 2.4 with N's rule for the duals: used in both passes, changed after the second only."""
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


def fedgmt(s: Setup, alpha: float = 0.95, gamma: float = 1.0, tau: float = 3.0, beta: float = 10.0) -> Outcome:
    """B 3.21: the model mean follows `weighting`, the dual mean is over all N (N, fedgmt)."""
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
        w = w + weighted_update(s, w, w_K) + mean(h)
        e = alpha * e + (1 - alpha) * w
        models.append(w)
    return Outcome(s, models, client={"h": h}, server={"H": mean(h), "teacher": e})
