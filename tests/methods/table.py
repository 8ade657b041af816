"""The one table of methods that the battery and the identity tests read.

A new method needs one row here and one function in `naive/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from methods import naive
from methods.naive import Opt, Outcome, Setup

Params = Mapping[str, Any]

CLIENT_OPTS = {"sgd": Opt("sgd"), "sam": Opt("sam", 0.3), "asam": Opt("asam", 0.6, 0.2)}
BACKPROPS_OF_OPT = {"sgd": 1, "sam": 2, "asam": 2}


@dataclass(frozen=True)
class Row:
    """One method: its parameter sets, its naive computation and its published costs."""

    id: str
    params: tuple[Params, ...]
    naive: Callable[..., Outcome]
    down: int  # model-sized vectors per participating client and round, over all exchanges
    up: int
    backprops: int  # per local step and exchange; with sgd where a client optimiser is accepted
    accepts_client_opt: bool
    exchanges: int = 1
    down_in_round_0: int | None = None  # where it is not `down`
    full_batch_passes: Callable[[Params], int] = lambda params: 0  # per client and round
    uniform_mean: bool = False  # whatever `weighting` says
    server_dual: bool = False  # the first round moves by (1 + S/N) times the mean update
    corrected_step: bool = False  # the local direction has more in it than (perturbed) gradients
    warns_with_momentum: bool = False  # its formulas use Delta / (K lr)
    client_state: tuple[str, ...] = ()
    server_state: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A row with one of its parameter sets and one client optimiser (None: the method takes none)."""

    row: Row
    params: Params
    opt: str | None

    def __str__(self) -> str:
        shown = [f"{key}={value}" for key, value in self.params.items()]
        return "-".join([self.row.id, *shown, *([self.opt] if self.opt else [])])

    @property
    def client_opt(self) -> Opt | None:
        return CLIENT_OPTS[self.opt] if self.opt else None

    @property
    def has_server_dual(self) -> bool:
        return self.row.server_dual and self.params.get("admm", True)

    @property
    def has_corrected_step(self) -> bool:
        return self.row.corrected_step and self.params.get("admm", True)

    def naive(self, setup: Setup) -> Outcome:
        extra = {"opt": self.client_opt} if self.opt else {}
        return self.row.naive(setup, **extra, **self.params)

    def backprops(self, steps: int) -> int:
        """Backprops of one client in one round of `steps` full-batch local steps."""
        per_step = self.row.backprops * (BACKPROPS_OF_OPT[self.opt] if self.opt else 1)
        return steps * per_step * self.row.exchanges + self.row.full_batch_passes(self.params)

    def down(self, t: int) -> int:
        first = self.row.down_in_round_0
        return first if t == 0 and first is not None else self.row.down


GLOSS_PARAMS: tuple[Params, ...] = (
    {"rho_server": 0.4, "beta": 3.0},
    {"rho_server": 0.4, "beta": 3.0, "dual": "official", "rho_start": 0.01, "rho_warmup": 4},
    {"rho_server": 0.4, "admm": False},
)

TABLE: tuple[Row, ...] = (
    Row("fedavg", ({"server_lr": 1.0}, {"server_lr": 0.7}), naive.fedavg, 1, 1, 1, True),
    Row("fedprox", ({"mu": 0.6},), naive.fedprox, 1, 1, 1, True, corrected_step=True),
    Row(
        "fedavgm",
        ({"server_momentum": 0.8, "server_lr": 0.6},),
        naive.fedavgm,
        1,
        1,
        1,
        True,
        server_state=("momentum",),
    ),
    Row("fedsam", ({"rho": 0.3},), naive.fedsam, 1, 1, 2, False),
    Row("fedasam", ({"rho": 0.6, "eta": 0.2},), naive.fedasam, 1, 1, 2, False),
    Row(
        "scaffold",
        ({"server_lr": 1.0, "option": "II"}, {"server_lr": 0.8, "option": "I"}),
        naive.scaffold,
        2,
        2,
        1,
        True,
        full_batch_passes=lambda params: 1 if params.get("option") == "I" else 0,
        uniform_mean=True,
        corrected_step=True,
        warns_with_momentum=True,
        client_state=("c",),
        server_state=("c",),
    ),
    Row(
        "feddyn",
        ({"alpha": 0.4},),
        naive.feddyn,
        1,
        1,
        1,
        True,
        uniform_mean=True,
        server_dual=True,
        corrected_step=True,
        client_state=("h",),
        server_state=("H",),
    ),
    Row(
        "fedsmoo",
        tuple({"rho": 0.3, "beta": 3.0, "variant": variant} for variant in "ABC"),
        naive.fedsmoo,
        2,
        2,
        2,
        False,
        uniform_mean=True,
        server_dual=True,
        corrected_step=True,
        client_state=("h", "mu"),
        server_state=("H", "s"),
    ),
    Row(
        "fedgf",
        (
            {"rho": 0.3, "rho_global": 0.2, "threshold": 0.35, "window": 2},
            {"rho": 0.3, "c": 0.4},
            {"rho": 0.3, "rho_global": 0.2, "c": 1.0},
        ),
        naive.fedgf,
        2,
        1,
        2,
        False,
        down_in_round_0=1,
        server_state=("c",),
    ),
    Row(
        "fedgloss",
        GLOSS_PARAMS,
        naive.fedgloss,
        1,
        1,
        1,
        True,
        server_dual=True,
        corrected_step=True,
        client_state=("sigma",),
        server_state=("sigma",),
    ),
    Row(
        "naivefedgloss",
        GLOSS_PARAMS,
        naive.naivefedgloss,
        2,
        2,
        1,
        True,
        exchanges=2,
        server_dual=True,
        corrected_step=True,
        client_state=("sigma",),
        server_state=("sigma",),
    ),
    Row(
        "fedgmt",
        ({"alpha": 0.8, "gamma": 1.5, "tau": 2.0, "beta": 3.0},),
        naive.fedgmt,
        2,
        1,
        1,
        False,
        server_dual=True,
        corrected_step=True,
        client_state=("h",),
        server_state=("H", "teacher"),
    ),
)


def rows(all_params: bool = True, all_opts: bool = True) -> list[Case]:
    """Every row with its parameter sets and client optimisers, or only the first of each."""
    return [
        Case(row, params, opt)
        for row in TABLE
        for params in (row.params if all_params else row.params[:1])
        for opt in _opts(row, all_opts)
    ]


def _opts(row: Row, all_opts: bool) -> list[str | None]:
    if not row.accepts_client_opt:
        return [None]
    return list(CLIENT_OPTS) if all_opts else ["sgd"]
