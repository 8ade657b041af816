"""The options of the training settings, made from their declarations in `core/configuration/settings.py`."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click

from flatfed.cli.options.groups import Decorator, option
from flatfed.cli.options.values import Number, Whole
from flatfed.core.configuration.checking import Range
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.settings import About, Settings, about_settings, defaults


def settings_options() -> list[Decorator]:
    """Return an option for each setting that has one."""
    hints = parameters(Settings)
    return [_option(name, hints[name], about) for name, about in about_settings().items() if about.group]


def _option(name: str, hint: Any, about: About) -> Decorator:
    spell = _spelling(hint)
    return option(
        spell(name),
        _help(about),
        _type(name, hint, about),
        defaults().get(name, about.usual),
        group=about.group,
        old=tuple(map(spell, _old_names(name))),
    )


def _old_names(name: str) -> list[str]:
    return [old for old, today in Settings.renamed.items() if today == name]


def _spelling(hint: Any) -> Callable[[str], str]:
    """Return how an option of this kind is spelled: a truth value has an option for yes and one for no."""
    if bool in get_args(hint):
        return _flag
    return _long


def _long(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _flag(name: str) -> str:
    spelling = name.replace("_", "-")
    return f"--{spelling}/--no-{spelling}"


def _help(about: About) -> str:
    text = about.text.replace("{none}", f"`{about.none}`")
    if not about.otherwise:
        return text
    return f"{text}  [default: {about.otherwise}]"


def _type(name: str, hint: Any, about: About) -> Any:
    """Return what kind of values the option takes, from the setting's annotation."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _type(name, _other_than_none(hint), about)
    if origin is Literal:
        return click.Choice(get_args(hint))
    if origin is Annotated:
        return _number_type(name, hint, about)
    if hint is bool:
        return None  # a flag has no values
    return hint


def _other_than_none(hint: Any) -> Any:
    return next(part for part in get_args(hint) if part is not type(None))


def _number_type(name: str, hint: Any, about: About) -> Number | Whole:
    kind, allowed = get_args(hint)
    assert isinstance(allowed, Range)
    if kind is int:
        return Whole(int(allowed.low), about.none)
    return Number(Settings.may_vary(name))
