"""The one way to standard output and standard error: what a file says is shown and never a command to the terminal."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable
from typing import Any

import click

from flatfed.core.configuration.plain import escaped


def echo(text: str, err: bool = False, nl: bool = True) -> None:
    """Print a text, by default with a line break, on standard output or standard error."""
    click.echo(escaped(text), err=err, nl=nl)


def show_error(error: click.ClickException) -> None:
    """Print an error of click, which may name what stands in a configuration file."""
    text = io.StringIO()
    error.show(text)
    echo(text.getvalue(), err=True, nl=False)


def console(**options: Any) -> Any:
    """Return a console of rich, whose own codes for colours and lines are meant; texts in it are escaped."""
    return _console_class()(**options)


@functools.cache
def _console_class() -> Any:
    """Return the class; made when first used, because help and JSON do without rich."""
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        """Escapes whatever is text, in tables and bars too."""

        def render_str(self, text: str, **options: Any) -> Any:
            """Return a string as a text; escaped before its width is measured."""
            return super().render_str(escaped(text), **options)

        def render(self, *args: Any, **options: Any) -> Iterable[Segment]:
            """Yield the pieces of an object."""
            for piece in super().render(*args, **options):
                if piece.control is None:
                    yield Segment(escaped(piece.text), piece.style)
                else:
                    yield piece

    return EscapingConsole
