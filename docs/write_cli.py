"""Write the reference of the command line, every command's help as a page: docs/cli.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from flatfed.cli.main import cli

PAGE = Path(__file__).parent / "cli.md"
HEAD = """\
# Command-line reference

<!-- made by `make index` from the help of each command -->

What `flatfed COMMAND --help` prints, for every command. Where options are many, the most used come first.
"""
AS_IT_IS = "\b\n"
"""What stands before a paragraph that Click does not wrap."""


class MarkdownHelp(click.HelpFormatter):
    """Takes what a command says of itself, and writes it as Markdown."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write how the command is called."""
        self.write(f"```bash\n{prog} {args}\n```\n\n")

    def write_heading(self, heading: str) -> None:
        """Write the name of a group of options."""
        self.write(f"**{heading}**\n\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs; those that are laid out by hand stay as they are."""
        for paragraph in re.split(r"\n\n+", text.strip()):
            self.write(f"{_paragraph(paragraph)}\n\n")

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options, or commands, as a table."""
        named = "option" if rows[0][0].startswith("-") else "command"
        self.write(f"| {named} | what it does |\n|---|---|\n")
        for term, meaning in rows:
            self.write(f"| {_cell(f'`{term}`')} | {_cell(_plain(meaning))} |\n")
        self.write("\n")


def _paragraph(text: str) -> str:
    """Return a paragraph of a help text."""
    if text.startswith(AS_IT_IS):
        return f"```text\n{text.removeprefix(AS_IT_IS)}\n```"
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """Return words in which nothing but quoted code, options among it, means anything to Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if index % 2 else _escaped(part) for index, part in enumerate(parts))


def _escaped(text: str) -> str:
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", re.sub(r"([*_<$\[\]])", r"\\\1", text))


def _cell(text: str) -> str:
    """Return words as they stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Yield a command, and those that are called through it, each with the words that call it."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, click.Context(found, info_name=name, parent=context))


def section(context: click.Context) -> str:
    """Return the part of the page about one command."""
    formatter = MarkdownHelp()
    context.command.format_help(context, formatter)
    depth = "##" if context.parent is None or context.parent.parent is None else "###"
    return f"\n{depth} {context.command_path}\n\n{formatter.getvalue().rstrip()}\n"


def page() -> str:
    """Return the page as it is now."""
    return HEAD + "".join(map(section, commands(cli, click.Context(cli, info_name="flatfed", **cli.context_settings))))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE} is out of date; run `make index`")
    PAGE.write_text(page(), encoding="utf-8")
