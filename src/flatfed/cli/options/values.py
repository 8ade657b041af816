"""The kinds of values that options take, typed or from a file, and errors in the words of the command line.

The configuration file has `option: value` lines in YAML. Precedence: command line, then file, then default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import click

from flatfed.core.configuration.checking import LARGEST, shown
from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import CheckpointError, ConfigError, nearest
from flatfed.machine import read_regular

FILE_SETTINGS = "flatfed.file-settings"


def read_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Take defaults from a YAML file; a key that is no option is an error."""
    if value is None:
        return None
    options = _by_option(_content(value), ctx.command, value)
    # Click asks the default map only for options that were not typed: so the command line goes before the file. The
    # settings of --set stay apart, for there each name has a precedence of its own.
    ctx.meta[FILE_SETTINGS] = _settings(options.pop("settings", None), value)
    ctx.default_map = {**(ctx.default_map or {}), **options}
    return value


def file_settings(ctx: click.Context) -> dict[str, Any]:
    """Return the settings by name that the file holds."""
    settings: dict[str, Any] = ctx.meta.get(FILE_SETTINGS, {})
    return settings


def _content(file: Path) -> dict[Any, Any]:
    """Return what a file holds."""
    try:
        content = read_yaml(read_regular(file).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror or error}") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {file} is not YAML that can be used: {error}") from None
    return _lines(content, f"--config {file} must hold `option: value` lines")


def _settings(content: Any, file: Path) -> dict[str, Any]:
    settings = _lines(content, f"--config {file}: set must hold `name: value` lines")
    return {str(name): value for name, value in settings.items()}


def _lines(content: Any, otherwise: str) -> dict[Any, Any]:
    """Return a mapping, empty where there is nothing, or the error that it is `otherwise`."""
    # An empty file is read as None.
    if not content:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(otherwise)
    return content


def _by_option(content: dict[Any, Any], command: click.Command, file: Path) -> dict[str, Any]:
    """Return a file's values by click's names for the options; an option may come once, in whatever spelling."""
    known = _option_names(command)
    keys: dict[str, str] = {}
    for key in map(str, content):
        name = _option_name(key, known, file)
        if name in keys:
            raise ConfigError(f"--config {file}: {keys[name]} and {key} are the same option; give one of them")
        keys[name] = key
    return dict(zip(keys, content.values(), strict=True))


def _option_name(key: str, known: dict[str, str], file: Path) -> str:
    spelling = key.replace("-", "_")
    if spelling not in known:
        raise ConfigError(f"--config {file}: {nearest(spelling, known, 'option')}")
    return known[spelling]


def _option_names(command: click.Command) -> dict[str, str]:
    """Return the options as a file spells them, each with click's name for it."""
    names: dict[str, str] = {}
    for option in options_of(command):
        names |= dict.fromkeys(_spellings(option), str(option.name))
    # A file does not name another file, and does not vouch for itself.
    for own in ("config", "trust"):
        names.pop(own, None)
    return names


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options of a command, without its arguments."""
    return [param for param in command.params if isinstance(param, click.Option)]


def _spellings(option: click.Option) -> list[str]:
    """Return how a file may spell an option: the long forms, without dashes in front."""
    return [spelling[2:].replace("-", "_") for spelling in option.opts if spelling.startswith("--")]


BY_NAME = ("data.", "model.", "partition.")
"""Parts of the task whose parameters have no option of their own."""

ELSEWHERE = {"keep_checkpoints": "--keep-checkpoints"}
"""Options of `flatfed run` that other commands may advise."""


@contextmanager
def naming(words: Mapping[str, str]) -> Iterator[None]:
    """Let an error about a parameter name it as it was typed; `words` says how, by parameter."""
    try:
        yield
    except (ConfigError, CheckpointError) as error:
        word = word_for(error.parameter, words)
        if word is None:
            raise
        plain = ConfigError if isinstance(error, ConfigError) else CheckpointError
        raise plain(error.worded(word)) from None


def word_for(parameter: str, words: Mapping[str, str]) -> str | None:
    """Return how a parameter is typed; one of the task's parts can always be set by name."""
    if parameter in words:
        return words[parameter]
    if parameter.startswith(BY_NAME):
        return f"--set {parameter}"
    return ELSEWHERE.get(parameter)


@contextmanager
def within_option(option: str) -> Iterator[None]:
    """Say of every mistake in the text that an option holds which option it was."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None


def typed_words(ctx: click.Context | None) -> dict[str, str]:
    """Return how each parameter of a command is typed: as an option, or by name with --set."""
    if ctx is None:
        return {}
    options = {str(option.name): option.opts[0] for option in options_of(ctx.command)}
    return _set_by_name(ctx) | options


def _set_by_name(ctx: click.Context) -> dict[str, str]:
    typed = [text.partition("=")[0].strip() for text in ctx.params.get("settings", ())]
    return {name: f"--set {name}" for name in [*file_settings(ctx), *typed]}


class Number(click.ParamType[float | str]):
    """A number, or a schedule over the rounds where there may be one; anything else that a file may hold is refused."""

    name = "X"

    def __init__(self, may_vary: bool = False) -> None:
        self.may_vary = may_vary

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return "X|SCHEDULE" if self.may_vary else "X"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number, or the schedule as it was written."""
        if self._is_schedule(value):
            return str(value)
        try:
            return _real(value)
        except (TypeError, ValueError, OverflowError):  # OverflowError: a file may hold 400 digits
            self.fail(f"{shown(value)} is not a number", param, ctx)

    def _is_schedule(self, value: Any) -> bool:
        return self.may_vary and isinstance(value, str) and "(" in value


def _real(value: Any) -> float:
    # YAML reads `yes` as a truth value, which Python would take for 1.
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")
    return float(value)


class Whole(click.ParamType[int | str]):
    """A whole number of at least `least`, or one word, such as `auto`."""

    def __init__(self, least: int, word: str | None = None, most: int = LARGEST) -> None:
        self.least, self.most, self.word, self.name = least, most, word, "N"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return f"N|{self.word}" if self.word else "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return the number or the word."""
        if self.word is not None and value == self.word:
            return self.word
        try:
            number = int(str(value))  # through text, for a truth value of a file is no number
        except ValueError:
            self._refuse(value, param, ctx)
        if number < self.least:
            self._refuse(value, param, ctx)
        if number > self.most:
            self.fail(f"{shown(value)} is too large; at most {self.most:,} can be asked for", param, ctx)
        return number

    def _refuse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        either = f"neither {self.word!r} nor" if self.word else "not"
        self.fail(f"{shown(value)} is {either} a whole number of at least {self.least}", param, ctx)


class Augmentation(click.ParamType[bool | str]):
    """The data set's own augmentation (True), none (False), or names; a file may hold a truth value."""

    name = "NAME,..."

    words: ClassVar[dict[Any, bool]] = {True: True, "default": True, False: False, "none": False}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | str:
        """Return which it is."""
        # By type first, because 1 equals True and would count as a word.
        if isinstance(value, bool | str) and value in self.words:
            return self.words[value]
        names = self._names(value)
        if not any(names):
            self.fail(f"{shown(value)} is not a list of augmentations such as crop-flip,cutout(8)", param, ctx)
        for word in {"none", "default"}.intersection(names):
            self.fail(f"{value!r}: {word!r} stands alone; give either it or names", param, ctx)
        return str(value)

    def _names(self, value: Any) -> list[str]:
        if not isinstance(value, str):
            return []
        return list(map(str.strip, value.split(",")))


class WholeNumbers(click.ParamType[list[int]]):
    """Whole numbers of at least 0 with commas between them: seeds, rounds, clients."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers; none may come twice."""
        numbers = list_of_whole(value)
        if not numbers:
            self.fail(f"{shown(value)} is not a list of whole numbers such as 0,1,2", param, ctx)
        if min(numbers) < 0:
            self.fail(f"{shown(value)} holds {min(numbers)}; each number must be at least 0", param, ctx)
        if max(numbers) > LARGEST:
            self.fail(f"{shown(value)} holds a number above {LARGEST:,}", param, ctx)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{shown(value)} names a number twice", param, ctx)
        return numbers


def parts_of(value: Any) -> list[Any]:
    """Return the parts of a list as a command line or a file gives it."""
    return value if isinstance(value, list) else str(value).split(",")


def list_of_whole(value: Any) -> list[int]:
    """Return a list of whole numbers as a command line or a file gives it; empty where it is none."""
    try:
        # Through text: a truth value or a fraction of a file is no whole number.
        return [int(str(part)) for part in parts_of(value)]
    except ValueError:
        return []


def at_most(samples: int | str) -> int | None:
    """Return at most how many examples are taken: a number, or None for `all`."""
    if isinstance(samples, str):
        return None
    return samples
