"""What to cite: flatfed, and the papers of the methods, client optimisers and weight averages that were used."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from flatfed import __version__
from flatfed.reports.results.result import Result, all_runs

FLATFED = f"flatfed {__version__}: sharpness-aware federated learning in Python on PyTorch (Apache-2.0)."


def references(results: Sequence[Result]) -> list[dict[str, str]]:
    """Return what to cite, each paper once with what it is cited for; methods of the user's own have none here."""
    return references_of([run.config for run in all_runs(results)])


def references_of(configs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the same for the records of runs."""
    cited: dict[str, list[str]] = {}
    for id in dict.fromkeys(_ids(configs)):
        text = _papers().get(id)
        if text is not None:
            cited.setdefault(text, []).append(id)
    papers = [{"of": ", ".join(ids), "text": text} for text, ids in cited.items()]
    return [{"of": "flatfed", "text": FLATFED}, *papers]


def _ids(configs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the ids of all that was used."""
    for config in configs:
        algorithm = config["algorithm"]
        for part in (algorithm, algorithm.get("client_opt"), config["average"]):
            if isinstance(part, dict) and isinstance(part.get("id"), str):
                yield part["id"]


@functools.cache
def _papers() -> dict[str, str]:
    text = files("flatfed.reports.page").joinpath("files/references.csv").read_text(encoding="utf-8")
    return {row["id"]: row["reference"] for row in csv.DictReader(text.splitlines())}
