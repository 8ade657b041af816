"""Settings by name: `--set rho=0.1`, the `set` of a file, and --alpha and --beta, which are short for two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from flatfed.cli.options.config_file import file_settings
from flatfed.core.errors import ConfigError

PARTITION, MODEL, DATA = "partition.", "model.", "data."
SHORT = ("alpha", "beta")
"""Parameters of the partition that have an option of their own."""


@dataclass(frozen=True)
class NamedSettings:
    """What was set by name, in the file or, going before it, on the command line.

    Args:
        methods: settings of methods, as they are written.
        partition: parameters of the partition.
        model: options of the model.
        data: options of the data.
        short: --alpha and --beta, which are in `partition` too.
        of_file: names among `methods` that only the file sets.
    """

    methods: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    short: dict[str, float]
    of_file: frozenset[str]


def gather_settings(ctx: click.Context, texts: tuple[str, ...], spellings: list[str]) -> NamedSettings:
    """Return what is set in the file and on the command line, the latter going first.

    A file may serve many methods: what it sets for others than these is left out.
    """
    from flatfed.experiments.spelling.methods import relevant

    in_file = relevant(file_settings(ctx), spellings)
    typed = typed_once(texts)
    short_in_file = _short(ctx, in_file, in_file=True)
    short_typed = _short(ctx, typed, in_file=False)
    short = _preferred(short_in_file, short_typed)
    # What comes later replaces what came before: so the command line goes before the file, name by name.
    settings = in_file | _long(short_in_file, short) | typed | _long(short_typed, short)
    return NamedSettings(
        _of_methods(settings),
        _of(PARTITION, settings),
        _of(MODEL, settings),
        _of(DATA, settings),
        short,
        # These give way to what stands in brackets behind a method.
        frozenset(in_file.keys() - typed.keys()),
    )


def typed_once(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return what --set says; a name that is given twice is an error."""
    from flatfed.experiments.spelling.methods import parse_setting

    typed: dict[str, Any] = {}
    for name, value in map(parse_setting, texts):
        if name in typed:
            raise ConfigError(f"--set {name} is given twice, as {typed[name]} and as {value}; give it once")
        typed[name] = value
    return typed


def _short(ctx: click.Context, settings: dict[str, Any], in_file: bool) -> dict[str, float]:
    """Return --alpha and --beta, as far as they come from the file or from the command line; each may come once."""
    short: dict[str, float] = {}
    for name in SHORT:
        if in_file == _comes_from_file(ctx, name) and ctx.params.get(name) is not None:
            short[name] = ctx.params[name]
            _refuse_both(name, short[name], settings)
    return short


def _comes_from_file(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def _refuse_both(name: str, value: float, settings: dict[str, Any]) -> None:
    long = f"{PARTITION}{name}"
    if long in settings:
        raise ConfigError(f"--{name} {value:g} and --set {long}={settings[long]} say the same thing; give one of them")


def _preferred(in_file: dict[str, float], typed: dict[str, float]) -> dict[str, float]:
    """Return --alpha and --beta of both; one that is typed replaces the other one of the file."""
    both = in_file | typed
    if len(both) == len(SHORT) and len(typed) == 1:
        return typed
    return both


def _long(short: dict[str, float], preferred: dict[str, float]) -> dict[str, Any]:
    """Return --alpha and --beta under their full names, as far as they are preferred."""
    return {f"{PARTITION}{name}": value for name, value in short.items() if name in preferred}


def _of(prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def _of_methods(settings: dict[str, Any]) -> dict[str, Any]:
    others = (PARTITION, MODEL, DATA)
    return {name: value for name, value in settings.items() if not name.startswith(others)}
