"""The averages of the global models: SWA, WIMA."""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.testing.naive.model import Vector
from flatfed.testing.naive.training import Setup, Swa, Wima


def swa_start(s: Setup, average: Swa) -> int:
    """Return the first round of the average."""
    return round(average.start * s.rounds)


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


def swa_model(s: Setup, average: Swa, models: Sequence[Vector]) -> Vector:
    """Return the average of the models that were captured."""
    t0 = swa_start(s, average)
    held = swa_weights(average.mode, s.rounds, t0, average.cycle)
    if not held or t0 >= s.rounds:
        return models[-1]
    snapshot = models[t0 - 1] if t0 > 0 else s.w0
    total = s.zeros()
    for t, weight in held.items():
        total = total + weight * (snapshot if t == -1 else models[t])
    return total


def wima_model(s: Setup, average: Wima, models: Sequence[Vector]) -> Vector:
    """The mean of the last `window` models after aggregation, of fewer in the first rounds."""
    last = models[max(0, len(models) - average.window) :]
    total = s.zeros()
    for w in last:
        total = total + w
    return total / len(last)


def average_model(s: Setup, models: Sequence[Vector]) -> Vector:
    """What is evaluated."""
    if s.average is None:
        return models[-1]
    if isinstance(s.average, Wima):
        return wima_model(s, s.average, models)
    return swa_model(s, s.average, models)
