"""A real Ray cluster of two nodes: bits, nodes that die and come, a killed driver, tokens, too few workers.

The nodes are processes of this machine in a network of their own, in which there is a loopback and nothing else.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import assert_same, bits, digits, eventually
from engines.data_of_nodes import READS, SLOW, task_of, written
from engines.nodes import (
    ADDRESS,
    FLATFED,
    HERE,
    PYTHON,
    Network,
    Nodes,
    alone,
    can_have_networks,
    ended,
    text_of,
)
from engines.play_on_cluster import CLIENTS, METHOD, SETTINGS
from engines.table import ON_CLUSTERS
from flatfed.runs.directory import RunDirectory

pytestmark = [
    ON_CLUSTERS,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.skipif(not can_have_networks(), reason="a network of its own needs Linux and the rights to make one"),
]

LONG = "600"
"""Seconds of patience where nothing is to run out of it."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A head with room for one worker; tests let another node join, and leave at most one."""
    network = Network()
    cluster = Nodes(network, tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()
    network.close()


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What a run comes to that nobody disturbs."""
    return bits(ff.train(digits(), METHOD, workers=0, **SETTINGS), CLIENTS)


def play(nodes: Nodes, directory: Path, minimum: int, patience: str = LONG, *data: str) -> Any:
    script = str(HERE / "play_on_cluster.py")
    return ended(nodes.driver(PYTHON, script, str(directory), ADDRESS, str(minimum), patience, *data))


def waiting(directory: Path) -> set[int]:
    """Return the processes in which clients wait."""
    return {int(mark.name.removeprefix("waits-")) for mark in directory.glob("waits-*")}


def wait_for_clients(directory: Path, count: int) -> None:
    eventually(lambda: len(waiting(directory)) >= count, f"clients in {count} processes")


def forget_marks(directory: Path) -> None:
    for mark in (directory / "hold", *directory.glob("waits-*")):
        mark.unlink()


def test_a_node_dies_and_another_comes_in_the_middle_of_a_round_and_no_bit_is_lost(
    nodes: Nodes, expected: dict[str, Any], tmp_path: Path
) -> None:
    second = nodes.second()
    with play(nodes, tmp_path, minimum=2) as driver:
        wait_for_clients(tmp_path, 2)
        nodes.kill(second)
        nodes.join()
        # The client of the dead node is run again on the one that has come: the head has no room for a second worker.
        wait_for_clients(tmp_path, 3)
        (tmp_path / "go").touch()
        text = text_of(driver)
    assert driver.returncode == 0, text
    assert "2 actors on 2 nodes" in text, text
    assert_same(bits(ff.load_run(tmp_path / "run", task=digits()), CLIENTS), expected)


def test_without_enough_workers_or_its_driver_a_run_stops_and_goes_on_from_a_checkpoint(
    nodes: Nodes, expected: dict[str, Any], tmp_path: Path
) -> None:
    second = nodes.second()
    with play(nodes, tmp_path, minimum=2, patience="3") as driver:
        wait_for_clients(tmp_path, 2)
        nodes.kill(second)
        text = text_of(driver)
    assert driver.returncode != 0
    assert "has had 1 workers with CPU=1, fewer than 2, for 3 s" in text
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.status()["status"] == "failed"
    assert directory.checkpoints.rounds()[0] == len(directory.rows) == 1

    # It goes on on the cluster, for a round.
    forget_marks(tmp_path)
    with play(nodes, tmp_path, minimum=1) as driver:
        wait_for_clients(tmp_path, 1)
        driver.kill()
        driver.wait()
    assert RunDirectory.open(tmp_path / "run").checkpoints.rounds()[0] == 2

    # And on processes of this machine, to the end.
    assert_same(bits(ff.resume(tmp_path / "run", task=digits(), workers=2), CLIENTS), expected)


def test_nodes_read_the_examples_themselves_and_one_that_dies_over_it_is_no_loss(nodes: Nodes, tmp_path: Path) -> None:
    here, there = written(tmp_path / "here"), written(tmp_path / "there")
    task = task_of(here, CLIENTS)
    expected = bits(ff.train(task, METHOD, workers=0, **SETTINGS), CLIENTS)
    for node in list(nodes.others):
        nodes.kill(node)
    with play(nodes, tmp_path, 1, LONG, str(there)) as driver:
        wait_for_clients(tmp_path, 1)
        (there / SLOW).touch()
        second = nodes.join()
        eventually((there / READS).exists, "a node that reads")
        nodes.kill(second)
        (there / SLOW).unlink()
        nodes.join()
        wait_for_clients(tmp_path, 2)
        (tmp_path / "go").touch()
        text = text_of(driver)
    assert driver.returncode == 0, text
    assert_same(bits(ff.load_run(tmp_path / "run", task=task), CLIENTS), expected)


def run_command(directory: Path, *options: str) -> tuple[str, ...]:
    small = ("--rounds", "1", "--clients", "10", "--per-round", "2", "--lr", "0.1", "--out", str(directory))
    return (*FLATFED, "run", "digits", "fedavg", *small, "--engine", "ray", *options)


def test_tokens_and_too_few_workers_on_the_command_line(nodes: Nodes, tmp_path: Path) -> None:
    """One after another they would take as long as all of them together."""
    wrong = tmp_path / "token"
    wrong.write_text("another" * 8)
    there = ("--address", ADDRESS)
    few = (*there, "--resources", "CPU=64", "--wait-for-workers", "2")
    with contextlib.ExitStack() as stack:

        def begun(name: str, *options: str, **changes: str) -> subprocess.Popen[bytes]:
            return stack.enter_context(ended(nodes.driver(*run_command(tmp_path / name, *options), **changes)))

        drivers = {
            "right": begun("right", *there),
            "wrong": begun("wrong", *there, RAY_AUTH_TOKEN_PATH=str(wrong)),
            "none": begun("none", *there, RAY_AUTH_TOKEN_PATH=str(tmp_path / "missing")),
            "few": begun("few", *few),
        }
        texts = {name: text_of(driver) for name, driver in drivers.items()}

    assert {name: driver.returncode for name, driver in drivers.items()} == {
        "right": 0,
        "wrong": 2,
        "none": 2,
        "few": 1,
    }
    assert f"Ray ({ADDRESS}): 1 actor on 1 node" in texts["right"]
    assert RunDirectory.open(tmp_path / "right").status()["status"] == "finished"
    for name in ("wrong", "none"):
        last = texts[name].strip().splitlines()[-1]
        assert last.startswith(f"Error: --address: no Ray cluster could be joined at {ADDRESS}")
        assert "is the token right?" in last
    assert "no node of the cluster has room for a worker with CPU=64" in texts["few"]
    assert "has had 0 workers with CPU=64, fewer than 1, for 2 s" in texts["few"].strip().splitlines()[-1]
    for name in ("wrong", "none", "few"):
        assert "Traceback" not in texts[name]
        assert not (tmp_path / name).exists()


def test_the_cluster_of_a_machine_that_belongs_to_none_is_refused_with_a_sentence(tmp_path: Path) -> None:
    unset = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    plain = {name: value for name, value in os.environ.items() if name not in unset}
    command = alone(*run_command(tmp_path / "run", "--address", "auto"))
    outcome = subprocess.run(command, capture_output=True, text=True, env=plain | {"RAY_TMPDIR": str(tmp_path)})
    assert outcome.returncode == 2, outcome.stderr
    assert outcome.stderr.strip().splitlines()[-1] == (
        "Error: this machine belongs to no Ray cluster that runs; start one with `ray start --head`, or give the "
        "HOST:PORT of a head node for --address"
    )
    assert "Traceback" not in outcome.stderr
    assert not (tmp_path / "run").exists()
