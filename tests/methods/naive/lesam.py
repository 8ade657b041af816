"""The methods that perturb along the last move of the global model: FedLESAM, FedLESAM-S, FedLESAM-D."""

from __future__ import annotations

from typing import Any

from flatfed.testing.naive.local import lr_of_round, mean, train_client, weighted_update
from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup, kept
from flatfed.testing.naive.vectors import unit


class Memory:
    """The older global model that gives the direction: each client's own, or the server's last one."""

    def __init__(self, s: Setup, ascent: str) -> None:
        self.s, self.ascent = s, ascent
        self.old: list[Vector | None] = [None] * s.N  # what client i received when it last took part
        self.previous: Vector | None = None  # w^{t-1}

    def eps(self, i: int, w: Vector, rho: float) -> Vector:
        """The perturbation of client i for the whole round."""
        past = self.previous if self.ascent == "server" else self.old[i]
        return self.s.zeros() if past is None else rho * unit(past - w)

    def keep(self, S: Any, w: Vector) -> None:
        """At the end of the round that w was sent in."""
        self.previous = w
        for i in S:
            self.old[i] = w

    def client(self) -> dict[str, Any]:
        if self.ascent == "server":
            return {}
        old = [self.s.zeros() if v is None else v for v in self.old]
        return {"old": old, "met": [float(v is not None) for v in self.old]}

    def server(self) -> dict[str, Any]:
        return {"previous": self.previous} if self.ascent == "server" else {}


def fedlesam(s: Setup, rho: float = 0.01, ascent: str = "client") -> Outcome:
    """docs/algorithms/fedlesam.md. The mean follows `weighting`."""
    w, past, models = s.w0, Memory(s, ascent), []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:
            eps = past.eps(i, w, rho)
            w_K[i] = train_client(s, i, t, w, lambda v, i=i, eps=eps: s.g(i, v + eps))
        past.keep(S, w)
        w = w + weighted_update(s, w, w_K)
        w = kept(s, models, w)
    return Outcome(s, models, client=past.client(), server=past.server())


def fedlesam_s(s: Setup, rho: float = 0.01, ascent: str = "client", send_dc: bool = True) -> Outcome:
    """docs/algorithms/fedlesam-s.md. SCAFFOLD (option II) at the perturbed point, uniform mean."""
    w, past, models = s.w0, Memory(s, ascent), []
    c, c_i = s.zeros(), s.zeros_per_client()
    for t, S in enumerate(s.schedule):
        eta = lr_of_round(s, t)
        Delta, dc = {}, {}
        for i in S:
            eps = past.eps(i, w, rho)
            w_K = train_client(s, i, t, w, lambda v, i=i, eps=eps, c=c: s.g(i, v + eps) - c_i[i] + c)
            Delta[i] = w_K - w
            dc[i] = -c - Delta[i] / (s.K(i) * eta)
        for i in S:
            c_i[i] = c_i[i] + dc[i]
        past.keep(S, w)
        w = w + mean([Delta[i] for i in S])
        if send_dc:
            c = c + sum(dc[i] for i in S) / s.N
        else:
            c = (1 - len(S) / s.N) * c - sum(Delta[i] / (s.K(i) * eta) for i in S) / s.N
        w = kept(s, models, w)
    return Outcome(s, models, client={"c": c_i, **past.client()}, server={"c": c, **past.server()})


def fedlesam_d(s: Setup, rho: float = 0.01, beta: float = 10.0, ascent: str = "client") -> Outcome:
    """docs/algorithms/fedlesam-d.md. FedDyn at the perturbed point, uniform mean."""
    a = 1.0 / beta
    w, past, models = s.w0, Memory(s, ascent), []
    H, h = s.zeros(), s.zeros_per_client()
    for t, S in enumerate(s.schedule):
        w_K = {}
        for i in S:
            eps = past.eps(i, w, rho)

            def q(v: Vector, i: int = i, w: Vector = w, eps: Vector = eps) -> Vector:
                return s.g(i, v + eps) + a * (v - w) + a * h[i]

            w_K[i] = train_client(s, i, t, w, q)
        past.keep(S, w)
        for i in S:
            h[i] = h[i] + (w_K[i] - w)
            H = H + (w_K[i] - w) / s.N
        w = mean([w_K[i] for i in S]) + H
        w = kept(s, models, w)
    return Outcome(s, models, client={"h": h, **past.client()}, server={"H": H, **past.server()})
