"""What a table's method is called here: algorithm, client optimiser and extras of a cell as one spelling.

`feddyn` with `sam` is `feddyn+sam`, `fedasam` with the extra `swa` is `fedasam+swa`. Written without the registry of
methods, so that looking up needs no torch; a test holds it against that registry.
"""

from __future__ import annotations

from flatfed.published.numbers import PublishedValue

OWN_GRADIENT = frozenset(
    (
        *("fedsam", "fedasam", "mofedsam", "fedspeed", "fedgamma", "fedsmoo", "fedgmt", "fedgf"),
        *("fedlesam", "fedlesam-s", "fedlesam-d", "fedwmsam", "fedvssam"),
    )
)
"""Methods with a way of their own to the gradient: they take no client optimiser."""

OTHER_NAMES = {"centralized": "centralised"}
"""Methods of the tables that have another id here."""

NOT_HERE = {
    "silobn": "no method but local statistics of BatchNorm under any method: fedavg with --local-layers bn-stats",
}
"""Methods of the tables that have no spelling here, each with the reason."""

SAME = {"fedavg+sam": "fedsam", "fedavg+asam": "fedasam"}
"""Two spellings of one thing, and the one that tables use."""

AVERAGES = ("swa", "wima")
PREVIOUS_GRADIENT = "prev_gradient_approx"
"""The extra of SAM along the gradient of the step before, `sam-prev` here."""


def spelling_of(value: PublishedValue) -> str | None:
    """Return the method of a cell as flatfed spells it; None for what has no spelling (`NOT_HERE`)."""
    if value.algorithm in NOT_HERE:
        return None
    algorithm = OTHER_NAMES.get(value.algorithm, value.algorithm)
    averages = [word for word in value.extras if word in AVERAGES]
    return one_spelling("+".join([algorithm, *_optimiser(value), *averages]))


def _optimiser(value: PublishedValue) -> list[str]:
    """Return the suffix of the client optimiser, if the method's name has one."""
    if value.algorithm in OWN_GRADIENT or value.client_opt in ("", "sgd"):
        return []
    if PREVIOUS_GRADIENT in value.extras:
        return ["sam-prev"]
    return [value.client_opt]


def one_spelling(text: str) -> str:
    """Return a spelling as the tables have it: `fedavg+sam+swa` is `fedsam+swa`, a plain `+sgd` is left out."""
    parts = [part.strip() for part in text.lower().split("+")]
    parts = [OTHER_NAMES.get(parts[0], parts[0]), *parts[1:]]
    parts = [part for part in parts if part != "sgd"]
    pair = "+".join(parts[:2])
    if pair in SAME:
        parts = [SAME[pair], *parts[2:]]
    return "+".join(parts)


def name_of(value: PublishedValue) -> str:
    """Return the method of a cell for people: its spelling, or what the table calls it."""
    return spelling_of(value) or "+".join(filter(None, (value.algorithm, value.client_opt.removeprefix("sgd"))))
