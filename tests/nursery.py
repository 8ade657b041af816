"""Processes that know nothing of the one that asks for them, without the seconds that importing torch takes.

A nursery is a process that has imported what flatfed stands on, and nothing of flatfed; it is started once. Each
process is forked from it, and is then as fresh as one that was just started.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent


def environment() -> dict[str, str]:
    """Return the variables of a process that can import these tests."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}


@dataclass(frozen=True)
class Fresh:
    """A process from the nursery, the leader of a group of its own; it hears signals, and reads nothing."""

    pid: int
    folder: Path

    def end(self, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Wait for its end, once; return its code and what it wrote."""
        try:
            code = _nursery().ask({"wait": self.pid}, timeout)
        except TimeoutError:
            os.killpg(self.pid, signal.SIGKILL)
            _nursery().ask({"wait": self.pid}, timeout)
            raise
        out, err = ((self.folder / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess([], code, out, err)


def start(*arguments: str, cwd: Path | None = None) -> Fresh:
    """Start Python with `-c PROGRAM` or `-m MODULE`, and arguments."""
    assert arguments[0] in ("-c", "-m")
    folder = Path(tempfile.mkdtemp(prefix="fresh-", dir=_nursery().folder.name))
    request = {
        "arguments": arguments,
        "cwd": str(cwd or Path.cwd()),
        "folder": str(folder),
        "environment": environment(),
    }
    return Fresh(_nursery().ask(request), folder)


class _Nursery:
    """The process that others are forked from, seen from outside."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "process_group": 0}
        self.process = subprocess.Popen([sys.executable, "-P", __file__], env=environment(), **pipes)

    def ask(self, question: dict[str, Any], timeout: float = 300) -> int:
        request, answers = self.process.stdin, self.process.stdout
        assert request is not None and answers is not None
        request.write(json.dumps(question).encode() + b"\n")
        request.flush()
        if not select.select([answers], [], [], timeout)[0]:
            raise TimeoutError(f"no answer to {question}")
        return int(answers.readline())

    def close(self) -> None:
        self.process.communicate()
        self.folder.cleanup()


@functools.cache
def _nursery() -> _Nursery:
    nursery = _Nursery()
    atexit.register(nursery.close)
    return nursery


# Inside the nursery.


def _serve() -> dict[str, Any] | None:
    """Answer until there are no more questions; return in each new process, with what it is to do."""
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                return question
        print(answer, flush=True)
    return None


def _become(asked: dict[str, Any]) -> None:
    """Be a process that was started in its folder, with its variables, arguments and files."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(asked["folder"], name), os.O_WRONLY | os.O_CREAT), number)
    sys.path[:] = ["", *filter(None, os.environ["PYTHONPATH"].split(os.pathsep))]
    sys.argv = list(asked["arguments"][1:])


def _run(kind: str, what: str) -> None:
    """Run a program as the main module."""
    import runpy
    import types

    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.argv[0] = "-c"
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)


if __name__ == "__main__":
    import gc

    import numpy.random  # noqa: F401
    import safetensors.torch  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import torch.func  # noqa: F401

    gc.freeze()
    job = _serve()
    if job:
        _become(job)
        _run(*job["arguments"][:2])
