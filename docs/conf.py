"""How the site is built: Sphinx, Markdown by MyST, and formulas as MathML (no scripts, no network)."""

import re

import latex2mathml.converter
from sphinx.application import Sphinx

project = "flatfed"
copyright = "the flatfed authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "flatfed"
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\$])\$([^$\n]+?)\$")


def formulas_to_mathml(app: Sphinx, page: str, source: list[str]) -> None:
    """Convert display and inline formulas outside code."""
    parts = CODE.split(source[0])
    source[0] = "".join(part if index % 2 else _convert(part) for index, part in enumerate(parts))


def _convert(text: str) -> str:
    text = DISPLAY.sub(lambda found: latex2mathml.converter.convert(found[1].strip(), display="block"), text)
    return INLINE.sub(lambda found: latex2mathml.converter.convert(found[1].strip()), text)


def setup(app: Sphinx) -> None:
    """Register the conversion."""
    app.connect("source-read", formulas_to_mathml)
