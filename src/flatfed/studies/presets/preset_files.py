"""The files of presets, one for each paper, read strictly: package data that anyone may edit."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError, nearest
from flatfed.studies.presets.preset import Preset

FOLDER = files("flatfed.studies.presets") / "files"
ENDING = ".yaml"
PAPER, SOURCE, ITEMS = "paper", "source", "items"
SHOWS, NOT_STATED, STUDY, SMALL, NOTHING = "shows", "not stated", "study", "small", "nothing to run"
NOTE, EACH_SETTING = "note", "each setting"
ENTRIES = (SHOWS, NOT_STATED, STUDY, SMALL, NOTHING)
OF_SMALL = (NOTE, STUDY, EACH_SETTING)


def paper_names() -> list[str]:
    """Return the papers whose presets there are."""
    return sorted(file.name.removesuffix(ENDING) for file in FOLDER.iterdir() if file.name.endswith(ENDING))


@functools.cache
def presets_of(paper: str) -> dict[str, Preset]:
    """Return the tables and figures of a paper by their names, in the order of its file."""
    if paper not in paper_names():
        raise ConfigError(nearest(paper, paper_names(), "paper"))
    text = (FOLDER / f"{paper}{ENDING}").read_text(encoding="utf-8")
    return read_presets(text, f"{paper}{ENDING}")


def is_preset(id: str) -> bool:
    """Say whether there is a preset `fedgloss/table-3`."""
    paper, _, item = id.partition("/")
    return paper in paper_names() and item in presets_of(paper)


def find_preset(id: str) -> Preset:
    """Return the preset `fedgloss/table-3`; an unknown one names the nearest."""
    if is_preset(id):
        paper, _, item = id.partition("/")
        return presets_of(paper)[item]
    known = [preset.id for name in paper_names() for preset in presets_of(name).values()]
    raise ConfigError(f"{nearest(id, known, 'preset')}; `flatfed study list` shows all")


def read_presets(text: str, name: str) -> dict[str, Preset]:
    """Return the presets of a file's text; what is wrong with it is an error that names the file and the item."""
    try:
        # A part that several items share stands there once.
        content = read_yaml(text, aliases=True)
    except ConfigError as error:
        raise ConfigError(f"{name} is not YAML that can be used: {error}") from None
    whole = _lines(content, name)
    # Parts that items share by aliases may stand beside these three, under names of their own.
    paper, source = _text(whole, PAPER, name), _text(whole, SOURCE, name)
    items = _lines(whole.get(ITEMS), f"{name}, {ITEMS}")
    return {item: _preset(paper, source, item, entry, f"{name}, {item}") for item, entry in items.items()}


def _preset(paper: str, source: str, item: str, content: Any, place: str) -> Preset:
    """Return one preset: a study, or the reason why there is none."""
    entry = _lines(content, place)
    _refuse_unknown(list(entry), ENTRIES, place)
    shows = _text(entry, SHOWS, place)
    if (STUDY in entry) == (NOTHING in entry):
        raise ConfigError(f"{place}: write either `{STUDY}` or `{NOTHING}`")
    if NOTHING in entry:
        return Preset(paper, item, source, shows, nothing=_text(entry, NOTHING, place))
    small = _lines(entry.get(SMALL, {}), f"{place}, {SMALL}")
    _refuse_unknown(list(small), OF_SMALL, f"{place}, {SMALL}")
    if small and not small.get(NOTE):
        raise ConfigError(f"{place}, {SMALL}: say under `{NOTE}` how it differs from the paper")
    return Preset(
        paper,
        item,
        source,
        shows,
        study=_lines(entry[STUDY], f"{place}, {STUDY}"),
        not_stated=_sentences(entry.get(NOT_STATED), f"{place}, {NOT_STATED}"),
        small=_lines(small.get(STUDY, {}), f"{place}, {SMALL}, {STUDY}"),
        each_setting=_lines(small.get(EACH_SETTING, {}), f"{place}, {SMALL}, {EACH_SETTING}"),
        note=str(small.get(NOTE, "")),
    )


def _lines(content: Any, place: str) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise ConfigError(f"{place} must hold `name: value` lines")
    return {str(name): value for name, value in content.items()}


def _text(content: Mapping[str, Any], name: str, place: str) -> str:
    text = content.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{place}: `{name}` is missing, or no text")
    return text


def _sentences(content: Any, place: str) -> tuple[str, ...]:
    if content is None:
        return ()
    if not isinstance(content, list) or not all(isinstance(entry, str) for entry in content):
        raise ConfigError(f"{place} must be a list of sentences")
    return tuple(content)


def _refuse_unknown(names: list[str], known: tuple[str, ...], place: str) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{place}: {nearest(name, known, 'entry')}")
