"""What a paper chose for a value: training settings and parameters of the method, by their place in a run's record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flatfed.published.lookup import ALL, with_whole
from flatfed.published.numbers import PublishedParameter, PublishedValue, parameters
from flatfed.published.setting_names import CENTRALISED, LISTS

START = "average.start"
"""Given as a round in the papers, and as a share of the rounds here."""

CODE = "official code release"
"""How the source of a choice begins that stands in the authors' code and not in the paper."""

PLACES = {
    (ALL, "client_lr"): "settings.lr",
    (ALL, "batch_size"): "settings.batch_size",
    (ALL, "weight_decay"): "settings.weight_decay",
    (ALL, "client_momentum"): "settings.momentum",
    (ALL, "lr_decay_per_round"): "settings.lr_decay",
    ("adabest", "beta"): "algorithm.beta",
    ("adabest", "mu"): "algorithm.mu",
    ("fedasam", "rho"): "algorithm.rho",
    ("fedasam", "eta"): "algorithm.eta",
    ("fedavg", "server_lr"): "algorithm.server_lr",
    ("fedavgm", "server_momentum"): "algorithm.server_momentum",
    ("feddyn", "alpha"): "algorithm.alpha",
    ("feddyn", "rho (SAM-based only)"): "algorithm.client_opt.rho",
    ("fedgamma", "rho"): "algorithm.rho",
    ("fedgf", "window W"): "algorithm.window",
    ("fedgloss", "rho_s"): "algorithm.rho_server",
    ("fedgloss", "rho"): "algorithm.client_opt.rho",
    ("fedgloss", "beta"): "algorithm.beta",
    ("fedgloss", "T_s"): "algorithm.rho_warmup",
    ("fedprox", "mu"): "algorithm.mu",
    ("fedsam", "rho"): "algorithm.rho",
    ("fedsmoo", "rho"): "algorithm.rho",
    ("fedsmoo", "beta"): "algorithm.beta",
    ("fedspeed", "rho"): "algorithm.rho",
    ("fedspeed", "alpha"): "algorithm.alpha",
    ("fedspeed", "lambda"): "algorithm.lam",
    ("fedwmsam", "rho"): "algorithm.rho",
    ("mofedsam", "rho"): "algorithm.rho",
    ("swa", "cycle_length_c"): "average.cycle",
    ("swa", "gamma_2"): "average.lr_low",
    ("swa", "start_round"): START,
}
"""Parameters by method and by name in the papers, and where a run's record has them; others have no place there."""


@dataclass(frozen=True)
class PaperChoice:
    """One number that a paper chose: its place in a run's record, and whether only the authors' code tells it."""

    place: str
    number: float
    from_code: bool


def choices_for(value: PublishedValue) -> Iterator[PaperChoice]:
    """Yield what was chosen for the run behind a value, as far as it is one number and known."""
    # What papers give is for federated training.
    if value.partition == CENTRALISED:
        return
    names = {ALL, value.algorithm, *value.extras}
    data = with_whole({value.dataset})
    for entry in parameters():
        if _is_about(entry, value, data):
            for name in sorted(names.intersection(entry.methods)):
                yield from _choice(name, entry, value)


def _is_about(entry: PublishedParameter, value: PublishedValue, data: set[str]) -> bool:
    if entry.paper != value.paper or entry.data not in data or entry.model not in ("", value.model):
        return False
    return entry.condition in ("", f"alpha={value.partition_value}", f"({LISTS.get(value.partition)})")


def _choice(name: str, entry: PublishedParameter, value: PublishedValue) -> Iterator[PaperChoice]:
    place, number = PLACES.get((name, entry.parameter)), _number(entry.chosen)
    if place is None or number is None:
        return
    if place == START:
        number = number / (value.rounds or number)
        if number > 1:  # FedSAM gives 15000 for a training of 10000 rounds
            return
    yield PaperChoice(place, number, entry.chosen_source.startswith(CODE))


def _number(text: str) -> float | None:
    """Return the number chosen; None where it is not known, or not one number."""
    try:
        return float(text)
    except ValueError:
        return None
