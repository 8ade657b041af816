"""What the options of a run say, as a file or Python gives them: read, checked one by one, and merged.

What they set by name (`set`, or `--set`) is sorted by what it belongs to: methods, partition, model, data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.errors import OTHER, PARAMETER, ConfigError, nearest
from flatfed.experiments.spelling.declared import NAMES, OPTIONS, SET, TRAINING

PARTITION, MODEL, DATA = "partition.", "model.", "data."
SHORT = ("alpha", "beta")
"""Parameters of the partition that have an option of their own."""

NEVER_EMPTY = ("partition", "sampling", "model", "metrics", "data_dir", "weights")

ALTERNATIVES = (SHORT, ("augment", "no_augment"), ("per_round", "bernoulli", "sampling"))
"""Options that say the same thing in two ways: what is said later in one way replaces what was said in the other."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run that are given, checked one by one; the others have their defaults.

    Args:
        values: what is given, by today's names of the options.
        settings: what is set by name (`set`): `rho`, `fedgloss:beta`, `partition.classes_per_client`.
        firm: names among `settings` that are meant for these very methods, such as those typed in a command. The rest
            may serve many methods: it gives way to what stands in brackets behind a method, and is left out where it
            is of another.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    firm: frozenset[str] = frozenset()

    @classmethod
    def read(cls, content: Mapping[str, Any], firm: bool = False) -> RunOptions:
        """Return what a mapping of options says, or refuse what is wrong; where `firm`, all that it sets by name is."""
        given = by_name(lines(content, "options must be `name: value` lines"), NAMES)
        settings = set_by_name(given.pop(SET, None))
        values = {name: _read(name, value) for name, value in given.items()}
        _refuse_contradictions(values, settings)
        return cls(values, settings, frozenset(settings if firm else ()))

    def merged(self, other: Mapping[str, Any] | RunOptions) -> RunOptions:
        """Return these options with others that go before them; what is set by name is merged name by name."""
        later = other if isinstance(other, RunOptions) else RunOptions.read(other)
        replaced = _replaced(later)
        values = {name: value for name, value in self.values.items() if name not in replaced}
        # A method's own `beta` is none of the partition, whose option has the same name.
        named = {f"{PARTITION}{name}" for name in later.short}
        settings = {name: value for name, value in self.settings.items() if name not in named}
        return RunOptions(
            values | dict(later.values),
            settings | dict(later.settings),
            (self.firm - later.settings.keys() - named) | later.firm,
        )

    def __getitem__(self, name: str) -> Any:
        """Return the value of an option, or its default."""
        value = self.values.get(name)
        # To a training setting None is a value: no bound, or all examples.
        if value is not None or (name in TRAINING and name in self.values):
            return value
        return OPTIONS[name].default

    @property
    def short(self) -> dict[str, float]:
        """The parameters of the partition that are given by their short names."""
        return {name: self[name] for name in SHORT if self[name] is not None}


def by_name(content: Mapping[Any, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """Return values by the names of their options; an option may come once, in whatever spelling.

    Args:
        content: the values as a file or Python spells the options.
        known: every spelling with the option's name.
    """
    keys: dict[str, str] = {}
    for key in map(str, content):
        name = _known_name(key, known)
        if name in keys:
            raise ConfigError(f"{keys[name]} and {key} are the same option; give one of them")
        keys[name] = key
    return dict(zip(keys, content.values(), strict=True))


def _known_name(key: str, known: Mapping[str, str]) -> str:
    spelling = key.replace("-", "_")
    if spelling not in known:
        raise ConfigError(nearest(spelling, known, "option"))
    return known[spelling]


def lines(content: Any, otherwise: str) -> Mapping[Any, Any]:
    """Return a mapping, empty where there is nothing, or the error that it is `otherwise`."""
    # An empty file is read as None.
    if not content:
        return {}
    if not isinstance(content, Mapping):
        raise ConfigError(otherwise)
    return content


def set_by_name(content: Any) -> dict[str, Any]:
    """Return what `set` holds."""
    settings = lines(content, f"{SET} must hold `name: value` lines")
    return {str(name): value for name, value in settings.items()}


def _read(name: str, value: Any) -> Any:
    """Return the value of an option in Python's type; None stays None."""
    if value is None:
        return None
    try:
        read = OPTIONS[name].kind.read(value)
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter=name) from None
    if name in NEVER_EMPTY and not read.strip():
        raise ConfigError(f"{PARAMETER} is empty; leave it out, or name one", parameter=name)
    return read


def _refuse_contradictions(values: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse options that say two things at once."""
    for name in SHORT:
        _refuse_both(name, values.get(name), settings)
    if values.get("no_augment") and values.get("augment"):
        raise ConfigError(
            f"{PARAMETER} and {OTHER} contradict each other; give one of them", "augment", other="no_augment"
        )


def _refuse_both(name: str, value: float | None, settings: Mapping[str, Any]) -> None:
    long = f"{PARTITION}{name}"
    if value is not None and long in settings:
        raise ConfigError(
            f"{PARAMETER} {value:g} and {OTHER}={settings[long]} say the same thing; give one of them",
            name,
            other=long,
        )


def _replaced(later: RunOptions) -> set[str]:
    """Return the options that say the same things as later ones, perhaps in another way."""
    replaced: set[str] = set()
    for ways in ALTERNATIVES:
        if any(_says_something(later.values.get(name)) for name in ways):
            replaced.update(ways)
    return replaced


def _says_something(value: Any) -> bool:
    """Say whether a value chooses one of two ways: `no_augment: false` leaves an augmentation as it is."""
    # Not by equality, for 0 equals False.
    return value is not None and value is not False


@dataclass(frozen=True)
class NamedSettings:
    """What is set by name.

    Args:
        methods: settings of methods, as they are written.
        partition: parameters of the partition.
        model: options of the model.
        data: options of the data.
        short: alpha and beta where they are given as options; they are in `partition` too.
        yielding: names among the settings that give way to what stands in brackets behind a method.
    """

    methods: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    short: dict[str, float]
    yielding: frozenset[str]


def named_settings(options: RunOptions, spellings: Sequence[str]) -> NamedSettings:
    """Return what the options set for these methods and their task.

    Options may serve many methods: what they set for others is left out, unless it is meant for these very methods.
    """
    # Here, as it imports torch, and options are read by commands that train nothing.
    from flatfed.experiments.spelling.methods import relevant

    shared = {name: value for name, value in options.settings.items() if name not in options.firm}
    concerned = relevant(shared, spellings)
    settings = {name: options.settings[name] for name in options.settings if name in concerned or name in options.firm}
    return NamedSettings(
        _of_methods(settings),
        # Where both are there, the parameter by its full name was said later: said together, they are refused.
        options.short | _of(PARTITION, settings),
        _of(MODEL, settings),
        _of(DATA, settings),
        options.short,
        frozenset(concerned),
    )


def _of(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def _of_methods(settings: Mapping[str, Any]) -> dict[str, Any]:
    others = (PARTITION, MODEL, DATA)
    return {name: value for name, value in settings.items() if not name.startswith(others)}
