"""The runs below a folder, a line each: what `flatfed list runs` prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

COLOURS = {"finished": "green", "running": "cyan", "diverged": "yellow", "failed": "red", "unreadable": "red"}


def print_runs(folder: Path, as_json: bool) -> int:
    """Print what runs there are."""
    from flatfed.cli.data.tables import print_table
    from flatfed.experiments.comparing.finding import line_of, runs_below

    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; name one that holds runs")
    lines = list(map(line_of, runs_below(folder)))
    if as_json:
        echo(json.dumps(lines, indent=1))
        return 0
    if not lines:
        echo(f"{folder} holds no run")
        return 0
    if sys.stdout.isatty():  # a terminal has little room, and a pipe wants whole paths
        echo(f"in {folder}:")
        lines = [line | {"run": _below(folder, line["run"])} for line in lines]
    print_table(["run", "method", "data", "seed", "rounds", "last-n mean", "status"], list(map(_cells, lines)), COLOURS)
    return 0


def _below(folder: Path, run: str) -> str:
    """Return where a run lies in the folder."""
    path = Path(run)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else run


def _cells(line: dict[str, Any]) -> list[str]:
    if line["status"] == "unreadable":
        return [line["run"], "", "", "", "", "", "unreadable"]
    value = "–" if line["value"] is None else f"{line['scale'] * line['value']:.2f}"
    rounds = f"{line['rounds']}/{line['of']}"
    return [line["run"], line["method"], line["dataset"], str(line["seed"]), rounds, value, line["status"]]
