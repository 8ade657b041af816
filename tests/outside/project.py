"""A project of a user's own with a part of every family, and a package that can be installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

PARTS = '''
from pathlib import Path

import numpy as np
import torch
from torch import nn

from flatfed.core.configuration.checking import Count, NonNegative
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.core.round.sampling import Sampler
from flatfed.data.partition import Partitioner
from flatfed.engines.choice import EngineConfig, InProcess
from flatfed.flatness.measurements import Measurement

with (Path(__file__).parent / "imported").open("a") as file:
    file.write("once\\n")


class Louder(Algorithm):
    """Gradients that are longer by a share."""

    rho: NonNegative = 0.05

    def gradient(self, client):
        return client.gradient() * (1 + self.rho)


class Softer(ClientOptimiser, id="softer"):
    """Gradients that are shorter by a share."""

    rho: NonNegative = 0.1

    def gradient(self, client):
        return client.gradient() * (1 - self.rho)


class Chosen(Algorithm, id="chosen"):
    """FedAvg with a client optimiser."""

    client_opt: ClientOptimiser = Softer()


class Newest(Average):
    """The newest model."""

    def state(self, rounds):
        return {}

    def capture(self, kept, before, after, round, rounds):
        pass

    def evaluated(self, kept, w):
        return w


class Halving(Schedule):
    """Half of it after every round."""

    start: float

    def value(self, round):
        return self.start / 2**round

    def bounds(self):
        return self.start, 0.0


class First(Sampler):
    """The first clients, in every round."""

    count: Count = 2

    def draw(self, population, seed, round, attempt):
        return list(range(min(self.count, population)))


class Even(Partitioner):
    """Every client the same number of each class."""

    shift: Count = 1

    def table(self, sizes, clients, generator):
        table = np.stack([sizes // clients] * clients)
        for c, size in enumerate(sizes):
            table[: size % clients, c] += 1
        return table


class Net(nn.Sequential):
    """One layer."""

    def __init__(self, classes, in_features):
        super().__init__(nn.Flatten(), nn.Linear(in_features, classes))


class Here(EngineConfig):
    """This process."""

    def start(self, task, algorithm, settings, pulse=lambda: None):
        return InProcess().start(task, algorithm, settings, pulse)


class Wrong:
    """The share of wrong predictions."""

    def measure(self, outputs, targets):
        return {"wrong": (outputs.argmax(1) != targets).sum().double(), "all": torch.tensor(float(len(targets)))}

    def summarise(self, totals):
        return {"error": totals["wrong"] / totals["all"]}


def load(count: int = 60):
    """A few points in four classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(count) % 4
    x = torch.randn(count, 3, generator=generator) + y[:, None]
    return x, y, x[:20], y[:20]
'''

QUICK = ("--rounds", "2", "--clients", "5", "--model", "mine.parts:Net")
EVERY_PART = (
    *("run", "mine.parts:load", "mine.parts:Louder(rho=0.2)+mine.parts:Newest", *QUICK),
    *("--partition", "mine.parts:Even", "--set", "partition.shift=2", "--sampling", "mine.parts:First(count=3)"),
    *("--lr", "mine.parts:Halving(0.1)", "--metrics", "mine.parts:Wrong", "--engine", "mine.parts:Here"),
)
"""A run of which every part is the user's own."""

STUDY = """
title: Louder
methods: {louder: "mine.parts:Louder(rho=0.2)", plain: fedavg}
dataset: mine.parts:load
model: mine.parts:Net
clients: 5
rounds: 1
lr: mine.parts:Halving(0.1)
seeds: [0]
"""


def write_project(folder: Path) -> Path:
    """Write the project, and return the folder to start in."""
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "parts.py").write_text(PARTS)
    return folder


def stranger(project: Path, folder: Path) -> tuple[Path, ...]:
    """Return where the project's module can be imported from, as that of an installed package."""
    installed = folder / "site-packages"
    if not installed.exists():
        shutil.copytree(project / "mine", installed / "mine")
        (installed / "mine" / "imported").unlink()
    return (installed,)


def imports(folder: Path) -> int:
    """Return how often the project's module was imported."""
    marks = folder / "mine" / "imported"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


class Forks:
    """The process that forks the others; it is started when it is first asked, and ends with the tests."""

    process: ClassVar[subprocess.Popen[str] | None] = None

    @classmethod
    def ask(cls, words: Sequence[str], cwd: Path, paths: Sequence[Path]) -> subprocess.CompletedProcess[str]:
        """Run a command in a process of its own, which knows nothing of earlier ones."""
        if cls.process is None:
            command = [sys.executable, "-P", str(Path(__file__).with_name("forks.py"))]
            cls.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert cls.process.stdin is not None
        assert cls.process.stdout is not None
        request = {"words": list(words), "cwd": str(cwd), "paths": list(map(str, paths))}
        print(json.dumps(request), file=cls.process.stdin, flush=True)
        code, out, err = json.loads(cls.process.stdout.readline())
        return subprocess.CompletedProcess(list(words), code, out, err)

    @classmethod
    def end(cls) -> None:
        """End it: it would wait for more, as processes that were forked meanwhile hold the pipe too."""
        if cls.process is not None:
            cls.process.kill()
            cls.process.communicate()
            cls.process = None


def flatfed(*words: str, cwd: Path, paths: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command; with `python` first, a script or a module."""
    return Forks.ask(words, cwd, paths)


def refused_each(commands: Sequence[Sequence[str]], cwd: Path, paths: tuple[Path, ...] = ()) -> list[str]:
    """Run commands that must all be refused, and return what each said."""
    return [refused(*words, cwd=cwd, paths=paths) for words in commands]


def succeed(*words: str, cwd: Path, paths: tuple[Path, ...] = ()) -> str:
    """Run a command that must work, and return what it printed."""
    done = flatfed(*words, cwd=cwd, paths=paths)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words: str, cwd: Path, paths: tuple[Path, ...] = ()) -> str:
    """Run a command that must be refused in a sentence, and return that."""
    done = flatfed(*words, cwd=cwd, paths=paths)
    assert done.returncode == 2, (words, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr
