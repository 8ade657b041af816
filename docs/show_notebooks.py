"""Run the notebooks of docs/notebooks, and write each with its results as a page: for the site and for the tests.

Notebooks are kept without results. What they print and draw is made when the site is built.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parent / "notebooks"
SECONDS = 600
"""A bound for a cell that hangs, never a pace."""
MAGIC = re.compile(r"^%%(\w+).*\n")
LANGUAGES = {"sh": "bash", "writefile": "python"}
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def notebooks() -> list[Path]:
    """Return the notebooks in order."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(text: str, folder: Path) -> Any:
    """Return a notebook with its results, run in a folder; an error in a cell is raised."""
    notebook = nbformat.reads(text, as_version=4)
    # Not in `folder`: the path of a socket is short, and what the kernel writes for itself is nobody's result.
    with tempfile.TemporaryDirectory() as own:
        client = NotebookClient(
            notebook,
            config=Config({"KernelManager": {"transport": "ipc", "connection_file": f"{own}/kernel.json"}}),
            kernel_name="python3",
            timeout=SECONDS,
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.log.setLevel(logging.WARNING)
        client.execute(env=_variables(own))
    return notebook


def _variables(own: str) -> dict[str, str]:
    """Return the environment of a notebook: commands of the one that runs this, whether it was activated or not."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": programs, "IPYTHONDIR": own, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


def markdown(notebook: Any) -> str:
    """Return a notebook as a page."""
    return "\n\n".join(part for cell in notebook.cells for part in _parts(cell)) + "\n"


def _parts(cell: Any) -> list[str]:
    """Return a cell, and what came of it."""
    if cell.cell_type == "markdown":
        return [str(cell.source)]
    return [_code(cell.source), *filter(None, map(_result, cell.outputs))]


def _code(source: str) -> str:
    """Return a code cell; what a magic such as `%%sh` runs is in a language of its own."""
    magic = MAGIC.match(source)
    if magic is None:
        return _fenced("python", source)
    kept = source if magic[1] == "writefile" else source[magic.end() :]
    return _fenced(LANGUAGES.get(magic[1], "text"), kept)


def _result(output: Any) -> str:
    """Return what a cell printed or drew."""
    if output.output_type == "stream":
        return _fenced("text", output.text)
    picture = output.data.get("image/png")
    if picture is not None:
        return f'<img class="drawn" alt="What the cell above draws" src="data:image/png;base64,{picture.strip()}">'
    return _fenced("text", output.data.get("text/plain", ""))


def _fenced(language: str, text: str) -> str:
    """Return text as a block, or nothing where there is none."""
    lines = [line.rstrip() for line in COLOUR.sub("", text).strip("\n").splitlines()]
    return f"```{language}\n" + "\n".join(lines) + "\n```" if lines else ""
