"""One table or figure of a paper: what it shows, and the study that makes it, at three scales."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from flatfed.core.errors import ConfigError, nearest
from flatfed.studies.parts import Way
from flatfed.studies.presets.merging import merged, merged_in_each_setting
from flatfed.studies.presets.smoke import smoke_of
from flatfed.studies.reading import study_of
from flatfed.studies.study import Study

Scale = Literal["paper", "small", "smoke"]
SCALES: tuple[Scale, ...] = get_args(Scale)
USUAL: Scale = "small"
SMOKE_NOTE = (
    "synthetic data in the place of the real ones, 2 rounds, 1 seed, a tiny network, few clients and examples; it "
    "shows that everything runs, and no number of it means anything"
)
SAME = "nothing: the paper's own scale is small enough"


def scale_named(name: str | None) -> Scale:
    """Return the scale of a name; the usual one where none is given."""
    for scale in SCALES:
        if scale == name:
            return scale
    if name is None:
        return USUAL
    raise ConfigError(nearest(name, SCALES, "scale"))


@dataclass(frozen=True)
class Preset:
    """A table or figure of a paper.

    Args:
        paper: the id of the paper.
        item: `table-3`, `fig-7`.
        source: the paper, for people.
        shows: what it shows.
        study: the study at the paper's own scale, as a file would hold it; empty where there is nothing to run.
        nothing: why there is nothing to run; empty where there is a study.
        not_stated: what the paper does not state, and what was chosen.
        small: what is laid over the study at small scale.
        each_setting: what is then laid over each of its settings.
        note: how the small scale differs from the paper.
    """

    paper: str
    item: str
    source: str
    shows: str
    study: Mapping[str, Any] = field(default_factory=dict)
    nothing: str = ""
    not_stated: tuple[str, ...] = ()
    small: Mapping[str, Any] = field(default_factory=dict)
    each_setting: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def id(self) -> str:
        """What people call it: `fedgloss/table-3`."""
        return f"{self.paper}/{self.item}"

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales at which it can be run."""
        return () if self.nothing else SCALES

    def folder(self, scale: Scale) -> str:
        """Return the usual name of its folder."""
        return f"{self.paper}-{self.item}-{scale}"

    def title(self, scale: Scale) -> str:
        """Return the title of its reports, which says what it is not."""
        words = {"paper": "", "small": ", at small scale", "smoke": ", smoke test on synthetic data"}
        return f"{self.id}{words[scale]}: {self.shows}"

    def differences(self, scale: Scale) -> str:
        """Return how a scale differs from the paper; empty at the paper's own."""
        if scale == "paper":
            return ""
        if scale == "smoke":
            return SMOKE_NOTE
        return self.note or SAME

    def content(self, scale: Scale) -> dict[str, Any]:
        """Return the study as a file would hold it."""
        if self.nothing:
            raise ConfigError(f"{self.id} has nothing to run: {self.nothing}")
        content = copy.deepcopy(dict(self.study))
        if scale != "paper":
            content = merged_in_each_setting(merged(content, self.small), self.each_setting)
        if scale == "smoke":
            content = smoke_of(content)
        return {**content, "title": self.title(scale)}

    def resolved(self, scale: Scale) -> Study:
        """Return the study, or all that is wrong with it."""

        def place(way: Way) -> str:
            return f"{self.id} at {scale} scale, {'.'.join(way) or 'study'}"

        return study_of(self.content(scale), place)

    def record(self, scale: Scale) -> dict[str, Any]:
        """Return what is kept beside the results, ready for JSON."""
        return {
            "preset": self.id,
            "source": self.source,
            "shows": self.shows,
            "scale": scale,
            "differs from the paper": self.differences(scale),
            "not stated": list(self.not_stated),
        }
