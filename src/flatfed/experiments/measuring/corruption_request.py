"""Which corruptions of a run's test images are asked for, and which are still to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.data.corruptions import corruptions, find, has_published
from flatfed.reports.robustness.one_run import Robustness
from flatfed.runs.directory import RunDirectory

SEVERITIES = (1, 2, 3, 4, 5)
PUBLISHED, GENERATED = "published", "generated"


@dataclass(frozen=True)
class CorruptionRequest:
    """What is asked for, and where the images come from.

    Attributes:
        names: of the corruptions.
        severities: in ascending order.
        sources: for each corruption whether its images are `published` or are `generated` here.
        data_dir: where the published ones lie.
    """

    names: list[str]
    severities: list[int]
    sources: dict[str, str]
    data_dir: str | Path | None

    @classmethod
    def of_run(
        cls,
        directory: RunDirectory,
        severities: Sequence[int],
        names: Sequence[str] | None,
        data_dir: str | Path | None,
    ) -> CorruptionRequest:
        """Return the request for a run; a severity or a corruption that there is not is refused."""
        chosen = corruption_names(names)
        _check(severities)
        recipe = directory.config["task"]
        place = data_dir or recipe.get("data_dir")
        dataset = _published_dataset(recipe)
        sources = {name: _source(dataset, name, place) for name in chosen}
        return cls(chosen, sorted(set(severities)), sources, place)

    def missing(self, known: Robustness) -> dict[str, list[int]]:
        """Return the corruptions still to be measured, each with its severities."""
        left = {name: self._severities_left(name, known) for name in self.names}
        return {name: severities for name, severities in left.items() if severities}

    def _severities_left(self, name: str, known: Robustness) -> list[int]:
        if self._is_left_out(name, known):
            return []
        source = self.sources[name]
        done = {(cell.corruption, cell.source, cell.severity) for cell in known.cells}
        return [severity for severity in self.severities if (name, source, severity) not in done]

    def _is_left_out(self, name: str, known: Robustness) -> bool:
        """Say whether a corruption did not suit the images: it will not suit them now, but published ones may."""
        return name in known.skipped and self.sources[name] == GENERATED


def _check(severities: Sequence[int]) -> None:
    for severity in severities:
        if severity not in SEVERITIES:
            raise ConfigError(f"severity must be 1 to 5, not {severity!r}")


def _source(dataset: str, name: str, data_dir: str | Path | None) -> str:
    return PUBLISHED if has_published(dataset, name, data_dir) else GENERATED


def corruption_names(names: Sequence[str] | None) -> list[str]:
    """Return corruptions by their full names; None is all of them."""
    if names is None:
        return list(corruptions())
    return [find(name).name for name in names]


def corruptions_named(text: str | None) -> list[str] | None:
    """Return the corruptions that people name, with commas between them; None is all of them."""
    if text is None:
        return None
    # Files are called with underscores, and people type dashes.
    return corruption_names([name.strip().replace("-", "_") for name in text.split(",")])


def _published_dataset(recipe: dict[str, Any]) -> str:
    """Return the data set whose corruptions may be published; the published labels are CIFAR-100's fine ones."""
    if recipe.get("data_options", {}).get("labels") == "coarse":
        return ""
    return str(recipe.get("dataset", ""))
