"""The one table of methods that the battery and the identity tests read.

A new method needs one row in `TABLE` and one function in `naive/`; a new client optimiser one row in `CLIENT_OPTS` and
one function in `naive/client_optimisers.py`. Which rows meet which settings is in `designs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from methods import naive
from methods.naive import Opt, Outcome, Setup

Params = Mapping[str, Any]
Count = int | Callable[[Params], int]  # a function where a variant costs more or less
Names = tuple[str, ...] | Callable[[Params], tuple[str, ...]]
FirstRound = Callable[[Params, int, int], float]


@dataclass(frozen=True)
class OptRow:
    """One client optimiser: its values in these tests, its cost, the published defaults and what a client keeps."""

    opt: Opt
    backprops: int  # per local step
    published: Params | None  # None: a second row of an optimiser that has them
    client_state: tuple[str, ...] = ()  # the vector in `Opt.memory`


CLIENT_OPTS: dict[str, OptRow] = {
    "sgd": OptRow(Opt("sgd"), 1, {}),
    "sam": OptRow(Opt("sam", 0.3), 2, {"rho": 0.05}),
    "asam": OptRow(
        Opt("asam", 0.6, {"eta": 0.2, "tensors": "weights"}), 2, {"rho": 0.5, "eta": 0.2, "tensors": "weights"}
    ),
    "asam-all": OptRow(Opt("asam", 0.6, {"eta": 0.3, "tensors": "all"}), 2, None),
    "sam-prev": OptRow(Opt("sam-prev", 0.3), 1, {"rho": 0.05}, ("previous_gradient",)),
    "vasso": OptRow(Opt("vasso", 0.3, {"theta": 0.7}), 2, {"rho": 0.05, "theta": 0.9}),
    "fsam": OptRow(Opt("fsam", 0.3, {"sigma": 0.8, "lam": 0.4}), 2, {"rho": 0.2, "sigma": 1.0, "lam": 0.6}),
}
SERVER_RATE = 0.7  # given to every method whose rate is a factor on its own step
SCALAR_STATES = {"last", "met"}  # what a client keeps besides vectors


def server_lr(params: Params, S: int, N: int) -> float:
    return params.get("server_lr", 1.0)


def all_duals(params: Params, S: int, N: int) -> float:
    """A client's dual after the first round is its update, and all N are averaged, or the S of the round."""
    return 2.0 if params.get("server_dual") == "active" else 1 + S / N


def gloss_duals(params: Params, S: int, N: int) -> float:
    if not params.get("admm", True):
        return 1.0
    return 1 + (1 if params.get("dual") == "official" else S) / N


@dataclass(frozen=True)
class Row:
    """One method: its parameter sets, its naive computation and its published costs."""

    id: str
    params: tuple[Params, ...]
    naive: Callable[..., Outcome]
    down: Count  # model-sized vectors per participating client and round, over all exchanges
    up: Count
    backprops: int  # per local step; with sgd where a client optimiser is accepted
    accepts_client_opt: bool
    exchanges: int = 1
    trainings: int = 1  # in how many of its exchanges a client trains
    down_in_round_0: Count | None = None  # where it is not `down`
    full_batch_passes: Count = 0  # per client and round
    uniform_mean: bool = False  # whatever `weighting` says
    first_round: FirstRound | None = server_lr  # by how many mean updates it moves the model; None: not by a multiple
    pulled: Callable[[Params], bool] = lambda params: False  # a client is pulled somewhere, whatever its loss says
    warns_with_momentum: bool = False  # its formulas use Delta / (K lr)
    client_state: Names = ()
    server_state: Names = ()
    opts: Callable[[Params], Sequence[str]] | None = None  # for a parameter set; None: as `rows` says
    pooled: bool = False  # one client holds everyone's examples and is always asked
    per_tensor: Count = 0  # vectors with one number for each tensor, each way, beside those of the model's size
    scaled: bool = False  # `server_lr` is a factor on the method's own step, and its naive computation knows none

    @property
    def all_params(self) -> tuple[Params, ...]:
        """The parameter sets and, where there is such a factor, one that has it."""
        return (*self.params, {**self.params[0], "server_lr": SERVER_RATE}) if self.scaled else self.params


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
        return CLIENT_OPTS[self.opt].opt if self.opt else None

    @property
    def up(self) -> int:
        return self._of(self.row.up)

    @property
    def per_tensor(self) -> int:
        return self._of(self.row.per_tensor)

    @property
    def pulled(self) -> bool:
        return self.row.pulled(self.params)

    @property
    def client_state(self) -> tuple[str, ...]:
        return self._of(self.row.client_state)

    @property
    def server_state(self) -> tuple[str, ...]:
        return self._of(self.row.server_state)

    def cohorts(self, drawn: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Who takes part in each round."""
        return [(0,)] * len(drawn) if self.row.pooled else drawn

    def clients(self, population: int) -> range:
        """Who there is."""
        return range(1 if self.row.pooled else population)

    def naive(self, setup: Setup) -> Outcome:
        if self.opt is None:
            return self.row.naive(self._scaled(setup), **self._unscaled)
        chosen = CLIENT_OPTS[self.opt]
        opt = chosen.opt.afresh()
        outcome = self.row.naive(self._scaled(setup), opt=opt, **self._unscaled)
        for name in chosen.client_state:
            outcome.client[name] = [opt.memory.get(k, setup.zeros()) for k in self.clients(setup.N)]
        return outcome

    def first_round(self, S: int, N: int) -> float:
        """By how many mean updates the first round moves the model."""
        assert self.row.first_round is not None
        return self._rate * self.row.first_round(self._unscaled, S, N)

    def _scaled(self, setup: Setup) -> Setup:
        return replace(setup, server_rate=self._rate)

    @property
    def _rate(self) -> float:
        return self.params.get("server_lr", 1.0) if self.row.scaled else 1.0

    @property
    def _unscaled(self) -> Params:
        return {n: v for n, v in self.params.items() if not (self.row.scaled and n == "server_lr")}

    def backprops(self, steps: int) -> int:
        """Backprops of one client in one round of `steps` full-batch local steps."""
        per_step = self.row.backprops * (CLIENT_OPTS[self.opt].backprops if self.opt else 1)
        return steps * per_step * self.row.trainings + self._of(self.row.full_batch_passes)

    def down(self, t: int) -> int:
        first = self.row.down_in_round_0
        return self._of(first if t == 0 and first is not None else self.row.down)

    def _of(self, value: Any) -> Any:
        return value(self.params) if callable(value) else value


def admm(params: Params) -> bool:
    return params.get("admm", True)


def vectors_up(params: Params) -> int:
    """Of the methods with control variates: the update, and the change of c unless the server forms it itself."""
    return 2 if params.get("send_dc", True) else 1


def by_entry(params: Params) -> int:
    """Of FedAdamW: whether the second moment has the model's size."""
    return int(params.get("blocks") == "entry")


def lesam_down(first: int) -> Callable[[Params], int]:
    return lambda params: first + (1 if params.get("ascent") == "server" else 0)


def lesam_client(*names: str) -> Callable[[Params], tuple[str, ...]]:
    return lambda params: names if params.get("ascent") == "server" else ("old", "met", *names)


def lesam_server(*names: str) -> Callable[[Params], tuple[str, ...]]:
    return lambda params: ("previous", *names) if params.get("ascent") == "server" else names


def dual_server(*names: str) -> Callable[[Params], tuple[str, ...]]:
    return lambda params: names if params.get("server_dual") == "active" else ("H", *names)


ADAPTIVE: tuple[Params, ...] = (
    {"server_lr": 0.1, "beta1": 0.7, "beta2": 0.8, "tau": 0.05},
    {"server_lr": 0.05, "beta1": 0.7, "beta2": 0.9, "tau": 0.02, "v0": 0.0},
    {"server_lr": 0.2, "v0": 0.01},
)
CORRECTED: tuple[Params, ...] = (
    {"server_lr": 0.1, "beta1": 0.7, "beta2": 0.8, "tau": 0.05, "v0": 0.0, "bias_correction": True},
    {"server_lr": 0.1, "beta2": 0.8, "tau": 0.05, "bias_correction": True},
)

GLOSS_PARAMS: tuple[Params, ...] = (
    {"rho_server": 0.4, "beta": 3.0},
    {"rho_server": 0.4, "beta": 3.0, "dual": "official", "rho_start": 0.01, "rho_warmup": 4},
    {"rho_server": 0.4, "beta": 3.0, "dual": "printed"},
    {"rho_server": 0.4, "admm": False},
    {"rho_server": 0.4, "beta": 3.0, "rho_start": 0.01, "rho_warmup": 4, "rho_server_warmup": "ramp"},
    {"rho_server": 0.4, "beta": 3.0, "rho_start": 0.01, "rho_warmup": 3, "rho_server_warmup": "official"},
)


def gloss_opts(params: Params) -> Sequence[str]:
    """A warm-up needs a client optimiser with a radius; without one nothing warms up."""
    return ("sam", "vasso", "sgd") if "rho_warmup" in params else list(CLIENT_OPTS)


TABLE: tuple[Row, ...] = (
    Row("fedavg", ({"server_lr": 1.0}, {"server_lr": 0.7}), naive.fedavg, 1, 1, 1, True),
    Row("centralised", ({},), naive.centralised, 1, 1, 1, True, uniform_mean=True, pooled=True),
    Row("fedprox", ({"mu": 0.6},), naive.fedprox, 1, 1, 1, True, pulled=lambda params: True, scaled=True),
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
    *(
        Row(id, params, function, 1, 1, 1, True, first_round=None, server_state=("m", "v"))
        for id, params, function in (
            ("fedadam", ADAPTIVE + CORRECTED, naive.fedadam),
            ("fedyogi", ADAPTIVE, naive.fedyogi),
        )
    ),
    Row(
        "fedadagrad",
        (
            {"server_lr": 0.1, "tau": 0.05},
            {"server_lr": 0.05, "beta1": 0.6, "tau": 0.02, "v0": 0.0},
            {"server_lr": 0.2, "v0": 0.01},
        ),
        naive.fedadagrad,
        1,
        1,
        1,
        True,
        first_round=None,
        server_state=("m", "v"),
    ),
    Row(
        "fedadamw",
        (
            {"beta1": 0.6, "beta2": 0.8, "eps": 0.01, "alpha": 0.4},
            {"beta1": 0.7, "beta2": 0.9, "eps": 0.02, "alpha": 0.3, "blocks": "entry"},
            {"beta1": 0.7, "beta2": 0.9, "eps": 0.02, "alpha": 0.0},
        ),
        naive.fedadamw,
        lambda params: 1 + by_entry(params) + (1 if params.get("alpha", 0.5) else 0),
        lambda params: 1 + by_entry(params),
        1,
        True,
        uniform_mean=True,
        warns_with_momentum=True,
        server_state=("d", "v", "steps"),
        per_tensor=lambda params: 1 - by_entry(params),
        scaled=True,
    ),
    Row("fednova", ({},), naive.fednova, 1, 1, 1, True),
    Row("fedsam", ({"rho": 0.3},), naive.fedsam, 1, 1, 2, False, scaled=True),
    Row(
        "fedasam",
        ({"rho": 0.6, "eta": 0.2}, {"rho": 0.6, "eta": 0.3, "tensors": "all"}),
        naive.fedasam,
        1,
        1,
        2,
        False,
        scaled=True,
    ),
    Row(
        "scaffold",
        (
            {"server_lr": 1.0, "option": "II"},
            {"server_lr": 0.8, "option": "I"},
            {"server_lr": 0.8, "send_dc": False},
        ),
        naive.scaffold,
        2,
        vectors_up,
        1,
        True,
        full_batch_passes=lambda params: 1 if params.get("option") == "I" else 0,
        uniform_mean=True,
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
        first_round=all_duals,
        pulled=lambda params: True,
        client_state=("h",),
        server_state=("H",),
        scaled=True,
    ),
    Row(
        "adabest",
        ({"beta": 0.6, "mu": 0.3}, {"beta": 0.7, "mu": 0.8, "mu_scaling": "per-step"}),
        naive.adabest,
        1,
        1,
        1,
        True,
        uniform_mean=True,
        first_round=lambda params, S, N: 1 + params["beta"],
        client_state=("h", "last"),
        server_state=("mean",),
    ),
    Row(
        "fedcm",
        ({"alpha": 0.4}, {"alpha": 1.0}),
        naive.fedcm,
        2,
        1,
        1,
        True,
        uniform_mean=True,
        warns_with_momentum=True,
        server_state=("momentum",),
        scaled=True,
    ),
    Row(
        "fedacg",
        ({"lam": 0.6, "beta": 0.3},),
        naive.fedacg,
        1,
        1,
        1,
        True,
        uniform_mean=True,
        pulled=lambda params: True,
        server_state=("momentum",),
        scaled=True,
    ),
    Row(
        "mimelite",
        ({"beta": 0.6},),
        naive.mimelite,
        2,
        2,
        1,
        True,
        full_batch_passes=1,
        server_state=("momentum",),
        scaled=True,
    ),
    Row(
        "mime",
        ({"beta": 0.6}, {"beta": 0.0}),
        naive.mime,
        3,
        2,
        2,
        False,
        exchanges=2,
        full_batch_passes=1,
        server_state=("momentum",),
        scaled=True,
    ),
    Row(
        "mofedsam",
        ({"rho": 0.3, "beta": 0.4},),
        naive.mofedsam,
        2,
        1,
        2,
        False,
        uniform_mean=True,
        warns_with_momentum=True,
        server_state=("momentum",),
        scaled=True,
    ),
    Row(
        "fedspeed",
        (
            {"rho": 0.3, "alpha": 0.7, "lam": 3.0},
            {"rho": 0.3, "alpha": 0.7, "lam": 3.0, "server_dual": "active"},
            {"rho": 0.8, "alpha": 0.7, "lam": 3.0, "normalise": False},
            {"rho": 0.8, "alpha": 0.0, "lam": 3.0, "normalise": False, "server_dual": "active"},
        ),
        naive.fedspeed,
        1,
        1,
        2,
        False,
        uniform_mean=True,
        first_round=all_duals,
        pulled=lambda params: True,
        client_state=("h",),
        server_state=dual_server(),
        scaled=True,
    ),
    Row(
        "fedgamma",
        ({"rho": 0.3}, {"rho": 0.3, "send_dc": False}),
        naive.fedgamma,
        2,
        vectors_up,
        2,
        False,
        uniform_mean=True,
        warns_with_momentum=True,
        client_state=("c",),
        server_state=("c",),
        scaled=True,
    ),
    Row(
        "fedsmoo",
        tuple(
            {"rho": 0.3, "beta": 3.0, "variant": variant} | extra
            for extra in ({}, {"regularise": False})
            for variant in "ABC"
        ),
        naive.fedsmoo,
        2,
        2,
        2,
        False,
        uniform_mean=True,
        first_round=lambda params, S, N: 1 + S / N if params.get("regularise", True) else 1.0,
        pulled=lambda params: True,
        client_state=lambda params: (*(("h",) if params.get("regularise", True) else ()), "mu"),
        server_state=lambda params: (*(("H",) if params.get("regularise", True) else ()), "s"),
        scaled=True,
    ),
    Row(
        "fedlesam",
        ({"rho": 0.3}, {"rho": 0.3, "ascent": "server"}),
        naive.fedlesam,
        lesam_down(1),
        1,
        1,
        False,
        down_in_round_0=1,
        client_state=lesam_client(),
        server_state=lesam_server(),
        scaled=True,
    ),
    Row(
        "fedlesam-s",
        (
            {"rho": 0.3},
            {"rho": 0.3, "ascent": "server"},
            {"rho": 0.3, "send_dc": False},
            {"rho": 0.3, "ascent": "server", "send_dc": False},
        ),
        naive.fedlesam_s,
        lesam_down(2),
        vectors_up,
        1,
        False,
        down_in_round_0=2,
        uniform_mean=True,
        warns_with_momentum=True,
        client_state=lesam_client("c"),
        server_state=lesam_server("c"),
        scaled=True,
    ),
    Row(
        "fedlesam-d",
        ({"rho": 0.3, "beta": 3.0}, {"rho": 0.3, "beta": 3.0, "ascent": "server"}),
        naive.fedlesam_d,
        lesam_down(1),
        1,
        1,
        False,
        down_in_round_0=1,
        uniform_mean=True,
        first_round=all_duals,
        pulled=lambda params: True,
        client_state=lesam_client("h"),
        server_state=lesam_server("H"),
        scaled=True,
    ),
    Row(
        "fedgf",
        (
            {"rho": 0.3, "rho_global": 0.2, "threshold": 0.35, "window": 2},
            {"rho": 0.3, "c": 0.4},
            {"rho": 0.3, "rho_global": 0.2, "c": 1.0},
            {"rho": 0.3, "rho_global": 0.2, "threshold": 0.35, "window": 3, "share_of": "window"},
        ),
        naive.fedgf,
        2,
        1,
        2,
        False,
        down_in_round_0=1,
        server_state=("c",),
        scaled=True,
    ),
    Row(
        "fedgloss",
        GLOSS_PARAMS,
        naive.fedgloss,
        1,
        1,
        1,
        True,
        first_round=gloss_duals,
        pulled=admm,
        client_state=lambda params: ("sigma",) if admm(params) else (),
        server_state=lambda params: ("sigma",) if admm(params) else (),
        opts=gloss_opts,
        scaled=True,
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
        trainings=2,
        # a probe pass is itself moved by the weight decay, and with it the model of the second pass
        first_round=None,
        pulled=admm,
        client_state=lambda params: ("sigma",) if admm(params) else (),
        server_state=lambda params: ("sigma",) if admm(params) else (),
        opts=gloss_opts,
        scaled=True,
    ),
    Row(
        "fedgmt",
        (
            {"alpha": 0.8, "gamma": 1.5, "tau": 2.0, "beta": 3.0},
            {"alpha": 0.8, "gamma": 1.5, "tau": 2.0, "beta": 3.0, "server_dual": "active"},
        ),
        naive.fedgmt,
        2,
        1,
        1,
        False,
        first_round=all_duals,
        pulled=lambda params: True,
        client_state=("h",),
        server_state=dual_server("teacher"),
    ),
    Row(
        "fedwmsam",
        (
            {"rho": 0.3, "alpha": 0.4, "lam": 0.3},
            {"rho": 0.3, "alpha": 0.4, "lam": 0.3, "perturb_sign": -1},
            {"rho": 0.3, "alpha": 0.6, "lam": 0.2, "control": False},
            {"rho": 0.0, "alpha": 1.0, "lam": 0.0},
            {"rho": 0.3, "alpha": 0.4, "lam": 0.3, "reading": "poster"},
            {"rho": 0.3, "alpha": 0.6, "lam": 0.2, "control": False, "reading": "poster"},
        ),
        naive.fedwmsam,
        2,
        1,
        1,
        False,
        uniform_mean=True,
        warns_with_momentum=True,
        server_state=lambda params: ("momentum", "alpha", *(("c",) if params.get("control", True) else ())),
        scaled=True,
    ),
    Row(
        "fedvssam",
        (
            {"rho": 0.3, "mix_local": 0.6, "mix_global": 0.7, "server_lr": 0.8},
            {"rho": 0.3, "mix_local": 0.6, "mix_global": 0.7, "mix_perturb": 0.2},
            {"rho": 0.3, "mix_local": 0.6, "mix_global": 0.7, "mix_update": 0.3},
            {"rho": 0.3, "mix_perturb": 1.0, "mix_update": 0.8, "mix_global": 1.0},
        ),
        naive.fedvssam,
        2,
        1,
        2,
        False,
        uniform_mean=True,
        first_round=lambda params, S, N: params.get("server_lr", 1.0) * params["mix_global"],
        warns_with_momentum=True,
        server_state=("d",),
    ),
)


def rows(all_params: bool = True, all_opts: bool = True) -> list[Case]:
    """Every row with its parameter sets and client optimisers, or only the first of each.

    Where the row does not say otherwise, its first parameter set meets every client optimiser, the others two, and one
    that only adds a server rate one.
    """
    return [
        Case(row, params, opt)
        for row in TABLE
        for params in (row.all_params if all_params else row.params[:1])
        for opt in (opts_of(row, params) if all_opts else opts_of(row, params)[:1])
    ]


def opts_of(row: Row, params: Params) -> Sequence[str | None]:
    """The client optimisers that a parameter set meets; None alone for a method that takes none."""
    if not row.accepts_client_opt:
        return [None]
    if row.opts is not None:
        return row.opts(params)
    if params is row.params[0]:
        return list(CLIENT_OPTS)
    return ["sgd", "sam"] if params in row.params else ["sgd"]
