"""Values as they are written: numbers, truth values, schedules and text."""

from __future__ import annotations

import functools
from typing import Any

from flatfed.core.configuration.checking import DEEPEST, fault, is_schedule
from flatfed.core.errors import ConfigError


def parse_value(text: str) -> Any:
    """Return the number, truth value, null, schedule or text that is written, as YAML reads it; 1e-3 is a number."""
    if is_schedule(text):
        return text
    if _looks_real(text):
        return float(text)
    try:
        return read_yaml(text)
    except ConfigError:  # what is no YAML is text
        return text


def read_yaml(text: str, aliases: bool = False) -> Any:
    """Return what a YAML text holds, in the types of JSON: a date is text; deep nesting is an error.

    `aliases` (`*name`, `<<`) are for files of this package alone: elsewhere they are an error.
    """
    import yaml  # here, for most commands read none

    loader = _sharing_loader() if aliases else _loader()
    try:
        value = yaml.load(text, loader)  # derived from the safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: digits without end, say
        raise ConfigError(" ".join(str(error).split())) from None
    problem = fault(value)
    if problem:
        raise ConfigError(problem)
    return value


def read_yaml_with_lines(text: str) -> tuple[Any, dict[tuple[str, ...], int]]:
    """Return what a YAML text holds, and the line of each entry by the way to it: `("methods", "fedavg")`."""
    import yaml

    value = read_yaml(text)
    lines: dict[tuple[str, ...], int] = {}
    _note_lines(yaml.compose(text, _loader()), (), lines)
    return value, lines


def _note_lines(node: Any, way: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> None:
    """Note the lines of what lies below a node; entries of lists go by their number."""
    if node is None:  # an empty text
        return
    lines.setdefault(way, node.start_mark.line + 1)
    if node.id == "mapping":
        for name, entry in node.value:
            below = (*way, str(name.value))
            lines[below] = name.start_mark.line + 1
            _note_lines(entry, below, lines)
    elif node.id == "sequence":
        for number, entry in enumerate(node.value):
            _note_lines(entry, (*way, str(number)), lines)


@functools.cache
def _loader() -> Any:
    """Return the loader class; made when first used, because YAML is imported late."""
    import yaml

    # The safe one, because others may make Python objects that a file names.
    class Loader(yaml.SafeLoader):
        """Reads JSON's types alone; what stands in a file once is read once."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Refuse aliases, which can stand for more than any memory holds, and endless nesting."""
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError(f"line {self.line + 1}: aliases (*name) are not taken; write it out")
            if self.depth >= DEEPEST:
                raise yaml.YAMLError(f"line {self.line + 1}: nested more than {DEEPEST} levels deep")
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            """Refuse a name that stands twice: only one of the values would count."""
            seen = set()
            for name, _ in node.value:
                if (name.tag, str(name.value)) in seen:
                    line = name.start_mark.line + 1
                    raise yaml.YAMLError(f"line {line}: {str(name.value)!r:.60} stands there a second time")
                seen.add((name.tag, str(name.value)))
            return super().construct_mapping(node, deep)

    left_out = {"timestamp", "binary", "omap", "pairs", "set"}
    tags = {f"tag:yaml.org,2002:{name}" for name in left_out}
    Loader.yaml_constructors = {tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag not in tags}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in tags]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


@functools.cache
def _sharing_loader() -> Any:
    """Return the loader class that takes aliases."""
    import yaml

    class Sharing(_loader()):  # type: ignore[misc]
        """Takes aliases and `<<`; names that stand twice are found before what they share is merged in."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Compose a node, an alias too."""
            return yaml.SafeLoader.compose_node(self, parent, index)

        def compose_mapping_node(self, anchor: Any) -> Any:
            """Refuse a name that stands twice."""
            node = yaml.SafeLoader.compose_mapping_node(self, anchor)
            names = [str(name.value) for name, _ in node.value]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {twice!r:.60} stands there twice")
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            """Make a mapping, with what is merged into it."""
            return yaml.SafeLoader.construct_mapping(self, node, deep)

    return Sharing


def _looks_real(text: str) -> bool:
    """Say whether a text is a number with a point or an exponent; YAML takes 1e-3 for a word."""
    if not set(text) & set(".eE"):
        return False
    try:
        float(text)
    except ValueError:  # a word with an e in it
        return False
    return True
