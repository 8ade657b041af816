"""What no test leaves to luck: the draws, the global generators, and whether signals are heard."""

import gc
import math
import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from browser import launched
from flatfed.cli.output import progress
from flatfed.machine import STOP_SIGNALS
from shares import REST, SHARE, files_with_rest, in_share

# A slow machine is no failure of what is tested: no deadlines, no check of how long the drawing took.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", unhurried, derandomize=True, database=None)
settings.register_profile("fuzz", unhurried, derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("fuzz" if os.environ.get("FLATFED_FUZZ") else "fixed")

# Hypothesis mixes constants into its draws that it reads from the modules imported so far, and what is imported
# so far depends on which tests a process has run before. Without them the fixed draws are the same in any order.
if not os.environ.get("FLATFED_FUZZ") and hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# Commands that run in the process of a test say no line because time has passed.
progress.LINE_SECONDS = math.inf


def seed_everything() -> None:
    """Seed the generators that belong to nobody; what a test draws from them depends on no other test."""
    random.seed(20)
    np.random.seed(20)  # noqa: NPY002
    # Not `torch.manual_seed`: without a GPU it keeps, at each call, where it was called, in case there is one later.
    torch.default_generator.manual_seed(20)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(20)


FILES_OF_REST = files_with_rest()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that have nothing for this share: reading all of them takes each process half a minute."""
    if SHARE == REST and collection_path.suffix == ".py" and collection_path not in FILES_OF_REST:
        return True
    return None


def pytest_collectstart() -> None:
    """Seed before a module is imported."""
    seed_everything()


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of the garbage collector's sight: it would look through them all day."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed before the fixtures of a test, also those that others share."""
    seed_everything()


# Tests that need a Ray share one, which is there for them alone: they run one after another, in one process.
NEEDS_RAY = re.compile(r"test_ray\.py|\[(.*\W)?ray\b")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in this share of the tests, and put those that need Ray together, at the end."""
    chosen = in_share([item.nodeid for item in items], SHARE)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]
    items.sort(key=needs_ray)


def needs_ray(item: pytest.Item) -> bool:
    """Say whether a test needs the Ray of its process."""
    return NEEDS_RAY.search(item.nodeid) is not None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave Ray after the last test that needs it: nothing else is to run beside its threads."""
    if needs_ray(item) and (nextitem is None or not needs_ray(nextitem)):
        table = sys.modules.get("engines.table")
        if table is not None:
            table.leave_ray()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files to workers as `--dist loadfile` does, and all tests that need Ray to one of them."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneRay(LoadFileScheduling):
        """Files, and one group more. What takes long begins first: no worker is to wait for it at the end."""

        first = ("tests/flower/test_federation.py", "ray")

        def _split_scope(self, nodeid: str) -> str:
            return "ray" if NEEDS_RAY.search(nodeid) else super()._split_scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            for scope in reversed(self.first):
                if scope in self.workqueue:
                    self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return OneRay(config, log)


@pytest.fixture
def signals_heard() -> Iterator[None]:
    """Signals that ask to stop have their usual effect in this test and in the processes that it starts.

    A job in the background of a script ignores Ctrl-C, and so do all its children, these tests among them.
    """
    usual: dict[signal.Signals, Any] = dict.fromkeys(STOP_SIGNALS, signal.SIG_DFL)
    usual[signal.SIGINT] = signal.default_int_handler
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def browser_process() -> Iterator[Any]:
    """A browser for the tests of a module, which are skipped where there is none (`needs_browser`)."""
    with launched() as browser:
        yield browser


@pytest.fixture
def browser(browser_process: Any) -> Iterator[Any]:
    """The browser of the module, without pages: those of a test are closed after it, and take nobody's time."""
    yield browser_process
    for context in browser_process.contexts:
        context.close()
