"""A study as people write it: a YAML file, or a mapping in Python; every mistake with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.values import parse_value, read_yaml_with_lines
from flatfed.core.errors import ConfigError, nearest
from flatfed.experiments.spelling.declared import NAMES, TRAINING
from flatfed.experiments.spelling.options import RunOptions
from flatfed.machine import read_regular
from flatfed.studies.cells import DATASET
from flatfed.studies.drawing.figure import Figure
from flatfed.studies.drawing.reading_figures import read_figures
from flatfed.studies.parts import Reporting, Selection, Way
from flatfed.studies.study import ALL, MANY, FaultyStudyError, Study, log_range, place_of
from flatfed.studies.tuning.ranges import EXAMPLE, Range

T = TypeVar("T")

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
        self.faulty: set[str] = set()
        """The parts in which there is a mistake."""

    def _note(self, way: Way, mistake: str) -> None:
        self.mistakes.append(f"{self.place(way)}: {mistake}")
        self.faulty.update(way[:1])

    def read(self, content: Any) -> Study:
        """Return the study."""
        if not isinstance(content, Mapping) or not content:
            raise StudyMistakes([f"{self.place(())}: a study holds `name: value` lines"])
        content = {str(name): value for name, value in content.items()}
        options = {name: value for name, value in content.items() if name not in PARTS}
        self._check_options(options, ())
        parts: dict[str, Any] = {
            "title": str(content.get("title") or ""),
            "methods": self._methods(content.get("methods")),
            "settings": self._settings(content.get("settings")),
            "seeds": self._seeds(content.get("seeds", 0), ("seeds",)),
            "select": self._part(Selection, content.get("select"), ("select",), seeds=self._seeds),
            "report": self._part(
                Reporting,
                content.get("report"),
                ("report",),
                targets=self._targets,
                flatness=self._measurements,
                curves=self._names,
                figures=self._figures,
            ),
        }
        parts["grid"] = self._searched("grid", content.get("grid"), parts["methods"], self._values)
        parts["tune"] = self._searched("tune", content.get("tune"), parts["methods"], self._range)
        study = self._whole(Study, options=options, **parts)
        if study is None or self.mistakes:
            raise StudyMistakes(self.mistakes)
        return study

    def _whole(self, make: Callable[..., Study], **parts: Any) -> Study | None:
        """Return the study; take note of what is wrong with it as a whole, but of parts that were not read."""
        try:
            return make(**parts)
        except FaultyStudyError as error:
            for way, message in error.faults:
                if way[0] not in self.faulty:
                    self.mistakes.append(f"{self.place(way)}: {message}")
            return None

    @contextmanager
    def _at(self, way: Way) -> Iterator[None]:
        """Take note of a mistake, with the place that it is in."""
        try:
            yield
        except ConfigError as error:
            self._note(way, str(error))

    def _check_options(self, options: Mapping[str, Any], way: Way) -> None:
        """Take note of options that there are not, or that have values that they do not take; each by itself."""
        before = len(self.mistakes)
        for name, value in options.items():
            if name == DATASET:
                if not isinstance(value, str):
                    self._note((*way, name), f"dataset must be a name, not {value!r:.40}")
                continue
            if name.replace("-", "_") not in NAMES:
                known = [*NAMES, DATASET, *(() if way else PARTS)]
                self._note((*way, name), f"{nearest(name, known, 'entry')}")
                continue
            with self._at((*way, name)):
                _plain_parameter(RunOptions.read, {name: value})
        if len(self.mistakes) == before:
            # Together: some contradict each other.
            with self._at(way):
                _plain_parameter(_together, {name: value for name, value in options.items() if name != DATASET})

    def _methods(self, content: Any) -> dict[str, str]:
        """Return the variants: a list of spellings, or names with spellings; a name alone is its own spelling."""
        variants: dict[str, str] = {}
        for way, name, spelling in self._named(content, ("methods",)):
            if not isinstance(spelling, str):
                self._note(way, "a method is written as text, such as fedgloss(beta=10)+sam")
            elif name in variants:
                self._note(way, f"the name {name!r} stands there twice; give another")
            else:
                with self._at(way):
                    parse_method(spelling)
                variants[name] = spelling
        return variants

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
                if isinstance(entry, Mapping):
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
            self._check_options(settings[str(name)], way)
        return settings

    def _seeds(self, content: Any, way: Way) -> tuple[int, ...]:
        """Return seeds: 0, or [0, 1], or `0, 1, 2`, or `0..4`."""
        if isinstance(content, str) and ".." in content:
            first, _, last = content.partition("..")
            if first.strip().isdecimal() and last.strip().isdecimal() and 0 <= int(last) - int(first) < MANY:
                return tuple(range(int(first), int(last) + 1))
        entries = content.split(",") if isinstance(content, str) else content
        listed = entries if isinstance(entries, list | tuple) else [entries]
        seeds = []
        for entry in listed:
            if isinstance(entry, bool) or not str(entry).strip().isdecimal():
                self._note(way, f"{entry!r:.40} is not a seed; write 0, 1, 2 or 0..4")
                return ()
            seeds.append(int(str(entry)))
        return tuple(seeds)

    def _targets(self, content: Any, way: Way) -> tuple[float, ...] | str:
        """Return targets: percentages, or a word."""
        if isinstance(content, str):
            return content
        return self._numbers(content, way)

    def _measurements(self, content: Any, way: Way) -> bool | str:
        """Return what is measured: yes or no, or measurements as a text or a list."""
        if isinstance(content, bool):
            return content
        return ", ".join(self._names(content, way))

    def _names(self, content: Any, way: Way) -> tuple[str, ...]:
        """Return names: a text, or a list of them."""
        listed = content if isinstance(content, list | tuple) else [content]
        for entry in listed:
            if not isinstance(entry, str) or not entry.strip():
                self._note(way, f"{entry!r:.40} is not a value of {way[-1]}")
                return ()
        return tuple(entry.strip() for entry in listed)

    def _numbers(self, content: Any, way: Way) -> tuple[float, ...]:
        listed = content if isinstance(content, list | tuple) else [content]
        for entry in listed:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                self._note(way, f"{entry!r:.40} is not a number")
                return ()
        return tuple(map(float, listed))

    def _figures(self, content: Any, way: Way) -> dict[str, Figure]:
        return read_figures(content, way, self._note)

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
            else:
                self._check_kind(known[name].default, value, here)
                values[name] = value
        return cls(**values)

    def _check_kind(self, default: Any, value: Any, way: Way) -> None:
        """Take note of a value of another kind than the default is; nothing stands for nothing."""
        if value is None and default is None:
            return
        kinds: dict[type, tuple[type, ...]] = {float: (int, float), type(None): (int,)}
        allowed = kinds.get(type(default), (type(default),))
        is_truth = isinstance(value, bool)
        if not isinstance(value, allowed) or is_truth != isinstance(default, bool):
            self._note(way, f"{value!r:.40} is not a value of {way[-1]}")

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

    def _range(self, content: Any, way: Way) -> Range:
        """Return the range in which a parameter is tuned; what is wrong with its values is found with the study."""
        if not isinstance(content, Mapping) or not all(isinstance(values, list) for values in content.values()):
            self._note(way, EXAMPLE)
            return {}
        # YAML takes 1e-3 for a word.
        return {
            str(kind): tuple(parse_value(value) if isinstance(value, str) else value for value in values)
            for kind, values in content.items()
        }

    def _values(self, content: Any, way: Way) -> tuple[Any, ...]:
        """Return the values that are tried for a parameter."""
        if isinstance(content, Mapping) and set(content) == {"log"} and isinstance(content["log"], list):
            try:
                low, high, count = content["log"]
                return log_range(float(low), float(high), int(count))
            except (TypeError, ValueError, ConfigError):
                self._note(way, "write a log range as {log: [0.01, 1, 3]}: low, high, count")
                return ()
        if not isinstance(content, list) or not content:
            self._note(way, "write the values to try: [0.01, 0.1], or {log: [0.01, 1, 3]}")
            return ()
        # YAML takes 1e-3 for a word.
        content = [parse_value(value) if isinstance(value, str) else value for value in content]
        for value in content:
            if isinstance(value, list | Mapping) or value is None:
                self._note(way, f"{value!r:.40} is not a value to try; write numbers or words")
            elif way[-1] in TRAINING:
                with self._at(way):
                    _plain_parameter(RunOptions.read, {way[-1]: value})
        return tuple(content)


def _together(content: Mapping[str, Any]) -> RunOptions:
    """Read options of one place, and refuse two of them that say the same thing in two ways."""
    options = RunOptions.read(content)
    for first, second in (("alpha", "beta"), ("per_round", "bernoulli")):
        if options.values.get(first) is not None and options.values.get(second) is not None:
            raise ConfigError(f"{first} and {second} are two ways to say one thing; give one of them")
    return options


def _plain_parameter(read: Callable[[Any], T], content: Any) -> T:
    """Read something; an error names its entry by its place alone."""
    try:
        return read(content)
    except ConfigError as error:
        raise ConfigError(str(error)) from None
