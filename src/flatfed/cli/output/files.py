"""Files that an option asks for; where one cannot be written the error names the option."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

PICTURES = (".png", ".svg", ".pdf")


def refuse_other_pictures(figure: Path | None) -> None:
    """Refuse a name for --figure that says no kind of picture."""
    if figure is not None and figure.suffix.lower() not in PICTURES:
        raise ConfigError(f"--figure {figure}: the name must end in .png, .svg or .pdf")


def tell_figure(files: Sequence[Path]) -> None:
    """Say on standard error where a figure lies."""
    echo(f"figure: {', '.join(map(str, files))}", err=True)


def tell_report(files: Sequence[Path]) -> None:
    """Say where the report lies: the page for a browser, or else the text."""
    reports = [file for ending in (".html", ".md") for file in files if file.suffix == ending]
    if reports:
        echo(f"report: {reports[0]}", err=True)


def refuse_unwritable(option: str, path: Path, folder: Path) -> None:
    """Refuse a place that cannot be written before anything is measured for it."""
    from flatfed.runs.records.files import is_writable

    if not is_writable(folder):
        raise ConfigError(f"{option} {path}: {folder} cannot be written; name another place")


@contextmanager
def written_for(option: str, path: Path) -> Iterator[None]:
    """Say which option's file or folder could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{option} {path}: {error.strerror or error}") from None
