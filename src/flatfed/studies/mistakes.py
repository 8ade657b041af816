"""What is wrong with cells of a study, once each with its place: the setting's, the method's, or the study's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flatfed.studies.parts import Way
from flatfed.studies.study import Study


@dataclass(frozen=True)
class CellMistake:
    """Why a method cannot be trained in a setting."""

    setting: str
    variant: str
    text: str


def placed(study: Study, mistakes: Sequence[CellMistake]) -> list[str]:
    """Return each mistake once, with its line in the study's file, and with whom it concerns."""
    return [_sentence(study, text, mistakes) for text in dict.fromkeys(mistake.text for mistake in mistakes)]


def _sentence(study: Study, text: str, mistakes: Sequence[CellMistake]) -> str:
    settings = list(dict.fromkeys(mistake.setting for mistake in mistakes if mistake.text == text))
    variants = list(dict.fromkeys(mistake.variant for mistake in mistakes if mistake.text == text))
    where = study.place(_way(study, settings, variants))
    whom = ", ".join(_concerned(study, settings, variants))
    return f"{where}: {whom}: {text}" if whom else f"{where}: {text}"


def _way(study: Study, settings: list[str], variants: list[str]) -> Way:
    """Return the entry that is the nearest to a mistake."""
    if len(settings) == 1 and len(study.settings) > 1:
        return ("settings", settings[0])
    if len(variants) == 1 and len(study.methods) > 1:
        return ("methods", variants[0])
    return ()


def _concerned(study: Study, settings: list[str], variants: list[str]) -> Iterator[str]:
    """Yield those methods and settings that have the mistake, where others have not."""
    if len(variants) < len(study.methods):
        yield from variants
    if len(settings) < len(study.settings):
        yield from settings
