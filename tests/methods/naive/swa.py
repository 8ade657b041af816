"""SWA."""

from __future__ import annotations

from collections.abc import Sequence

from methods.naive.model import Vector
from methods.naive.training import Setup


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
