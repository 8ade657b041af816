"""The page itself: a template filled with data, with style, script and the drawing library inside the one file."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatfed import __version__
from flatfed.core.errors import ConfigError
from flatfed.reports.page.gather import Data, ViewSource, gather
from flatfed.reports.page.page_files import (
    look_of_pages,
    plotly_script,
    report_policy,
    report_script,
    report_style,
    shared_file,
)
from flatfed.runs.records.files import replace_file

PAGE = "report.html"
NEEDED = ("jinja2", "plotly")
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script or be read as markup, as JSON writes it too."""


def available() -> bool:
    """Say whether a page can be made: what it needs besides flatfed is there."""
    return not _missing()


def _missing() -> list[str]:
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def require_page() -> None:
    """Raise a `ConfigError` where no page can be made."""
    if not available():
        raise ConfigError(f"the report as a page needs {' and '.join(_missing())}; pip install 'flatfed[report]'")


def write_page(file: Path, title: str, sources: Sequence[ViewSource], studies: Sequence[Data] = ()) -> None:
    """Write the page of some results; the same results make the same file."""
    require_page()
    text = page_text(gather(title, sources, studies))
    # Replaced, not written to: it may be a link that somebody put there.
    replace_file(file, text.encode())


def page_text(data: Data) -> str:
    """Return the page: it holds all it needs, and the browser itself keeps it from asking anyone for anything."""
    text: str = _template().render(
        data=data,
        version=__version__,
        policy=report_policy(),
        style=report_style(),
        library=plotly_script(),
        script=report_script(),
        json=script_json({"look": look_of_pages(), "views": [_drawn(view) for view in data["views"]]}),
    )
    return text


DRAWN = ("name", "curves", "flatness", "clients")


def _drawn(view: Data) -> Data:
    """Return what the script draws of a view; tables are in the page as they are."""
    return {name: view[name] for name in DRAWN}


def script_json(value: Any) -> str:
    """Return JSON that can stand in a script: whatever its texts hold, none of it ends the script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, code in UNSAFE.items():
        text = text.replace(character, code)
    return text


def _template() -> Any:
    jinja2 = importlib.import_module("jinja2")
    loader = jinja2.FunctionLoader(shared_file)
    # Names and settings are the user's words, and no markup; a word that is misspelled here is an error.
    environment = jinja2.Environment(
        autoescape=True, loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2")
