"""Errors in the words of the command line: `--lr` where Python says `lr`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from flatfed.cli.options.config_file import file_settings, options_of
from flatfed.core.errors import CheckpointError, ConfigError

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
