"""`--engine`: every command takes one and gives the same results; what cannot be had is refused with a sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command import SMALL, flatfed, read_history, refused, without_time
from engines.table import ENGINES, ON_CLUSTERS, Row, on_engines
from flatfed.core.round.federation import TIMES

RUN = ("run", "digits", "fedavg", *SMALL, "--workers", "1", "--out", "new")
ON_RAY = ("--engine", "ray", "--workers", "1", "--resources", "CPU=0.1")
SITE = Path(pytest.__file__).parents[1]
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(params=[pytest.param(ENGINES["ray"], id="ray")])
def on_ray(request: pytest.FixtureRequest) -> None:
    """Ray runs in this process, and commands join it."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'flatfed[ray]'")
    request.param.config(1)


def result(*arguments: Any) -> Any:
    outcome = flatfed(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome.json


def numbers(value: Any) -> list[Any]:
    """Return all numbers of a JSON document, in order."""
    if isinstance(value, dict):
        return [number for name in sorted(value) if name not in TIMES for number in numbers(value[name])]
    if isinstance(value, list):
        return [number for entry in value for number in numbers(entry)]
    return [value] if isinstance(value, int | float) else []


# --- every command -----------------------------------------------------------------------------------------------


@ON_CLUSTERS
@pytest.mark.usefixtures("on_ray")
def test_flatness(run: Path, tmp_path: Path) -> None:
    few = ("--measure", "lambda_max,client_divergence", "--samples", "200", "--json")
    copy = shutil.copytree(run, tmp_path / "copy" / run.name)  # what was measured before is not measured again
    here = result("flatness", run, *few, "--workers", "0")
    there = result("flatness", copy, *few, *ON_RAY)
    assert numbers(here) == numbers(there) != []


@pytest.mark.usefixtures("on_ray")
def test_compare_and_resume(tmp_path: Path) -> None:
    rows = []
    for name, where in {"a": ("--workers", "0"), "b": ON_RAY}.items():
        shown = ("--seeds", "0", "--json", "--out", tmp_path / name)
        outcome = flatfed("compare", "digits", "scaffold", *SMALL, *shown, *where)
        assert outcome.code == 0, outcome.err
        # What was begun on Ray goes on on processes.
        run = tmp_path / name / "scaffold" / "seed-0"
        assert flatfed("resume", run, "--rounds", "4", "--engine", "processes", "--workers", "1").code == 0
        rows.append(read_history(run))
    assert len(rows[0]) == 4
    assert without_time(rows[0]) == without_time(rows[1])


NOWHERE = ("--engine", "ray", "--address", "127.0.0.1:1")


@pytest.mark.parametrize("command", ["resume", "branch", "flatness", "landscape", "evaluate", "robustness"])
def test_other_commands_take_an_engine_too(command: str, run: Path, tmp_path: Path) -> None:
    more = {"resume": ("--rounds", "4"), "branch": ("--out", tmp_path / "new")}.get(command, ())
    outcome = flatfed(command, run, *more, *NOWHERE)
    assert outcome.code == 2, outcome
    assert outcome.err.splitlines()[-1].startswith("Error: --address: nobody answers at 127.0.0.1:1")
    assert not (tmp_path / "new").exists()


def test_the_engines_are_listed() -> None:
    outcome = flatfed("list", "engines")
    ids = [line.split()[0] for line in outcome.out.splitlines() if not line.startswith(" ")]
    assert ids == ["in-process", "processes", "ray"]


# --- bad input ---------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown engine": (("--engine", "rai"), "ray"),
    "an address without an engine": (("--address", "auto"), "--address belongs to an engine; add --engine ray"),
    "a minimum without an engine": (("--minimum", "2"), "--minimum belongs to an engine; add --engine ray"),
    "data of nodes without an engine": (("--node-data", "/d"), "--node-data belongs to an engine; add --engine ray"),
    "data of nodes of processes": (("--engine", "processes", "--node-data", "/d"), "has no --node-data"),
    "data in a part of a path": (
        ("--engine", "ray", "--node-data", "data"),
        "--node-data must be a whole path that each node knows, such as /data, not 'data'",
    ),
    "an address of processes": (("--engine", "processes", "--address", "auto"), "has no --address"),
    "workers of one process": (("--engine", "in-process", "--workers", "2"), "has no --workers"),
    "no workers": (("--engine", "ray", "--workers", "0"), "workers must be at least 1, not 0"),
    "more than there can be": (
        ("--engine", "ray", "--workers", "2", "--minimum", "3"),
        "minimum=3 can never be met with 2 workers",
    ),
    "no patience": (("--engine", "ray", "--wait-for-workers", "0"), "patience must be"),
    "nobody there": (("--engine", "ray", "--address", "127.0.0.1:1"), "--address: nobody answers at 127.0.0.1:1"),
    "no such port": (("--engine", "ray", "--address", "127.0.0.1:70000"), "--address: nobody answers at"),
    "no such host": (("--engine", "ray", "--address", "nowhere.invalid:6379"), "--address: nobody answers at"),
}
RESOURCES = ("CPU", "CPU=", "=1", "CPU=one", "CPU=-1", "CPU=nan", "CPU=inf", "CPU=1,CPU=2", "CPU=1;GPU=1", "")


@pytest.mark.parametrize(("options", "sentence"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_had_is_refused(options: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    refused(flatfed(*RUN, *options), sentence)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("resources", RESOURCES)
def test_resources_that_are_none_are_refused(resources: str, tmp_path: Path) -> None:
    outcome = flatfed(*RUN, "--engine", "ray", "--resources", resources)
    refused(outcome, "--resources must be like CPU=1,GPU=0.5")
    assert not (tmp_path / "new").exists()


@on_engines("ray")
def test_a_worker_that_is_too_large_for_this_machine_is_refused(row: Row, tmp_path: Path) -> None:
    row.config(1)
    outcome = flatfed(*RUN, "--engine", "ray", "--resources", "CPU=1,towels=3")
    last = outcome.err.splitlines()[-1]
    assert outcome.code == 2
    assert last == "Error: --resources: this machine has no room for a worker with CPU=1,towels=3; ask for less"
    assert not (tmp_path / "new").exists()


def test_a_start_of_ray_that_fails_is_a_sentence(tmp_path: Path) -> None:
    """There is a file where its directory should be."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'flatfed[ray]'")
    (tmp_path / "file").touch()
    command = ("from flatfed.cli.main import main; main()", *RUN, "--engine", "ray")
    environment = os.environ | {"RAY_TMPDIR": str(tmp_path / "file")}
    outcome = subprocess.run([sys.executable, "-c", *command], capture_output=True, text=True, env=environment)
    assert outcome.returncode == 2, outcome.stderr
    assert "Traceback" not in outcome.stderr
    last = outcome.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: Ray could not be started on this machine: ")
    assert not (tmp_path / "new").exists()


def test_without_the_package_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    """In an interpreter whose packages are all of this one's but Ray."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in SITE.iterdir():
        if not entry.name.startswith("ray"):
            (packages / entry.name).symlink_to(entry)
    command = ("from flatfed.cli.main import main; main()", *RUN, "--engine", "ray")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), str(packages)])}
    outcome = subprocess.run(
        [sys.executable, "-S", "-c", *command], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert outcome.returncode == 2, outcome.stderr
    last = outcome.stderr.strip().splitlines()[-1]
    assert last == "Error: the engine ray needs the package ray; install it with: pip install 'flatfed[ray]'"
    assert not (tmp_path / "new").exists()
