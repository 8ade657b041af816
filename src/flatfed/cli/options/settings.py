"""The options of a run, made from their declarations: those of `spelling/declared.py`, and the training settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatfed.cli.options.groups import Decorator, option
from flatfed.cli.options.values import click_type
from flatfed.core.configuration.settings import About, about_settings
from flatfed.experiments.spelling.declared import OPTIONS, RENAMED, TRAINING
from flatfed.experiments.spelling.kinds import Kind, TruthKind


def run_option(name: str, help: str, **extra: Any) -> Decorator:
    """Return the option of a run with this name; `extra` as in `option`."""
    declared = OPTIONS[name]
    old = tuple(map(_long, _old_names(name)))
    if isinstance(declared.kind, TruthKind):
        return option(_long(name), help, is_flag=True, old=old, **extra)
    # The default may have a word of its own on the command line.
    given = {"default": declared.default} | extra
    return option(_long(name), help, click_type(declared.kind), old=old, **given)


def settings_options() -> list[Decorator]:
    """Return an option for each training setting that has one."""
    about = about_settings()
    return [_option(name, about[name]) for name in TRAINING]


def _option(name: str, about: About) -> Decorator:
    declared = OPTIONS[name]
    spell = _spelling(declared.kind)
    return option(
        spell(name),
        _help(about),
        click_type(declared.kind),
        declared.default,
        group=about.group,
        old=tuple(map(spell, _old_names(name))),
    )


def _old_names(name: str) -> list[str]:
    return [old for old, today in RENAMED.items() if today == name]


def _spelling(kind: Kind) -> Callable[[str], str]:
    """Return how an option of this kind is spelled: a truth value has an option for yes and one for no."""
    if isinstance(kind, TruthKind):
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
