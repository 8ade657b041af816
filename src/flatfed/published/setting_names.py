"""What a table's data set and partition are called here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatfed.published.numbers import PublishedValue

Named = Mapping[str, Any]

DATASETS: dict[str, tuple[str, dict[str, str]]] = {
    "cifar100-pam": ("cifar100", {}),
    "dbpedia-14": ("dbpedia14", {}),
    "idda-country": ("idda", {"scenario": "country"}),
    "idda-rainy": ("idda", {"scenario": "rainy"}),
}
"""Data sets of the tables that have another id here, each with the options that make it the same one."""

LISTS = {"domain": "heterogeneous", "uniform": "uniform"}
"""The lists of clients of street scenes, by what the tables call the division."""

STREET_SCENES = ("cityscapes", "idda")

PER_CLASS = ("fedwmsam",)
"""Papers whose concentration is that of each class, not the total over all classes."""

TOTAL_BY_CLASS = ("fedgf",)
"""Papers that print the share of each class in a concentration that their code gives in total."""

CLASSES = {"cifar10": 10, "cifar100": 100}
"""How many classes the data sets of these papers have."""

CENTRALISED = "centralized"
"""The partition of the tables that is none: all examples lie in one place."""

NOT_HERE = {
    CENTRALISED: "no partition: the method `centralised` trains on all examples whatever the partition",
    "moderate": "the number behind the word is not known",
    "severe": "the number behind the word is not known",
}
"""Partitions, and values of them, that name no rule here, each with the reason."""


def data_of(value: PublishedValue) -> tuple[str, dict[str, str]]:
    """Return the data set of a cell by its id here, with the options that the cell fixes."""
    name, options = DATASETS.get(value.dataset, (value.dataset, {}))
    if name in STREET_SCENES and value.partition in LISTS:
        return name, options | {"lists": LISTS[value.partition]}
    target = _extra(value, "target_domain")
    if target:
        return name, options | {"target": target}
    return name, options


def partition_of(value: PublishedValue) -> Named | None:
    """Return the partition of a cell as a configuration: the id and the parameter that the table gives.

    None where no rule here can be named: the table does not state it, or gives a word in the place of a number.
    """
    if value.partition in ("user", "domain"):
        return {"id": "natural"}
    if value.partition == "uniform":
        # Street scenes: the lists of clients say who holds what, also where they are uniform.
        return {"id": "natural"}
    number = _as_number(value.partition_value)
    if number is None:
        return None
    if value.partition == "dirichlet" and value.paper in PER_CLASS:
        return {"id": "dirichlet-per-class", "beta": number}
    if value.partition == "dirichlet" and value.paper in TOTAL_BY_CLASS:
        if value.dataset not in CLASSES:
            return None
        return {"id": "dirichlet", "alpha": number * CLASSES[value.dataset]}
    parameter = {"dirichlet": "alpha", "pam": "alpha", "pathological": "classes_per_client"}.get(value.partition)
    if parameter is None:
        return None
    return {"id": value.partition, parameter: number}


def _as_number(text: str) -> float | None:
    """Return a partition's value; None for the words that some tables have in its place."""
    if not text or text in NOT_HERE:
        return None
    return float(text)


def _extra(value: PublishedValue, name: str) -> str:
    """Return what stands behind `name=` among the extras, or nothing."""
    for word in value.extras:
        key, _, text = word.partition("=")
        if key == name:
            return text
    return ""


def same_name(first: str, second: str) -> bool:
    """Say whether two names are the same but for case and separators: `Real World` and `real_world`."""
    return _plain(first) == _plain(second)


def _plain(name: str) -> str:
    return name.lower().translate(str.maketrans("", "", " -_"))
