"""What a user waits for before anything happens."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from harness import Maker, Result, take_turns


class Command:
    """A fresh Python that does one thing."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name, self._arguments = name, arguments

    def round(self) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *self._arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started

    def close(self) -> None:
        pass


ONE_ROUND = "flatfed run digits fedavg --rounds 1"
ROUND = """['run', 'digits', 'fedavg', '--rounds', '1', '--out', __import__('tempfile').mkdtemp() + '/run']"""
DIVIDED = "from flatfed.experiments.tasks.recipe import TaskRecipe as T; T('cifar10', clients=100).build()"


def start(repeats: int) -> dict[str, Result]:
    every = "import flatfed as ff; ff.Task, ff.make, ff.train"
    makers: list[Maker] = [
        partial(Command, "import torch", "-c", "import torch"),
        partial(Command, "import torch, flatfed", "-c", f"import torch; {every}"),
        partial(Command, "flatfed --help", "-c", "from flatfed.cli.main import main; main(['--help'])"),
        partial(Command, ONE_ROUND, "-c", f"from flatfed.cli.main import main; main({ROUND})"),
        partial(Command, "cifar10, divided", "-c", f"import torch; {every}; {DIVIDED}"),
    ]
    return take_turns("start", makers, repeats)
