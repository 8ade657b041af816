"""Rounds beside bare loops, and methods beside fedavg."""

from __future__ import annotations

from functools import partial

from bare import Bare, BareProcesses
from federated import Rounds, task_of
from harness import Maker, Result, take_turns
from problems import CONV, Problem

# conv: the whole round against a bare loop.


def conv(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        partial(Bare, CONV),
        partial(BareProcesses, CONV, 2),
        partial(BareProcesses, CONV, 2, keep_memory=True),
        partial(Rounds, "fedavg, in process", CONV),
        partial(Rounds, "fedavg, 2 workers", CONV, workers=2),
    ]
    return take_turns("conv", makers, repeats)


# sam: methods against fedavg on the same engine.

TWO_BACKPROPS = ("fedsam", "fedasam", "fedgloss+sam", "fedsmoo", "fedvssam")
ONE_BACKPROP = ("fedgloss", "fedwmsam", "fedlesam")


def sam(repeats: int) -> dict[str, Result]:
    small = Problem("sam", CONV.model, CONV.shape, 10, 500, 2, 64)
    task = task_of(small)
    makers: list[Maker] = [
        partial(Rounds, name, small, method=name, task=task) for name in ("fedavg", *TWO_BACKPROPS, *ONE_BACKPROP)
    ]
    return take_turns("sam", makers, repeats)
