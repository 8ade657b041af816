"""Directories of shared memory: what a killed process leaves is removed by the next, and nothing else is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flatfed.engines.processes.shared_directory import OWNER, SharedDirectory, sweep

NAME = "flatfed-abcd_123"
DAYS_AGO = time.time() - 2 * 24 * 3600
GONE = 2**22 + 1
"""A process id beyond those that Linux gives out."""


@pytest.fixture
def left(tmp_path: Path) -> Callable[..., Path]:
    """Make a directory as a pool that is gone leaves it."""

    def make(*files: str, name: str = NAME, old: bool = False) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        for file in files:
            (directory / file).write_bytes(b"1")
        if old:
            os.utime(directory, (DAYS_AGO, DAYS_AGO))
        return directory

    return make


class Owner:
    """A process that holds a directory of shared memory until it is killed."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.write(writer, os.fsencode(SharedDirectory().path))
            signal.pause()
            os._exit(70)
        self.path = Path(os.fsdecode(os.read(reader, 1000)))
        os.close(reader)
        os.close(writer)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    if owner.path.exists():
        owner.kill()
        sweep(owner.path.parent)


def test_what_a_killed_process_leaves_is_removed_by_the_next_that_starts(owner: Owner) -> None:
    (owner.path / "worker0-down-1-1").write_bytes(b"1")
    first = SharedDirectory()
    assert owner.path.exists(), "its owner lives"
    owner.kill()
    assert owner.path.exists()
    second = SharedDirectory()
    assert not owner.path.exists()
    for directory in (first, second):
        assert directory.path.exists(), "a process must not take its own"
        directory.remove()


def test_a_forked_process_neither_has_the_lock_nor_lets_it_go() -> None:
    directory = SharedDirectory()
    child = os.fork()
    if child == 0:
        os.close(directory._owner)
        os._exit(0)
    os.waitpid(child, 0)
    other = os.fork()
    if other == 0:
        from flatfed.engines.processes import shared_directory

        shared_directory._OWN.clear()  # as in a process that knows nothing of it
        sweep(directory.path.parent)
        os._exit(int(not directory.path.exists()))
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0
    directory.remove()
    assert not directory.path.exists()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory here")
def test_the_shared_directory_is_private_and_in_memory() -> None:
    first, second = SharedDirectory(), SharedDirectory()
    assert first.path != second.path
    assert first.path.stat().st_mode & 0o077 == 0
    assert first.path.parent == Path("/dev/shm")
    first.remove()
    second.remove()


def test_one_whose_lock_is_free_is_removed(left: Callable[..., Path], tmp_path: Path) -> None:
    directory = left(OWNER, "anything")
    sweep(tmp_path)
    assert not directory.exists()


def test_one_that_is_being_made_stays(left: Callable[..., Path], tmp_path: Path) -> None:
    directory = left(f"{OWNER}.tmp")
    sweep(tmp_path)
    assert directory.exists()


@pytest.mark.parametrize("name", ["flatfed-results", "flatfed-abcd_1234", "other-abcd_123"])
def test_a_name_that_is_not_ours_stays(name: str, left: Callable[..., Path], tmp_path: Path) -> None:
    directory = left(OWNER, name=name)
    sweep(tmp_path)
    assert directory.exists()


def test_a_link_is_not_followed(left: Callable[..., Path], tmp_path: Path) -> None:
    target = left(OWNER, "precious", name="elsewhere")
    (tmp_path / NAME).symlink_to(target)
    inner = left(name="flatfed-abcd_124")
    (inner / OWNER).symlink_to(target / OWNER)
    sweep(tmp_path)
    assert {file.name for file in target.iterdir()} == {OWNER, "precious"}
    assert (tmp_path / NAME).is_symlink()
    assert inner.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can make files of others")
def test_what_belongs_to_somebody_else_stays(left: Callable[..., Path], tmp_path: Path) -> None:
    directory = left(OWNER)
    os.chown(directory, 65534, 65534)
    sweep(tmp_path)
    assert directory.exists()


@pytest.mark.parametrize(
    ("files", "old", "stays"),
    [
        ([f"worker0-up-{GONE}-1", f"down0-{GONE}-2", f"given3-{GONE}-1"], True, False),
        ([f"worker0-up-{GONE}-1"], False, True),
        ([f"worker0-up-{GONE}-1", f"worker0-down-{os.getpid()}-1"], True, True),
        ([f"worker0-up-{GONE}-1", "thesis.tex"], True, True),
        ([], True, True),
    ],
    ids=["of an earlier version", "young", "its process lives", "something else in it", "empty"],
)
def test_one_without_an_owner_is_removed_only_if_old_and_surely_ours(
    files: list[str], old: bool, stays: bool, left: Callable[..., Path], tmp_path: Path
) -> None:
    directory = left(*files, old=old)
    sweep(tmp_path)
    assert directory.exists() == stays
