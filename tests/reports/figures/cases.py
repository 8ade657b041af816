"""Each figure, drawn from realistic measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from flatfed.reports.figures.comparisons.forest import ForestRow, draw_forest
from flatfed.reports.figures.comparisons.parameter_lines import ParameterLine, draw_parameter_lines
from flatfed.reports.figures.comparisons.rank_plot import RankedMethods, draw_ranks
from flatfed.reports.figures.contours import draw_contours
from flatfed.reports.figures.corruptions import Bars, draw_corruptions
from flatfed.reports.figures.embedding import draw_embeddings
from flatfed.reports.figures.lines import draw_lines
from flatfed.reports.figures.scatter import draw_scatter
from flatfed.reports.figures.spectra import draw_spectra
from flatfed.reports.figures.surfaces import draw_surface_panels, draw_surfaces
from flatfed.reports.figures.trends import draw_client_trends
from reports.figures.inputs import LONG, NOTE, bowl, embedding, line, plane, several_models, spectrum

Draw = Callable[[Sequence[Path], str], None]
ROUNDS = range(0, 50, 5)
CLIENTS = {k: [None if (k + r) % 3 == 0 else 40.0 + k - r / 5 for r in ROUNDS] for k in range(8)}
RUNS = [
    (label, x + 2 * seed, y + 0.2 * seed)
    for label, x, y in [("fedavg", 120.0, 78.0), ("fedsam", 45.0, 81.0), (LONG, 14.0, 83.0), ("fedasam", 40.0, 81.5)]
    for seed in range(3)
]

CORRUPTIONS = [
    ["clean"],
    ["gaussian noise", "shot noise", "impulse noise", "speckle noise"],
    ["defocus blur", "glass blur", "motion blur", "zoom blur", "gaussian blur"],
    ["snow", "frost", "fog", "brightness", "spatter"],
    ["contrast", "elastic transform", "pixelate", "jpeg compression", "saturate"],
    ["mean"],
]
METHODS = ["fedavg", "fedsam", "fedasam", LONG, "fedgloss+sam", "feddyn+sam"]


def bars(method: int, seeds: int = 3) -> Bars:
    """Accuracies of a method under all corruptions."""
    return [
        {name: [30.0 + len(name) + 3 * method + seed for seed in range(seeds)] for name in section}
        for section in CORRUPTIONS
    ]


TRENDS = {name: {at: [80.0 - 9 * k + n] for k, at in enumerate("012345")} for n, name in enumerate(METHODS)}
DIFFERENCE = "difference to fedavg (points of accuracy)"
FOREST = [
    ForestRow(setting, method, n - 1.5, n - 2.2, n - 1.0, n != 1, DIFFERENCE)
    for setting in ("one class per client", "mild")
    for n, method in enumerate(["fedsam", "fedasam+swa", LONG])
]
FOREST_OF_LOSS = [ForestRow("", "fedsam", -0.1, None, None, False, "difference to fedavg (loss)")]
RHOS = (0.01, 0.1, 1.0)
SWEEP = [
    ParameterLine(method, {rho: [70.0 + 3 * n - 10 * rho * n + seed for seed in range(3)] for rho in RHOS})
    for n, method in enumerate(["fedsam", "fedasam", LONG])
]
LOST = ParameterLine("fedgloss", {0.01: [71.0, 72.0], 0.1: [float("nan"), 70.0], 1.0: [69.0, 70.0]})
RANKS = {"fedavg": 4.6, "fedsam": 3.1, "fedasam+swa": 2.9, "fedgloss": 1.5, LONG: 2.9}
GROUPS = [["fedgloss", LONG, "fedasam+swa", "fedsam"], ["fedasam+swa", "fedsam", "fedavg"]]
CASES: dict[str, Draw] = {
    "forest": lambda files, title: draw_forest(FOREST, files, NOTE, title),
    "forest of two metrics": lambda files, title: draw_forest([*FOREST, *FOREST_OF_LOSS], files, NOTE, title),
    "parameter lines": lambda files, title: draw_parameter_lines(
        [*SWEEP, LOST], files, "ρ", "test accuracy (%)", title
    ),
    "ranks": lambda files, title: draw_ranks(RankedMethods(RANKS, 1.93, GROUPS), files, NOTE, title),
    "ranks of two": lambda files, title: draw_ranks(RankedMethods({"a": 1.4, "b": 1.6}, 2.2), files, NOTE, title),
    "corruptions": lambda files, title: draw_corruptions(
        {name: bars(n) for n, name in enumerate(METHODS)}, files, "accuracy (%), severity 5", title
    ),
    "corruptions and severities": lambda files, title: draw_corruptions(
        {name: bars(n, 1) for n, name in enumerate(METHODS[:2])}, files, "accuracy (%), severity 5", title, TRENDS
    ),
    "surfaces": lambda files, title: draw_surfaces([bowl(LONG, 0.9), bowl()], files, title),
    "surface panels": lambda files, title: draw_surface_panels(
        {"own": [bowl(LONG, 0.9), bowl()], "everyone's": [bowl(LONG, 5.0, 2.0), bowl(base=3.0)]}, files, title
    ),
    "contours apart": lambda files, title: draw_contours([bowl(), bowl(LONG, 90)], files, title, shared=False),
    "embeddings of several models": lambda files, title: draw_embeddings(
        [several_models(), several_models(LONG)], files, title
    ),
    "contours": lambda files, title: draw_contours([bowl(), bowl(LONG, 0.9)], files, title),
    "plane": lambda files, title: draw_contours([plane()], files, title),
    "lines": lambda files, title: draw_lines([line(), line("fedsam → " + LONG, 0.1)], files, title),
    "spectra": lambda files, title: draw_spectra([spectrum(), spectrum(LONG, 20.0)], files, title),
    "five spectra": lambda files, title: draw_spectra([spectrum(f"fedsam {k}") for k in range(5)], files, title),
    "scatter": lambda files, title: draw_scatter(RUNS, files, "largest eigenvalue", "test accuracy (%)", title),
    "embeddings": lambda files, title: draw_embeddings([embedding(), embedding(LONG)], files, title),
    "trends": lambda files, title: draw_client_trends(list(ROUNDS), CLIENTS, files, "largest eigenvalue", title),
}
NAMES = {
    "forest": [DIFFERENCE, "one class per client", "mild", "fedsam", LONG, "significant", "not significant"],
    "forest of two metrics": [DIFFERENCE, "difference to fedavg (loss)", "fedasam+swa"],
    "parameter lines": [
        *("ρ (log scale)", "test accuracy (%)", "fedsam", LONG, "0.01"),
        *("band: ± one standard deviation", "A cross at the bottom"),
    ],
    "ranks": ["mean rank", "critical difference 1.93", "fedgloss 1.50", "fedavg 4.60", f"{LONG} 2.90"],
    "ranks of two": ["critical difference 2.2: wider than the axis", "a 1.40", "b 1.60"],
    "corruptions": [
        *(name for section in CORRUPTIONS for name in section),
        "accuracy (%), severity 5",
        "fedavg",
        "feddyn+sam",
        "with the range over seeds",
    ],
    "corruptions and severities": ["fog", "severity", "accuracy (%), mean", "fedavg", "fedsam"],
    "surfaces": ["loss", "direction 1", "direction 2", "fedavg: loss 0.4 at the centre", LONG],
    "surface panels": ["loss", "own", "everyone's", "fedavg: loss 0.4 and 3 at the centre", LONG],
    "contours apart": ["loss", "direction 1 (filter-normalised)", "fedavg", LONG],
    "embeddings of several models": ["t-SNE (axes without unit)", "name 3", "global model", "client 3", "fedavg", LONG],
    "contours": ["loss", "direction 1 (filter-normalised)", "fedavg", LONG],
    "plane": [
        "loss (log scale)",
        "distance along fedavg → fedsam",
        f"distance across, towards {LONG}",
        "fedavg",
        "fedsam",
        LONG,
    ],
    "lines": ["loss", "share of the way", "train", "test", "fedavg → fedsam", "barrier 1.4", "barrier 0.1"],
    "spectra": ["eigenvalue", "rank", "density", "fedavg", LONG, "0.5%"],
    "five spectra": ["eigenvalue", "rank", "density", *(f"fedsam {k}" for k in range(5))],
    "scatter": ["largest eigenvalue", "test accuracy (%)", "← flatter", "fedavg", "fedsam", "fedasam"],
    "embeddings": ["t-SNE (axes without unit)", "fedavg", LONG, *(f"class {k}" for k in range(10))],
    "trends": ["largest eigenvalue", "round", "mean", "middle half of the clients", "one client (of 8)"],
}
