"""How the site is built: Sphinx, Markdown by MyST, notebooks that are run, and formulas as MathML (no network)."""

import re
import sys
import tempfile
from pathlib import Path

import latex2mathml.converter
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

from show_notebooks import executed, markdown

project = "flatfed"
copyright = "the flatfed authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "flatfed"
html_static_path = ["style"]
html_css_files = ["site.css"]
html_copy_source = False
smartquotes = False  # two dashes begin an option
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

ABOVE = re.compile(r"\]\(((?:\.\./)*)\.\./(SECURITY|CONTRIBUTING|CHANGELOG)\.md")
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE = re.compile(r"(?<![\\$])\$([^$\n]+?)\$")


def run_notebook(app: Sphinx, page: str, source: list[str]) -> None:
    """Run a notebook, and let the page be what came of it; an error in a cell ends the build."""
    if Path(app.env.doc2path(page)).suffix == ".ipynb":
        with tempfile.TemporaryDirectory() as folder:
            source[0] = markdown(executed(source[0], Path(folder)))


def link_pages_of_the_root(app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to files such as SECURITY.md, which lie above the docs, lead to the pages that include them."""
    source[0] = ABOVE.sub(lambda found: f"]({found[1]}{found[2].lower()}.md", source[0])


def formulas_to_mathml(app: Sphinx, page: str, source: list[str]) -> None:
    """Convert display and inline formulas outside code."""
    parts = CODE.split(source[0])
    source[0] = "".join(part if index % 2 else _convert(part) for index, part in enumerate(parts))


def _convert(text: str) -> str:
    text = DISPLAY.sub(lambda found: latex2mathml.converter.convert(found[1].strip(), display="block"), text)
    return INLINE.sub(lambda found: latex2mathml.converter.convert(found[1].strip()), text)


def setup(app: Sphinx) -> None:
    """Register the conversions, in this order."""
    app.connect("source-read", run_notebook, priority=400)
    app.connect("source-read", link_pages_of_the_root)
    app.connect("source-read", formulas_to_mathml)
