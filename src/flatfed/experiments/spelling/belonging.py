"""Options that say something of others only: given without these, they would have no effect, so they are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import OTHER, PARAMETER, ConfigError
from flatfed.experiments.spelling.declared import OPTIONS


@dataclass(frozen=True)
class Belonging:
    """What an option belongs to: it has an effect where one of `to` is given; `text` says it to people."""

    to: tuple[str, ...]
    text: str


BELONGING: Mapping[str, Belonging] = {
    "monitor": Belonging(
        ("patience", "keep_best", "lr_plateau"),
        f"{PARAMETER} is what {OTHER}, the best model that is kept or a plateau of the learning rate goes by; add one "
        "of these, or leave it out",
    ),
    "min_delta": Belonging(("patience",), f"{PARAMETER} has no effect without {OTHER}; add that, or leave it out"),
    "validation_split": Belonging(
        ("validation",),
        f"{PARAMETER} says how a share for {OTHER} is held out; give such a share, 0.1 say, or leave it out",
    ),
}


def refuse_idle(given: Mapping[str, Any], every: Mapping[str, Any]) -> None:
    """Refuse those among the options that somebody gives that belong to none of all that there are."""
    for name, belonging in BELONGING.items():
        if given.get(name) is not None and not any(_is_asked_for(every.get(other)) for other in belonging.to):
            raise ConfigError(belonging.text, parameter=name, other=belonging.to[0])


def unusual(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that say something else than would hold without them."""
    return {name: values[name] for name in BELONGING if name in values and values[name] != OPTIONS[name].default}


def _is_asked_for(value: Any) -> bool:
    # Not by equality: examples of one's own are tensors.
    return value is not None and value is not False
