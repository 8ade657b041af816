"""Sites that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sites.bench import Forked, remove, short_folder


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder for sites, with a short path."""
    folder = short_folder()
    yield folder
    remove(folder)


@pytest.fixture(scope="session")
def running() -> Iterator[Forked]:
    """Three sites in processes of their own, for all tests of this process."""
    folder = short_folder()
    sites = Forked(folder).start()
    yield sites
    sites.end()
    remove(folder)


@pytest.fixture
def sites(running: Forked) -> Forked:
    """The three sites, all of them up."""
    running.revive()
    return running
