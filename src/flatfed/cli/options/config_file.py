"""The configuration file: `option: value` lines in YAML. Precedence: command line, then file, then default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError, nearest
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
