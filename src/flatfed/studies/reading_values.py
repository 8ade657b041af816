"""Values of a study's file as people write them: seeds, targets, names, ranges; mistakes are noted with their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flatfed.core.configuration.grammar import split
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.declared import TRAINING
from flatfed.experiments.spelling.options import RunOptions
from flatfed.studies.parts import Way
from flatfed.studies.study import MANY, log_range
from flatfed.studies.tuning.ranges import EXAMPLE, Range

Note = Callable[[Way, str], None]


class ValueReader:
    """Reads single values; what is wrong with them is noted, and left out of what is returned."""

    def __init__(self, note: Note) -> None:
        self._note = note

    def seeds(self, content: Any, way: Way) -> tuple[int, ...]:
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
            else:
                seeds.append(int(str(entry)))
        return tuple(seeds)

    def targets(self, content: Any, way: Way) -> tuple[float, ...] | str:
        """Return targets: percentages, or a word."""
        if isinstance(content, str):
            return content
        return self.numbers(content, way)

    def measurements(self, content: Any, way: Way) -> bool | str:
        """Return what is measured: yes or no, or measurements as a text or a list."""
        if isinstance(content, bool):
            return content
        return ", ".join(self.names(content, way))

    def names(self, content: Any, way: Way) -> tuple[str, ...]:
        """Return names: a text, or a list of them."""
        names = []
        for entry in content if isinstance(content, list | tuple) else [content]:
            if isinstance(entry, str) and entry.strip():
                names.append(entry.strip())
            else:
                self._note(way, f"{entry!r:.40} is not a value of {way[-1]}")
        return tuple(names)

    def metrics(self, content: Any, way: Way) -> tuple[str, ...]:
        """Return names that may stand in one text with commas between them."""
        return tuple(part.strip() for name in self.names(content, way) for part in split(name, ",") if part.strip())

    def numbers(self, content: Any, way: Way) -> tuple[float, ...]:
        """Return numbers: one, or a list of them."""
        numbers = []
        for entry in content if isinstance(content, list | tuple) else [content]:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                self._note(way, f"{entry!r:.40} is not a number")
            else:
                numbers.append(float(entry))
        return tuple(numbers)

    def range(self, content: Any, way: Way) -> Range:
        """Return the range in which a parameter is tuned; what is wrong with its values is found with the study."""
        if not isinstance(content, Mapping) or not all(isinstance(values, list) for values in content.values()):
            self._note(way, EXAMPLE)
            return {}
        # YAML takes 1e-3 for a word.
        return {
            str(kind): tuple(parse_value(value) if isinstance(value, str) else value for value in values)
            for kind, values in content.items()
        }

    def values(self, content: Any, way: Way) -> tuple[Any, ...]:
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
            self._check_tried(value, way)
        return tuple(content)

    def _check_tried(self, value: Any, way: Way) -> None:
        """Take note of a value that cannot be tried for a parameter."""
        if isinstance(value, list | Mapping) or value is None:
            self._note(way, f"{value!r:.40} is not a value to try; write numbers or words")
        elif way[-1] in TRAINING:
            try:
                RunOptions.read({way[-1]: value})
            except ConfigError as error:
                self._note(way, str(error))
