"""A figure that a study's file asks for: what it draws, with which options, of which methods and settings."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.errors import nearest
from flatfed.experiments.spelling.declared import RunOption
from flatfed.experiments.spelling.measured import EMBEDDING, FLATNESS, LANDSCAPE, ROBUSTNESS, RUNS

Fault = tuple[tuple[str, ...], str]
"""The way to an entry of a study, and what is wrong with it."""

CLASSES = "class-distribution"
DRAWN: Mapping[str, Mapping[str, RunOption]] = {
    "landscape": LANDSCAPE,
    "flatness": FLATNESS,
    "embedding": EMBEDDING,
    "robustness": ROBUSTNESS,
    CLASSES: {},
}
"""What can be drawn, each with its options."""
PARTS = ("contours", "own", "everyone", "loss", "error", "along", "accuracy", "client")
"""With what the names of further pictures of a figure go on."""
LONGEST_BYTES = 180
"""Bytes of a picture's name: systems take 255 with what follows, and with what is added for a while."""


@dataclass(frozen=True)
class Figure:
    """A figure.

    Args:
        draw: what it shows: one of `DRAWN`.
        options: those of the command that draws it, as far as they are given.
        methods: whose runs; all where there is none.
        settings: a picture for each; all where there is none.
        seeds: a picture for each; the first of the study where there is none.
    """

    draw: str
    options: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    @classmethod
    def recorded(cls, content: Mapping[str, Any]) -> Figure:
        """Return a figure from a study's record."""
        methods, settings = tuple(content["methods"]), tuple(content["settings"])
        return cls(content["draw"], content["options"], methods, settings, tuple(content.get("seeds", ())))

    @property
    def values(self) -> dict[str, Any]:
        """All options, with defaults."""
        declared = {name: option.default for name, option in DRAWN[self.draw].items()}
        return declared | {name: value for name, value in self.options.items() if value is not None}

    @property
    def runs(self) -> tuple[int, float, str]:
        """How many runs a picture takes, at least and at most, and in words."""
        if self.draw == "landscape":
            return RUNS[self.values["kind"]]
        return RUNS["surface"]

    @property
    def is_of_one_run(self) -> bool:
        """Whether each method has a picture of its own."""
        return self.runs[1] == 1

    def faults(self, methods: Sequence[str], settings: Sequence[str], seeds: Sequence[int]) -> Iterator[Fault]:
        """Yield what is wrong with it in a study of these methods, settings and seeds; ways begin here."""
        if self.draw not in DRAWN:
            yield ("draw",), nearest(self.draw, DRAWN, "drawing")
            return
        yield from _unknown(self.methods, methods, "method")
        yield from _unknown(self.settings, settings, "setting")
        yield from _unknown([str(seed) for seed in self.seeds], [str(seed) for seed in seeds], "seed")
        if self.draw == CLASSES and self.methods:
            yield ("methods",), "all methods have the same examples; leave methods out"
        least, most, words = self.runs
        count = len(self.methods or methods)
        if not self.is_of_one_run and not least <= count <= most:
            kind = self.values["kind"]
            yield ("methods",), f"a landscape of kind {kind} takes {words}, not {count}; name as many methods"


def _unknown(chosen: Sequence[str], known: Sequence[str], kind: str) -> Iterator[Fault]:
    for number, name in enumerate(chosen):
        if name not in known:
            yield (f"{kind}s", str(number)), nearest(name, known, kind)
    if len(set(chosen)) < len(chosen):
        yield (f"{kind}s",), f"a {kind} stands there twice"


def picture_name(figure: str, setting: str, variant: str = "", seed: int | None = None) -> str:
    """Return what a picture's files are called: figure, setting and, where it is of one alone, method and seed."""
    of_seed = "" if seed is None else f"seed-{seed}"
    return "-".join(filter(None, (figure, setting, variant, of_seed)))


def picture_names(name: str, figure: Figure, methods: Sequence[str], settings: Sequence[str]) -> Iterator[str]:
    """Yield the names of a figure's pictures."""
    alone = tuple(figure.methods or methods) if figure.is_of_one_run else ("",)
    for setting in figure.settings or settings:
        for seed in figure.seeds or (None,):
            yield from (picture_name(name, setting, variant, seed) for variant in alone)


def figure_faults(
    figures: Mapping[str, Figure], methods: Sequence[str], settings: Sequence[str], seeds: Sequence[int]
) -> Iterator[Fault]:
    """Yield what is wrong with the figures of a study; ways begin at the figure's name."""
    owners: dict[str, str] = {}
    for name, figure in figures.items():
        for way, message in figure.faults(methods, settings, seeds):
            yield (name, *way), message
        for picture in picture_names(name, figure, methods, settings):
            if len(picture.encode()) > LONGEST_BYTES:
                yield (name,), f"the file {picture[:30]!r}... would have too long a name; take shorter names"
            # Some systems take capitals for small letters, and write accents in another way.
            same = unicodedata.normalize("NFC", picture).casefold()
            taken = _taken(same, owners)
            if taken is not None:
                yield (name,), f"its file {picture!r} may be one of {taken!r} too; give it another name"
            owners[same] = name


def _taken(picture: str, owners: Mapping[str, str]) -> str | None:
    """Return the figure whose files may have the names of a picture's, if there is one."""
    for other, owner in owners.items():
        if picture == other or _is_part(picture, other) or _is_part(other, picture):
            return owner
    return None


def _is_part(longer: str, shorter: str) -> bool:
    """Say whether a name goes on as those of further pictures of another do."""
    if not longer.startswith(f"{shorter}-"):
        return False
    return longer[len(shorter) + 1 :].split("-")[0] in PARTS
