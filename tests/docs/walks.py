"""How many files a reader opens who follows a command: the modules of flatfed of which a function runs.

    python tests/docs/walks.py              the number of files of each walk
    python tests/docs/walks.py --files      with the files, and how many of their functions are called

A walk is one command in one process (`--workers 0`). What runs because a module is imported (its top, decorators,
registrations) does not count; nor do methods that Python itself makes, such as the constructors of data classes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

CO_OPTIMIZED = 1
"""The flag of a function's code; bodies of modules and classes do not have it."""

COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
"""Functions to Python, and no places to open."""

Files = dict[str, list[str]]
"""The functions that are called, by the file below the package."""


def walk_all(folder: Path) -> dict[str, Files]:
    """Play the three walks one after another in a folder; each goes on with the run of the first."""
    run = ["run", "digits", "feddyn+sam", "--rounds", "2", "--clients", "8", "--workers", "0", "--out", "walked"]
    return {
        "run": walk(folder, run),
        "resume": walk(folder, ["resume", "walked", "--rounds", "3", "--workers", "0"]),
        "landscape": walk(folder, ["landscape", "walked", "--points", "3", "--samples", "50", "--workers", "0"]),
    }


def walk(folder: Path, words: list[str]) -> Files:
    """Run a command in a process of its own, and return what it called."""
    counts = folder / "functions.json"
    counts.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, __file__, str(counts), *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    functions: Files = json.loads(counts.read_text(encoding="utf-8"))
    return functions


class Watch:
    """Notes every piece of a package's code that runs."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.codes: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, as `sys.setprofile` says it."""
        if event != "call" or frame.f_code in self.codes:
            return
        if self.is_within(frame.f_code) and not self.is_importing(frame):
            self.codes.add(frame.f_code)

    def is_within(self, code: CodeType) -> bool:
        """Say whether code is of the package."""
        return code.co_filename.startswith(f"{self.package}{os.sep}")

    def is_importing(self, frame: FrameType | None) -> bool:
        """Say whether a module of the package is being imported, and calls this."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and self.is_within(frame.f_code):
                return True
            frame = frame.f_back
        return False

    def start(self) -> None:
        """Begin, in this thread and in those that are started later."""
        threading.setprofile(self)
        sys.setprofile(self)

    def functions(self) -> Files:
        """Return the functions that were called."""
        files: Files = {}
        for code in self.codes:
            if code.co_flags & CO_OPTIMIZED and code.co_name not in COMPREHENSIONS:
                file = str(Path(code.co_filename).relative_to(self.package))
                files.setdefault(file, []).append(code.co_qualname)
        return {name: sorted(files[name]) for name in sorted(files)}


def play(counts: Path, words: list[str]) -> None:
    """Play a command in this process, and write what it called."""
    spec = importlib.util.find_spec("flatfed")
    assert spec is not None and spec.origin is not None
    watch = Watch(Path(spec.origin).parent)
    watch.start()
    from flatfed.cli.main import main

    sys.argv = ["flatfed", *words]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
    counts.write_text(json.dumps(watch.functions()), encoding="utf-8")


def show(walks: dict[str, Files], with_files: bool) -> None:
    """Print the numbers, and the files where they are wanted."""
    for name, files in walks.items():
        print(f"{name}: {len(files)} files")
        for file in files if with_files else ():
            print(f"  {len(files[file]):3}  {file}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if len(sys.argv) > 2:
        play(Path(sys.argv[1]), sys.argv[2:])
    else:
        with tempfile.TemporaryDirectory() as place:
            show(walk_all(Path(place)), "--files" in sys.argv)
