"""SWA on the server: average the global models visited late in training, under a cyclic client learning rate."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from flatfed.core.configuration.checking import Count, Fraction, NonNegative
from flatfed.core.configuration.schedules import Cycle
from flatfed.core.method.algorithm import Average
from flatfed.core.method.state import Slots, State, scalar, vector


class SWA(Average, id="swa"):
    """Stochastic weight averaging of global models from round `t0 = round(start * rounds)` on.

        lr = (1 - phase) lr + phase lr_low                      within each cycle; cycle=1 leaves the rate alone
        average <- (n average + w)/(n + 1)                      at each capture

    Modes: `end-of-cycle` captures after the lowest rate; `official` (the authors' code) one round later; `paper`
    counts n from round 0, so that the snapshot at t0 keeps a weight of about t0 / rounds. Caldarola et al.,
    "Improving generalization in federated learning by seeking flat minima", ECCV 2022.
    """

    start: Fraction = 0.75
    cycle: Count = 10
    lr_low: NonNegative = 1e-4
    mode: Literal["end-of-cycle", "official", "paper"] = "end-of-cycle"

    def state(self, rounds: int) -> Slots:
        """Declare the average and how many models it holds."""
        return {"average": vector(), "count": scalar()}

    def first(self, rounds: int) -> int:
        """Return `t0`: before it neither the rate nor what is evaluated changes."""
        return round(self.start * rounds)

    def lr(self, lr: float, round: int, rounds: int) -> float:
        """Return the rate of a round: from this round's `lr` down to `lr_low` within each cycle."""
        t0, c = self.first(rounds), self.cycle
        if round < t0 or c == 1:
            return lr
        offset = {"end-of-cycle": round - t0, "official": round, "paper": round - 1}[self.mode]
        return Cycle(lr, self.lr_low, c).value(offset)

    def captures(self, round: int, rounds: int) -> bool:
        """Say whether the model after this round enters the average."""
        t0, c = self.first(rounds), self.cycle
        if self.mode == "end-of-cycle":
            return round >= t0 and (round - t0 + 1) % c == 0
        if self.mode == "official":
            return round > t0 and (round - t0) % c == 0
        return round >= t0 and round % c == 0

    def averages(self, rounds: int) -> bool:
        """Say whether a cycle ends within the run."""
        return any(self.captures(round, rounds) for round in range(self.first(rounds), rounds))

    def capture(self, kept: State, before: Tensor, after: Tensor, round: int, rounds: int) -> None:
        """Enter a model: `average <- (n average + w) / (n + 1)`."""
        if self.mode == "paper" and round == self.first(rounds):
            kept.average, kept.count = before, 1.0
        if self.captures(round, rounds):
            n = round // self.cycle if self.mode == "paper" else int(kept.count)
            # As a correction of the average, so that the first model is taken over exactly, from zero.
            kept.average += (after - kept.average) / (n + 1)
            kept.count += 1

    def evaluated(self, kept: State, w: Tensor) -> Tensor:
        """Return the average once it holds a model, the current model before."""
        return kept.average if float(kept.count) else w
