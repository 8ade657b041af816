"""Pipes, devices and folders in the place of files: each is refused by its name, and nothing waits for a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.command import PROCESS, SMALL, flatfed, refused
from runs.bench import small_run, small_task

SECONDS = 300
FLATNESS = ("flatness", "--measure", "loss", "--samples", "20", "--workers", "0")
LANDSCAPE = ("landscape", "--points", "3", "--samples", "20", "--kind", "along", "--directions", "1", "--workers", "0")


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """End a test that waits for a pipe."""

    def too_long(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


Make = Callable[[Path], None]
MAKES: dict[str, Make] = {"pipe": os.mkfifo, "device": device, "folder": Path.mkdir}
each_make = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


def put(make: Make, path: Path) -> Path:
    """Put something else in the place of a file."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    return path


@each_make
@pytest.mark.parametrize("name", ["history.jsonl", "status.json", "config.json"])
def test_show(name: str, make: Make, run: Path) -> None:
    put(make, run / name)
    refused(flatfed("show", run), name)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["pipe", "folder"])
@pytest.mark.parametrize("command", [("show",), ("resume", "--rounds", "4")], ids=["show", "resume"])
def test_the_lock(command: tuple[str, ...], make: Make, run: Path) -> None:
    put(make, run / ".lock")
    done = flatfed(command[0], run, *command[1:])
    assert done.code == 2, done.err
    assert done.err.splitlines()[-1].startswith(f"Error: {run / '.lock'} cannot be used: ")


@pytest.mark.parametrize("name", [".lock", "history.jsonl"])
def test_a_new_run(name: str) -> None:
    put(os.mkfifo, Path("planted") / name)
    done = flatfed("run", "digits", "fedavg", *SMALL, "--out", "planted")
    assert done.code == (2 if name == ".lock" else 0), done.err  # a history that was left over is replaced


@each_make
@pytest.mark.parametrize("name", ["server.safetensors", "checkpoint.json"])
def test_a_checkpoint(name: str, make: Make, run: Path) -> None:
    for checkpoint in (run / "checkpoints").glob("round-*"):
        put(make, checkpoint / name)
    done = flatfed("evaluate", run)
    assert done.code == 2 and name in done.err, done.err


@each_make
@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_the_tensors_of_a_task(command: str, make: Make, tmp_path: Path) -> None:
    small_run(tmp_path / "run", small_task(), rounds=1, average=None)
    put(make, tmp_path / "run" / "task.safetensors")
    refused(flatfed(command, tmp_path / "run"), "task.safetensors")


@pytest.mark.parametrize("name", ["results.json", "readings.json"])
def test_kept_results(name: str, run: Path) -> None:
    put(os.mkfifo, run / "flatness" / name)
    refused(flatfed(FLATNESS[0], run, *FLATNESS[1:]), f"{name} cannot be used: it is a pipe, not a file; remove it")


@pytest.mark.usefixtures("no_pictures")
def test_points_of_a_landscape(run: Path) -> None:
    assert flatfed(LANDSCAPE[0], run, *LANDSCAPE[1:]).code == 0
    for points in (run / "flatness").glob("*.jsonl"):
        put(os.mkfifo, points)
    refused(flatfed(LANDSCAPE[0], run, *LANDSCAPE[1:]), ".jsonl cannot be used: it is a pipe")


@each_make
def test_a_configuration_file(make: Make) -> None:
    put(make, Path("c.yaml"))
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--config", "c.yaml"), "c.yaml")


@each_make
def test_weights(make: Make) -> None:
    put(make, Path("w.safetensors"))
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--weights", "w.safetensors"), "w.safetensors")


@pytest.mark.parametrize("name", ["t.csv", "t.npz"])
def test_a_partition(name: str) -> None:
    put(os.mkfifo, Path(name))
    options = ("--partition", "file", "--set", f"partition.path={name}", "--rounds", "1", "--workers", "0")
    refused(flatfed("run", "digits", "fedavg", *options), name)


def test_a_process_of_its_own(run: Path) -> None:
    put(os.mkfifo, run / ".lock")
    done = subprocess.run([*PROCESS, "show", str(run)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {run / '.lock'} cannot be used: it is a pipe")
