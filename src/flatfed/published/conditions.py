"""What the extras of a cell say: parameters of the method, augmentation, the moment of the value, and remarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flatfed.published.method_names import AVERAGES, PREVIOUS_GRADIENT
from flatfed.published.numbers import PublishedValue

AUGMENTATIONS = ("mixup", "cutout")
USUAL: dict[str, Any] = {"algorithm.admm": True, "algorithm.regularise": True, "algorithm.c": None}
"""Parameters by their place in a run's record, with what a table means where it says nothing of them."""

IMPLIED = (
    *(PREVIOUS_GRADIENT, "static", "bar_label", "rho_not_used", *AVERAGES, *AUGMENTATIONS),
    # FedWMSAM's ablation: its switches are parameters, and with SAM the radius is the usual one.
    *("ablation", "sam=yes"),
)
"""Words that say nothing further about a cell: how it was read, or what its method's spelling says already."""

IMPLIED_NAMES = ("server_opt", "column_rho", "target_domain", "test", "eval_at")
"""The same for `name=...`: said by the method, the data set, the test set or the moment."""

WORDS: dict[str, tuple[str, Any]] = {
    "no_dynamic_regulariser": ("algorithm.regularise", False),
    "c=adaptive": ("algorithm.c", None),
    "momentum=yes": ("algorithm.control", True),
    "momentum=no": ("algorithm.control", False),
    "weighted=yes": ("algorithm.lam", 0.01),
    "weighted=no": ("algorithm.lam", 0.0),
    "sam=no": ("algorithm.rho", 0.0),
}
"""Words that set a parameter, with its place in a run's record."""

NUMBERS = {"rho": "algorithm.rho", "server_lr": "algorithm.server_lr", "c": "algorithm.c"}
"""Names that set a parameter to a number, with its place in a run's record."""

YES = {"yes": True, "no": False}


@dataclass(frozen=True)
class Conditions:
    """Under which conditions a cell holds, besides its setting.

    Attributes:
        parameters: values by their place in a run's record: `algorithm.rho`, `average.cycle`.
        augmentation: mixup, cutout, or none of them.
        share: of the rounds, after which the value was taken.
        test: the test set where there are several: `seen` or `unseen`.
        remarks: what flatfed has no name for.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    augmentation: tuple[str, ...] = ()
    share: float = 1.0
    test: str = ""
    remarks: tuple[str, ...] = ()


def conditions_of(value: PublishedValue) -> Conditions:
    """Take the extras of a cell apart."""
    parameters, remarks = dict(USUAL), []
    for word in value.extras:
        place = _parameter(word, value)
        if place is not None:
            parameters |= place
        elif not _is_implied(word):
            remarks.append(word.replace("_", " "))
    return Conditions(
        parameters,
        tuple(word for word in value.extras if word in AUGMENTATIONS),
        moment_of(value),
        _behind("test", value),
        tuple(remarks),
    )


def _parameter(word: str, value: PublishedValue) -> dict[str, Any] | None:
    """Return the parameter that a word sets, by its place; None for a word that sets none."""
    if word in WORDS:
        place, setting = WORDS[word]
        return {place: setting}
    name, _, text = word.partition("=")
    if name == "admm":
        return {"algorithm.admm": YES[text]}
    if name in NUMBERS:
        return {NUMBERS[name]: float(text)}
    if "swa" in value.extras:
        return _of_average(name, text, value)
    return None


def _of_average(name: str, text: str, value: PublishedValue) -> dict[str, Any] | None:
    """Return a parameter of SWA: its cycle in rounds, or its start as a share of the rounds."""
    if name == "cycle":
        return {"average.cycle": float(text)}
    if name == "swa_start":
        return {"average.start": _percent(text)}
    if name == "swa_start_round" and value.rounds:
        return {"average.start": float(text) / value.rounds}
    return None


def _is_implied(word: str) -> bool:
    return word in IMPLIED or word.partition("=")[0] in IMPLIED_NAMES


def moment_of(value: PublishedValue) -> float:
    """Return the moment of a value: `eval_at=50%_of_rounds` is 0.5."""
    text = _behind("eval_at", value)
    if not text:
        return 1.0
    return _percent(text.partition("_")[0])


def rounds_at(value: PublishedValue) -> int | None:
    """Return after how many rounds a value was measured; None where that is not stated."""
    return None if value.rounds is None else round(value.rounds * moment_of(value))


def _percent(text: str) -> float:
    return float(text.removesuffix("%")) / 100


def _behind(name: str, value: PublishedValue) -> str:
    return next(_texts(name, value), "")


def _texts(name: str, value: PublishedValue) -> Iterator[str]:
    for word in value.extras:
        key, _, text = word.partition("=")
        if key == name:
            yield text
