"""What a user waits for before anything happens, and for a short run from the shell to its end."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from harness import Result, take_turns

from flatfed.data.catalogue.registry import load
from flatfed.data.directory import MissingData


class Command:
    """A fresh Python that does one thing; its modules are compiled, as those of an installed package are."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name, self._arguments, self.cpu = name, arguments, list[float]()
        self._folder = tempfile.TemporaryDirectory()
        self._environment = os.environ | {"TMPDIR": self._folder.name}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def round(self) -> float:
        command = [sys.executable, *self._arguments]
        used, started = _cpu_of_children(), time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=self._environment)
        seconds = time.perf_counter() - started
        self.cpu.append(_cpu_of_children() - used)
        return seconds

    def close(self) -> None:
        self._folder.cleanup()


def _cpu_of_children() -> float:
    """Return the CPU seconds of all processes that this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


TORCH, FLATFED, HELP = "import torch", "import torch, flatfed", "flatfed --help"
ONE_ROUND, CIFAR = "flatfed run digits fedavg --rounds 1", "cifar10, divided"
EVERY = "import torch; import flatfed as ff; ff.Task, ff.make, ff.train"
ROUND = """['run', 'digits', 'fedavg', '--rounds', '1', '--out', __import__('tempfile').mkdtemp() + '/run']"""
DIVIDED = "from flatfed.experiments.tasks.recipe import TaskRecipe as T; T('cifar10', clients=100).build()"


def start(repeats: int) -> dict[str, Result]:
    """Return the seconds of each command, and its CPU seconds, which other work on the machine disturbs less."""
    commands = [
        Command(TORCH, "-c", "import torch"),
        Command(FLATFED, "-c", EVERY),
        Command(HELP, "-c", "from flatfed.cli.main import main; main(['--help'])"),
        Command(ONE_ROUND, "-c", f"from flatfed.cli.main import main; main({ROUND})"),
    ]
    if _has_cifar():
        commands.append(Command(CIFAR, "-c", f"{EVERY}; {DIVIDED}"))
    results = take_turns("start", [lambda command=command: command for command in commands], repeats)
    for command in commands:
        # The first warmed up.
        results[command.name].facts["cpu_seconds"] = statistics.median(command.cpu[1:])
    return results


def _has_cifar() -> bool:
    try:
        load("cifar10")
    except MissingData:
        return False
    return True
