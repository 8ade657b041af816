"""A study as people write it: a YAML file, or a mapping in Python; every mistake with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flatfed.algorithms import spelling as written_methods
from flatfed.core.configuration.values import read_yaml_with_lines
from flatfed.core.errors import ConfigError, nearest
from flatfed.experiments.spelling.declared import NAMES
from flatfed.experiments.spelling.options import RunOptions
from flatfed.machine import read_regular
from flatfed.outside.installed import enter_mentioned
from flatfed.outside.named_parts import names_code
from flatfed.studies.drawing.figure import Figure
from flatfed.studies.drawing.reading_figures import read_figures
from flatfed.studies.parts import Reporting, Selection, Way
from flatfed.studies.reading_values import ValueReader
from flatfed.studies.study import ALL, DATASET, METHODS, ONLY, FaultyStudyError, Options, Study, place_of

T = TypeVar("T")

METHOD = "method"
"""What holds the spelling of a variant that has options of its own."""
AGAINST = ("report", "against")
PARTS = ("title", "methods", "settings", "seeds", "grid", "tune", "select", "report")
"""What a study has besides the options of its runs."""


class StudyMistakes(ConfigError):
    """What is wrong with a study: all of it, each with its place."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


def read_study(file: Path) -> Study:
    """Read a study's file, or tell everything that is wrong with it."""
    try:
        text = read_regular(file).decode("utf-8")
        content, lines = read_yaml_with_lines(text)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not YAML that can be used: {error}") from None

    return replace(study_of(content, partial(place_of, file=file, lines=lines)), file=file, lines=lines)


def study_of(content: Any, place: Callable[[Way], str] = place_of) -> Study:
    """Return the study that a mapping describes, or raise all of its mistakes."""
    return _Reader(place).read(content)


class _Reader:
    """Reads a study and gathers its mistakes."""

    def __init__(self, place: Callable[[Way], str]) -> None:
        self.place = place
        self.mistakes: list[str] = []
        self.faulty: set[Way] = set()
        """The entries in which there is a mistake."""
        self.values = ValueReader(self._note)

    def _note(self, way: Way, mistake: str) -> None:
        self.mistakes.append(f"{self.place(way)}: {mistake}")
        self.faulty.add(way)

    def read(self, content: Any) -> Study:
        """Return the study."""
        if not isinstance(content, Mapping) or not content:
            raise StudyMistakes([f"{self.place(())}: a study holds `name: value` lines"])
        content = {str(name): value for name, value in content.items()}
        options = {name: value for name, value in content.items() if name not in PARTS}
        self._check_options(options, ())
        parts: dict[str, Any] = {
            "title": str(content.get("title") or ""),
            **self._methods(content.get("methods")),
            "settings": self._settings(content.get("settings")),
            "seeds": self.values.seeds(content.get("seeds", 0), ("seeds",)),
            "select": self._part(Selection, content.get("select"), ("select",), seeds=self.values.seeds),
            "report": self._part(
                Reporting,
                content.get("report"),
                ("report",),
                metrics=self.values.metrics,
                targets=self.values.targets,
                flatness=self.values.measurements,
                curves=self.values.names,
                figures=self._figures,
            ),
        }
        parts["grid"] = self._searched("grid", content.get("grid"), parts["methods"], self.values.values)
        parts["tune"] = self._searched("tune", content.get("tune"), parts["methods"], self.values.range)
        study = self._whole(Study, options=options, **parts)
        if study is None or self.mistakes:
            raise StudyMistakes(self.mistakes)
        return study

    def _whole(self, make: Callable[..., Study], **parts: Any) -> Study | None:
        """Return the study; take note of what is wrong with it as a whole, but of entries that were not read."""
        try:
            return make(**parts)
        except FaultyStudyError as error:
            for way, message in error.faults:
                if not self._follows(way):
                    self.mistakes.append(f"{self.place(way)}: {message}")
            return None

    def _follows(self, way: Way) -> bool:
        """Say whether a fault may be there only because of a mistake that is known."""
        known = [mistake for mistake in self.faulty if mistake]
        if way == AGAINST and any(mistake[0] == "settings" or mistake[0] not in PARTS for mistake in known):
            # It asks for the options of the settings.
            return True
        return any(mistake == way[: len(mistake)] or way == mistake[: len(way)] for mistake in known)

    @contextmanager
    def _at(self, way: Way) -> Iterator[None]:
        """Take note of a mistake, with the place that it is in."""
        try:
            yield
        except ConfigError as error:
            self._note(way, str(error))

    def _check_options(self, options: Mapping[str, Any], way: Way, *more: str) -> None:
        """Take note of options that there are not, or that have values that they do not take; each by itself.

        `more` are entries that may stand there too.
        """
        before = len(self.mistakes)
        known = [*NAMES, DATASET, *(more if way else PARTS)]
        for name, value in options.items():
            here = (*way, name)
            if name == DATASET:
                if not isinstance(value, str):
                    self._note(here, f"dataset must be a name, not {value!r:.40}")
            elif name == METHODS and METHODS in more:
                self._check_options_by_method(value, here)
            elif name == ONLY and ONLY in more:
                continue  # The study knows its methods, and judges it.
            elif name.replace("-", "_") not in NAMES:
                self._note(here, f"{nearest(name, known, 'entry')}")
            else:
                with self._at(here):
                    RunOptions.read({name: value})
        if len(self.mistakes) == before:
            # Together: some contradict each other.
            with self._at(way):
                together = {name: value for name, value in options.items() if name not in (DATASET, METHODS, ONLY)}
                _together(together)

    def _methods(self, content: Any) -> dict[str, Any]:
        """Return the variants, and the options that some have: a list of spellings, or names with what they are.

        A name alone is its own spelling.
        """
        variants: dict[str, str] = {}
        own: dict[str, Options] = {}
        for way, name, entry in self._named(content, ("methods",)):
            if name in variants:
                self._note(way, f"the name {name!r} stands there twice; give another")
                continue
            variants[name] = self._spelling(entry, name, way)
            if isinstance(entry, Mapping):
                options = {str(option): value for option, value in entry.items() if option != METHOD}
                self._check_options(options, way, METHOD)
                own[name] = options
        return {"methods": variants, "method_options": own}

    def _spelling(self, entry: Any, name: str, way: Way) -> str:
        """Return how a variant is spelled: a text, or the entry `method` of a mapping."""
        spelling = entry.get(METHOD, name) if isinstance(entry, Mapping) else entry
        here = (*way, METHOD) if isinstance(entry, Mapping) and METHOD in entry else way
        if not isinstance(spelling, str):
            self._note(here, "a method is written as text, such as fedgloss(beta=10)+sam")
            return name
        with self._at(here):
            if names_code(spelling):
                # Who may name it is known when the study is run; then it is imported and read.
                return spelling
            enter_mentioned(spelling, written_methods.PARTS)
            written_methods.parse_method(spelling)
        return spelling

    def _named(self, content: Any, way: Way) -> Iterator[tuple[Way, str, Any]]:
        """Yield the entries of a list or a mapping: the way to each, its name, and what it holds."""
        if isinstance(content, str):
            content = [part.strip() for part in content.split(" ") if part.strip()]
        if isinstance(content, Mapping):
            for name, value in content.items():
                yield (*way, str(name)), str(name), str(name) if value is None else value
        elif isinstance(content, list):
            for number, entry in enumerate(content):
                here = (*way, str(number))
                if isinstance(entry, Mapping) and METHOD in entry:
                    self._note(here, "a method with options needs a name: {my name: {method: fedsam, rounds: 5}}")
                elif isinstance(entry, Mapping):
                    yield from self._named(entry, here)
                else:
                    yield here, str(entry), entry
        else:
            self._note(way, f"{way[0]} must be a list, or `name: value` lines")

    def _settings(self, content: Any) -> dict[str, Any]:
        if content is None:
            return {"": {}}
        if not isinstance(content, Mapping) or not content:
            self._note(("settings",), "settings must be names, each with options")
            return {"": {}}
        settings: dict[str, Any] = {}
        for name, options in content.items():
            way = ("settings", str(name))
            if not isinstance(options, Mapping | None):
                self._note(way, "a setting holds options, such as {alpha: 0}")
                continue
            if str(name) in settings:
                self._note(way, f"the name {str(name)!r} stands there twice; give another")
            settings[str(name)] = {str(option): value for option, value in (options or {}).items()}
            self._check_options(settings[str(name)], way, METHODS, ONLY)
        return settings

    def _check_options_by_method(self, content: Any, way: Way) -> None:
        """Take note of what is wrong with the options that single variants have in a setting."""
        if not isinstance(content, Mapping):
            self._note(way, "write methods with the options that they have here: {fedavg: {rounds: 5}}")
            return
        for variant, options in content.items():
            here = (*way, str(variant))
            if isinstance(options, Mapping):
                self._check_options({str(name): value for name, value in options.items()}, here)
            else:
                self._note(here, "write the options that it has here, such as {rounds: 5}")

    def _figures(self, content: Any, way: Way) -> dict[str, Figure]:
        return read_figures(content, way, self._note, self.values.seeds)

    def _part(self, cls: type[T], content: Any, way: Way, **readers: Callable[[Any, Way], Any]) -> T:
        """Return a part that has fields of its own."""
        if content is None:
            return cls()
        if not isinstance(content, Mapping):
            self._note(way, f"{way[0]} must be `name: value` lines")
            return cls()
        known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for name, value in content.items():
            here = (*way, str(name))
            if name not in known:
                self._note(here, f"{nearest(str(name), known, 'entry')}")
            elif name in readers:
                values[name] = readers[name](value, here)
            elif self._is_of_kind(known[name].default, value, here):
                values[name] = value
        return cls(**values)

    def _is_of_kind(self, default: Any, value: Any, way: Way) -> bool:
        """Say whether a value is of the kind that the default is, and take note if not; nothing stands for nothing."""
        if value is None and default is None:
            return True
        kinds: dict[type, tuple[type, ...]] = {float: (int, float), type(None): (int,)}
        allowed = kinds.get(type(default), (type(default),))
        is_truth = isinstance(value, bool)
        if not isinstance(value, allowed) or is_truth != isinstance(default, bool):
            self._note(way, f"{value!r:.40} is not a value of {way[-1]}")
            return False
        return True

    def _searched(
        self, part: str, content: Any, methods: Mapping[str, str], read: Callable[[Any, Way], T]
    ) -> dict[str, dict[str, T]]:
        """Return what is searched: for a variant, or all, parameters with what is to be tried."""
        found: dict[str, dict[str, T]] = {}
        if content is None:
            return found
        if not isinstance(content, Mapping):
            self._note((part,), f"{part} must be methods, or all, with parameters and values")
            return found
        for variant, searched in content.items():
            way = (part, str(variant))
            if variant != ALL and variant not in methods:
                self._note(way, f"{nearest(str(variant), [*methods, ALL], 'method')}")
            elif not isinstance(searched, Mapping):
                example = "{rho: [0.01, 0.1]}" if part == "grid" else "{rho: {log: [0.01, 0.1]}}"
                self._note(way, f"write parameters with their values: {example}")
            else:
                found[variant] = {str(name): read(value, (*way, str(name))) for name, value in searched.items()}
        return found


def _together(content: Mapping[str, Any]) -> RunOptions:
    """Read options of one place, and refuse two of them that say the same thing in two ways."""
    options = RunOptions.read(content)
    for first, second in (("alpha", "beta"), ("per_round", "bernoulli")):
        if options.values.get(first) is not None and options.values.get(second) is not None:
            raise ConfigError(f"{first} and {second} are two ways to say one thing; give one of them")
    return options
