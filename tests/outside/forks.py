"""Started as `python -P forks.py`: runs what each line of its input asks for, each in a process of its own.

Each is forked after the imports: as fresh as one that was just started, with no part from outside, without the seconds
that importing torch takes.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot  # noqa: F401  (imported here, once, and not in each fork)
import torch.func  # noqa: F401

import flatfed
import flatfed.cli.page.pages
import flatfed.reports.write
from flatfed.cli.main import cli, main

PYTHON = "python"


def load_commands() -> None:
    """Import every command, and what they import when they run."""
    for name in cli.list_commands(None):  # type: ignore[arg-type]  (the list needs no context)
        cli.get_command(None, name)  # type: ignore[arg-type]
    flatfed.train  # noqa: B018  (loads what a run needs)


def draw_nothing() -> None:
    """Leave the curves beside runs empty and write no pages of comparisons: they would take most of the time."""
    flatfed.reports.write.draw_curves = lambda results, files, title: [file.touch() for file in files]
    flatfed.cli.page.pages.comparison_page = lambda results, comparison, out: []


def run(request: dict[str, Any]) -> None:
    """Do what a request asks for, as a process would that was started so."""
    os.chdir(request["cwd"])
    folders = request["paths"]
    os.environ |= {"PYTHONPATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0] = folders
    sys.dont_write_bytecode = True
    first, *words = request["words"]
    if first != PYTHON:
        main([first, *words])
        return
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, request["cwd"])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).absolute().parent))
    runpy.run_path(words[0], run_name="__main__")


def forked(request: dict[str, Any], out: Path, err: Path) -> int:
    """Do what a request asks for in a fork, and return its exit code."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for number, file in ((1, out), (2, err)):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            run(request)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    load_commands()
    draw_nothing()
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        for line in sys.stdin:
            code = forked(json.loads(line), out, err)
            print(json.dumps([code, out.read_text(), err.read_text()]), flush=True)
