"""The kinds of values that options take, typed or from a file, and errors in the words of the command line.

The configuration file has `option: value` lines in YAML. Precedence: command line, then file, then default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from flatfed.core.configuration.checking import LARGEST
from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.experiments.spelling.kinds import (
    AugmentationKind,
    ChoiceKind,
    NumberKind,
    OptionKind,
    TrackKind,
    TruthKind,
    WholeKind,
    WholeNumbersKind,
    WrittenKind,
)
from flatfed.experiments.spelling.options import by_name, lines, set_by_name
from flatfed.machine import read_regular

FILE_SETTINGS = "flatfed.file-settings"


def read_config(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Take defaults from a YAML file; a key that is no option is an error."""
    if value is None:
        return None
    content = _content(value)
    try:
        options = by_name(_named_in_file(ctx, _as_options(ctx, content)), _option_names(ctx.command))
        # The settings of --set stay apart, for there each name has a precedence of its own.
        ctx.meta[FILE_SETTINGS] = set_by_name(options.pop("settings", None))
    except ConfigError as error:
        raise error.within(f"--config {value}") from None
    options = {name: _repeated(ctx.command, name, value) for name, value in options.items()}
    # Click asks the default map only for options that were not typed: so the command line goes before the file.
    ctx.default_map = {**(ctx.default_map or {}), **options}
    return value


def _repeated(command: click.Command, name: str, value: Any) -> Any:
    """Return the value of an option as click takes it: of one that may be repeated, a list."""
    option = next(option for option in options_of(command) if option.name == name)
    if not option.multiple or isinstance(value, list):
        return value
    return [value]


NAMED_IN_FILE = "flatfed.named-in-file"
RECORDED = "flatfed.recorded"
DATASET, METHODS = "dataset", "methods"


def _as_options(ctx: click.Context, content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a file's content; the record of a run or of a comparison as the options that ask for the same."""
    if not is_record(content):
        return content
    from flatfed.experiments.comparing.as_options import as_options

    ctx.meta[RECORDED] = {**content, **content.get("about", {})}
    options = as_options(content)
    if not _takes(ctx, "algorithms"):
        # `run` has one seed, as a run's record has.
        options["seed"] = options.pop("seeds")[0]
    return options


def recorded_in_file(ctx: click.Context) -> Mapping[str, Any]:
    """Return the record of a run or of a comparison, where the file is one."""
    record: Mapping[str, Any] = ctx.meta.get(RECORDED, {})
    return record


def _takes(ctx: click.Context, argument: str) -> bool:
    """Say whether a command has an argument of this name."""
    return any(param.name == argument for param in ctx.command.params if isinstance(param, click.Argument))


def is_record(content: Mapping[Any, Any]) -> bool:
    """Say whether a file's content is the record of a run or of a comparison."""
    return "format" in content and "settings" in content and "task" in content


def _named_in_file(ctx: click.Context, content: Mapping[Any, Any]) -> dict[Any, Any]:
    """Take the data set and the methods out of a file, for a command that names them by its arguments."""
    rest = dict(content)
    if _takes(ctx, "dataset"):
        ctx.meta[NAMED_IN_FILE] = {name: rest.pop(name) for name in (DATASET, METHODS) if name in rest}
    return rest


def dataset_of(ctx: click.Context, typed: str | None) -> str:
    """Return the data set: as it is typed, or as the file of --config names it."""
    name = typed or ctx.meta.get(NAMED_IN_FILE, {}).get(DATASET)
    if not isinstance(name, str):
        raise click.UsageError("name a DATASET, or a file for --config that has one", ctx)
    return name


def methods_of(ctx: click.Context, typed: Sequence[str]) -> list[str]:
    """Return the methods: as they are typed, or as the file of --config names them."""
    names = typed or ctx.meta.get(NAMED_IN_FILE, {}).get(METHODS)
    if isinstance(names, str):
        names = names.split()
    if not names or not all(isinstance(name, str) for name in names):
        raise click.UsageError("name at least one ALGORITHM, or a file for --config that has `methods`", ctx)
    return list(names)


def file_settings(ctx: click.Context) -> dict[str, Any]:
    """Return the settings by name that the file holds."""
    settings: dict[str, Any] = ctx.meta.get(FILE_SETTINGS, {})
    return settings


def _content(file: Path) -> Mapping[Any, Any]:
    """Return what a file holds."""
    try:
        content = read_yaml(read_regular(file).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror or error}") from None
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {file} is not YAML that can be used: {error}") from None
    return lines(content, f"--config {file} must hold `option: value` lines")


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
        raise plain(error.worded(word, word_for(error.other, words) or "")) from None


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


class OfKind(click.ParamType[Any]):
    """Values of a kind that files and Python give too; what each kind is called in the help stands here."""

    def __init__(self, kind: OptionKind, name: str) -> None:
        self.kind, self.name = kind, name

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return how the value is written."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in Python's type."""
        try:
            return self.kind.read(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Number(OfKind):
    """A number, or a schedule over the rounds where there may be one."""

    def __init__(self, may_vary: bool = False) -> None:
        super().__init__(NumberKind(may_vary), "X|SCHEDULE" if may_vary else "X")


class Whole(OfKind):
    """A whole number of at least `least`, or one word, such as `auto`."""

    def __init__(self, least: int, word: str | None = None, most: int = LARGEST) -> None:
        super().__init__(WholeKind(least, word, most), f"N|{word}" if word else "N")


class Augmentation(OfKind):
    """The data set's own augmentation, none, or names."""

    def __init__(self) -> None:
        super().__init__(AugmentationKind(), "NAME,...")


class WholeNumbers(OfKind):
    """Whole numbers with commas between them: seeds, rounds, clients."""

    def __init__(self) -> None:
        super().__init__(WholeNumbersKind(), "N,N,...")


def click_type(kind: OptionKind) -> Any:
    """Return click's type for a kind of values; a flag has none."""
    match kind:
        case NumberKind():
            return Number(kind.may_vary)
        case WholeKind():
            return Whole(kind.least, kind.word, kind.most)
        case ChoiceKind():
            return click.Choice(kind.words)
        case AugmentationKind():
            return Augmentation()
        case WholeNumbersKind():
            return WholeNumbers()
        case TrackKind():
            return OfKind(kind, "NAME")
        case WrittenKind():
            return OfKind(kind, "TEXT")
        case TruthKind():
            return None
    return str
