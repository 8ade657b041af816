"""A setting in words, as its runs recorded it: data, how they are divided, clients, rounds, network, learning rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flatfed.runs.directory import RunDirectory
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.reporting.study_runs import setting_name

DATA_NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "dbpedia14": "DBpedia-14",
    "fashion-mnist": "Fashion-MNIST",
}
"""Data sets as people write them, where that is not their id."""
CONCENTRATIONS = {"dirichlet": ("alpha", "in total"), "dirichlet-per-class": ("beta", "per class")}
"""Rules with a concentration: its parameter, and what it is of."""

Record = Mapping[str, Any]


def data_words(study: PublishedStudy, setting: str) -> str:
    """Return the data and how they are divided, `CIFAR-10, one class per client`; the name where no run has ended."""
    described = study.described(setting)
    data = described.get("data", {}).get("name")
    if not data:
        return setting_name(setting)
    return ", ".join(filter(None, (DATA_NAMES.get(data, data), _division(described))))


def _division(described: Record) -> str:
    """Say how examples are divided: by the rule, or where it is a file's, by the classes that clients have."""
    rule, classes = described.get("partition") or {}, described.get("clients", {}).get("classes") or {}
    if rule.get("id") == "iid" or not classes:
        return str(rule.get("id", "")).replace("iid", "IID")
    if classes["max"] == 1:
        return "one class per client"
    if rule.get("id") in CONCENTRATIONS:
        parameter, of = CONCENTRATIONS[rule["id"]]
        return f"Dirichlet {rule[parameter]:g} {of}"
    if classes["min"] == classes["max"]:
        return f"{classes['max']} classes per client"
    return f"{classes['mean']:.1f} of {described['data']['classes']} classes per client on average"


def setting_words(study: PublishedStudy, setting: str) -> str:
    """Return the same with clients and rounds: `CIFAR-10, one class per client, 5 of 100 clients, 500 rounds`."""
    record = next(_records(study, setting), None)
    if record is None:
        return setting_name(setting)
    return ", ".join([data_words(study, setting), _clients(record), _length(record["settings"])])


def _clients(record: Record) -> str:
    """Say how many clients take part in a round."""
    count, of = record["sampler"].get("count"), record["setting"]["clients"]["count"]
    return f"{count} of {of} clients" if count else f"{of} clients"


def _length(settings: Record) -> str:
    """Say for how many rounds a run trains, and of how many epochs where that is not one."""
    rounds, epochs = f"{settings['rounds']:,} rounds", settings.get("local_epochs") or 1
    return rounds if epochs == 1 else f"{rounds} of {epochs} epochs"


def network_words(study: PublishedStudy, setting: str) -> str:
    """Return the network with its size: `cnn-patches, 36,346 parameters`; nothing where no run has ended."""
    model = study.described(setting).get("model")
    return f"{model['name']}, {model['parameters']:,} parameters" if model else ""


def rate_words(study: PublishedStudy, setting: str) -> str:
    """Return the learning rates that methods have, `0.03 or 0.1`, and whether they were searched for each method."""
    rates = sorted({str(record["settings"]["lr"]) for record in _records(study, setting)})
    searched = any("lr" in names for names in (*study.study.grid.values(), *study.study.tune.values()))
    text = " or ".join(rates)
    return f"{text}, searched for each method" if searched else text


def _records(study: PublishedStudy, setting: str) -> Iterator[Record]:
    """Yield the record of a run of each variant in a setting, as far as they have ended."""
    for (of, _), runs in study.table.runs.items():
        if of == setting:
            yield RunDirectory.open(next(iter(runs.values()))).config
