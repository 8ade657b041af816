"""The command line as a test uses it: in this process, on a pseudo-terminal, or as a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from flatfed.cli.main import main
from flatfed.core.round.federation import TIMES
from flatfed.runs.records.files import KEY

SMALL = (
    "--rounds",
    "3",
    "--clients",
    "5",
    "--per-round",
    "2",
    "--workers",
    "0",
    "--model",
    "logreg",
    "--evaluate-every",
    "1",
    "--evaluate-last",
    "3",
)
COMPARED = ("fedavg", "feddyn+sam", "fedsam")
SEEDS = (0, 1, 2)
PROCESS = (sys.executable, "-c", "from flatfed.cli.main import main; main()")
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code, and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document, by the letter of the standard."""
        return strict_json(self.out)


def flatfed(*arguments: object) -> Outcome:
    """Run a command in this process, away from a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _code(arguments)
    return Outcome(code, out.getvalue(), err.getvalue())


def on_terminal(*arguments: object, columns: int = 80) -> Outcome:
    """Run a command in this process with standard output and standard error on two pseudo-terminals."""
    with (
        pytest.MonkeyPatch.context() as patch,
        terminal(columns) as (out, out_text),
        terminal(columns) as (err, err_text),
    ):
        patch.setenv("COLUMNS", str(columns))  # sizes are otherwise asked of the process's own standard output
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _code(arguments)
        out.close()
        err.close()
        return Outcome(code, CODES.sub("", out_text()), CODES.sub("", err_text()))


@contextlib.contextmanager
def terminal(columns: int) -> Iterator[tuple[Any, Any]]:
    """Open a pseudo-terminal: the end to write to, and a function that returns what was written once it is closed."""
    leader, follower = os.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    written: list[bytes] = []

    def drain() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(leader, 65536):
                written.append(piece)

    reader = threading.Thread(target=drain)
    reader.start()

    def text() -> str:
        reader.join()
        return b"".join(written).decode()

    stream = os.fdopen(follower, "w", encoding="utf-8")
    try:
        yield stream, text
    finally:
        stream.close()
        reader.join()
        os.close(leader)


@contextlib.contextmanager
def without_pictures() -> Iterator[None]:
    """Leave the figures and pages of landscapes and measurements empty, where nobody looks at them."""

    def leave_empty(figure: object, files: Sequence[Path], *rest: object) -> None:
        for file in files:
            file.touch()

    with pytest.MonkeyPatch.context() as patch:
        for name in ("surfaces", "contours", "lines", "corruptions"):
            patch.setattr(f"flatfed.reports.figures.{name}.finish", leave_empty)
        patch.setattr("flatfed.reports.landscape.write_surface_page", lambda grids, page, *words: page.touch())
        yield


def refused(outcome: Outcome, *parts: str) -> None:
    """Check that a command was refused as it should be: code 2 and one clear sentence that holds `parts`."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    lines = [line for line in outcome.err.splitlines() if line.strip()]
    assert len(lines) <= 3, outcome.err  # click puts a line of usage and a hint before its sentence
    assert lines[-1].startswith("Error: ")
    assert len(lines[-1]) < 300
    for part in parts:
        assert part in lines[-1]


def strict_json(text: str) -> Any:
    """Read JSON without Python's NaN and Infinity."""

    def no(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=no)


def read_json(path: Path) -> Any:
    return strict_json(path.read_text(encoding="utf-8"))


def read_history(run: Path) -> list[dict[str, Any]]:
    """Return the rows of a history, read by the letter of the standard, without the seals of its lines."""
    rows = [strict_json(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != KEY} for row in rows]


def without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def fingerprint(directory: Path) -> dict[str, str]:
    """Return every file below a directory and the hash of its content."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): sha256(path.read_bytes()).hexdigest() for path in files}


def _code(arguments: tuple[object, ...]) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    raise AssertionError("main() returned instead of exiting")
