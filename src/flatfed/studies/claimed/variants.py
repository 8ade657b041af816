"""Which variant of a study is the method that a claim names.

`fedgloss(rho_server=0.2)+sam` is a `fedgloss+sam` like any other: a paper too sets its parameters. What makes another
method of it is not: `fedgloss(admm=false)+sam` is only what a claim calls so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError
from flatfed.published.method_names import one_spelling

BRACKETS = re.compile(r"\(([^()]*)\)")
MAKES_ANOTHER = {
    "fedgloss": ("admm",),
    "naivefedgloss": ("admm",),
    "fedsmoo": ("regularise",),
    "fedgf": ("c",),
    "fedwmsam": ("lam", "control"),
    "fedvssam": ("mix_local", "mix_global", "mix_perturb", "mix_update"),
}
"""Parameters that make another method of one, where a claim does not name them."""
SWITCHES_OFF = {"rho": 0, "rho_server": 0}
"""Values that take from a method what it is about."""

Parameters = dict[str, object]


def find_variants(methods: Sequence[str], variants: Mapping[str, str]) -> dict[str, str]:
    """Return the variants that a claim's methods are; one that would be two of them is only what it is spelled as."""
    found = {method: find_variant(method, variants) for method in methods}
    times = Counter(found.values())
    return {
        method: variant
        for method, variant in found.items()
        if variant is not None and (times[variant] == 1 or taken_apart(variants[variant]) == taken_apart(method))
    }


def find_variant(method: str, variants: Mapping[str, str]) -> str | None:
    """Return the variant that a claim's method is, by the spellings of all; None where none or several are it."""
    fitting = [name for name, spelling in variants.items() if _is(spelling, method)]
    exact = [name for name in fitting if taken_apart(variants[name]) == taken_apart(method)]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    return None


def _is(spelling: str, method: str) -> bool:
    name, given = taken_apart(spelling)
    wanted_name, wanted = taken_apart(method)
    if name != wanted_name:
        return False
    if any(key not in given or given[key] != value for key, value in wanted.items()):
        return False
    if any(given.get(key) == value and key not in wanted for key, value in SWITCHES_OFF.items()):
        return False
    algorithm = name.partition("+")[0]
    return not any(key in given and key not in wanted for key in MAKES_ANOTHER.get(algorithm, ()))


def taken_apart(spelling: str) -> tuple[str, Parameters]:
    """Return the name without brackets, and all that stands in them."""
    given: Parameters = {}
    for inside in BRACKETS.findall(spelling):
        for entry in inside.split(","):
            key, _, text = entry.partition("=")
            given[key.strip()] = _read(text.strip())
    return one_spelling(BRACKETS.sub("", spelling)), given


def _read(text: str) -> object:
    try:
        value: object = read_yaml(text)
    except ConfigError:
        return text
    return value
