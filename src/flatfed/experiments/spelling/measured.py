"""The options that say what is measured and drawn of runs: which values each takes, and its default.

The commands `landscape`, `flatness` and `robustness` make their options from these, and so do the figures of a study.
Nothing here imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from flatfed.experiments.spelling.declared import RunOption
from flatfed.experiments.spelling.kinds import ChoiceKind, NumberKind, TextKind, WholeKind, WholeNumbersKind

Kind = Literal["surface", "line", "plane", "along", "client", "clients", "client-plane"]
RUNS: Mapping[Kind, tuple[int, float, str]] = {
    "surface": (1, math.inf, "at least 1 run"),
    "line": (2, 2, "2 runs"),
    "plane": (3, 3, "3 runs"),
    "along": (1, math.inf, "at least 1 run"),
    "client": (1, math.inf, "at least 1 run"),
    "clients": (1, 1, "1 run"),
    "client-plane": (1, 1, "1 run"),
}
"""How many runs a kind of landscape takes, at least and at most, and in words."""
MODELS = 6
"""Clients on a map of features, at most: each model has a mark of its own."""
MEASURED = "loss,lambda_ratio,trace,lpf,sharpness,adaptive_sharpness,parameter_norm"
"""What is measured where nothing is said."""
PROTOCOLS = ("fedgloss",)
SEVERITIES = ("1", "2", "3", "4", "5")
EVERY = "all"
WEIGHTS = RunOption(ChoiceKind(("evaluated", "global")), "evaluated")
SPACE = RunOption(ChoiceKind(("trained", "full")), "trained")
SEED = RunOption(WholeKind(0), 0)

LANDSCAPE: Mapping[str, RunOption] = {
    "kind": RunOption(ChoiceKind(tuple(RUNS)), "surface"),
    "points": RunOption(WholeKind(3), 21),
    "extent": RunOption(NumberKind(), 1.0),
    "samples": RunOption(WholeKind(1, EVERY), 5_000),
    "seed": SEED,
    "client": RunOption(WholeKind(0, EVERY)),
    "clients": RunOption(WholeNumbersKind()),
    "round": RunOption(ChoiceKind(("last", "next")), "last"),
    "directions": RunOption(WholeKind(1), 10),
    "weights": WEIGHTS,
    "space": SPACE,
    "title": RunOption(TextKind(), ""),
}
FLATNESS: Mapping[str, RunOption] = {
    "measure": RunOption(TextKind(), MEASURED),
    "data": RunOption(TextKind(), "train"),
    "samples": RunOption(WholeKind(1, EVERY), EVERY),
    "seed": SEED,
    "weights": WEIGHTS,
    "space": SPACE,
    "protocol": RunOption(ChoiceKind(PROTOCOLS)),
}
ROBUSTNESS: Mapping[str, RunOption] = {
    "severity": RunOption(ChoiceKind((*SEVERITIES, EVERY)), "5"),
    "corruptions": RunOption(TextKind()),
}
EMBEDDING: Mapping[str, RunOption] = {
    "clients": RunOption(WholeKind(1, most=MODELS)),
    "weights": WEIGHTS,
    "seed": SEED,
}
"""Maps of features, which `flatfed flatness` draws with --tsne and --tsne-clients."""


def severities_of(text: str) -> list[int]:
    """Return the severities that a text stands for."""
    chosen = SEVERITIES if text == EVERY else (text,)
    return list(map(int, chosen))
