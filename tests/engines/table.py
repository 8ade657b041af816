"""The table of engines: one row each. The tests that are parametrised over it are their battery."""

from __future__ import annotations

import functools
import gc
import importlib.util
import itertools
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import flatfed as ff
from flatfed.core.method.engine import Engine
from flatfed.engines.choice import EngineConfig, engines
from flatfed.engines.ray_cluster.cluster import Cluster
from flatfed.experiments.planning.plan import Plan

TESTS = Path(__file__).parents[1]
CLUSTER = "FLATFED_CLUSTER" in os.environ
"""Whether Ray is to be tested in everything: `make cluster-faults`."""
ON_CLUSTERS = pytest.mark.skipif(not CLUSTER, reason="takes long: make cluster-faults")


@dataclass(frozen=True)
class Row:
    """An engine: its configuration for a number of workers, and what it can do."""

    config: Callable[[int], EngineConfig]
    replaces_workers: bool = True
    """A worker that dies is replaced, and its client is run again."""
    bounds_time: bool = True
    """Clients that hang are given up."""
    has_gaps: bool = True
    """Computations go on while clients are trained."""
    starts_slowly: bool = False
    """It takes seconds: some tests take a part of their cases, those of what all pools do alike none.

    `make cluster-faults` takes them all.
    """
    ample: float = 5.0
    """Seconds that are more than enough for clients that need milliseconds."""
    package: str = ""
    """What must be installed for it."""

    def start(self, plan: Plan, workers: int = 2) -> Engine:
        """Start the engine for a plan."""
        return self.config(workers).start(plan.task, plan.algorithm, plan.settings)


def _futures(workers: int) -> EngineConfig:
    config: EngineConfig = _contributed_module().Futures(workers=workers)
    return config


@functools.cache
def _contributed_module() -> ModuleType:
    """Return the engine of CONTRIBUTING.md; its id is not kept, as tests of that page enter it themselves."""
    engines()
    page = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("## Add an engine\n")[2]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "futures_of_the_page.py"
        file.write_text(block.group(1), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
    del EngineConfig.registry["futures"]
    return module


def _ray(workers: int) -> EngineConfig:
    ray_of_this_process()
    # A part of a core each: as many as a test asks for have room on any machine.
    return ff.Ray(workers=workers, minimum=workers, resources="CPU=0.1")


@functools.cache
def ray_of_this_process() -> Cluster:
    """Start Ray once: engines join it, and leave it running."""
    with pytest.MonkeyPatch.context() as patch:
        # What starts on it imports the tests' modules too.
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
        patch.setenv("RAY_TMPDIR", directory_of_ray())
        return Cluster("local")


@functools.cache
def directory_of_ray() -> str:
    """Return a directory for what Ray writes; its name is short, as the paths of sockets begin with it."""
    return tempfile.mkdtemp(prefix="ff-ray-", dir="/tmp")


def leave_ray() -> None:
    """Leave it, where a test has started it; the next one that needs it starts another."""
    if not ray_of_this_process.cache_info().currsize:
        return
    ray_of_this_process().leave()
    shutil.rmtree(directory_of_ray(), ignore_errors=True)
    ray_of_this_process.cache_clear()
    directory_of_ray.cache_clear()
    with warnings.catch_warnings():
        # Ray leaves files of its own to the garbage collector, which would speak of them in the middle of another test.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


ENGINES = {
    "in-process": Row(lambda workers: ff.InProcess(), replaces_workers=False, has_gaps=False),
    "processes": Row(lambda workers: ff.Processes(workers=workers)),
    "futures": Row(_futures, replaces_workers=False, bounds_time=False, has_gaps=False),
    "ray": Row(_ray, starts_slowly=not CLUSTER, package="ray"),
}


Choice = Callable[[Row], Iterable[Any]]


def on_engines(*names: str, needs: str = "", without: str = "", **choices: Choice) -> Any:
    """Return a parameter `row` over the engines of these names, or all, of which a fact holds (`needs`), or does not.

    A choice gives another parameter its values, for each engine its own.
    """
    return pytest.mark.parametrize(("row", *choices), rows_of(*names, needs=needs, without=without, **choices))


def rows_of(*names: str, needs: str = "", without: str = "", **choices: Choice) -> list[Any]:
    """Return the same as entries of a parametrisation."""
    entries: list[Any] = []
    for id in names or ENGINES:
        row = ENGINES[id]
        if needs and not getattr(row, needs):
            continue
        if without and getattr(row, without):
            continue
        for values in itertools.product(*(choice(row) for choice in choices.values())):
            label = "-".join([id, *map(str, values)])
            entries.append(pytest.param(row, *values, id=label, marks=marks_of(row)))
    return entries


def marks_of(row: Row) -> list[pytest.MarkDecorator]:
    """Return what skips a test where the engine's package is missing."""
    if not row.package:
        return []
    is_missing = importlib.util.find_spec(row.package) is None
    reason = f"the package {row.package} is not installed: pip install 'flatfed[{row.package}]'"
    return [pytest.mark.skipif(is_missing, reason=reason)]
