"""A real Ray cluster of two nodes: bits, nodes that die and come, a killed driver, tokens, too few workers.

The nodes are processes of this machine in a network of their own, in which there is a loopback and nothing else.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import assert_same, bits, digits, eventually
from engines.nodes import ADDRESS, FLATFED, HERE, PYTHON, Network, Nodes, can_have_networks, ended, raylet_of, text_of
from engines.play_on_cluster import CLIENTS, METHOD, SETTINGS
from flatfed.runs.directory import RunDirectory

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.skipif(not can_have_networks(), reason="a network of its own needs Linux and the rights to make one"),
]

LONG = "600"
"""Seconds of patience where nothing is to run out of it."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A head with room for one worker; tests let other nodes join."""
    network = Network()
    cluster = Nodes(network, tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()
    network.close()


@pytest.fixture
def second(nodes: Nodes) -> Iterator[subprocess.Popen[bytes]]:
    """A second node."""
    node = nodes.join()
    yield node
    if node.poll() is None:
        nodes.kill(node)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What a run comes to that nobody disturbs."""
    return bits(ff.train(digits(), METHOD, workers=0, **SETTINGS), CLIENTS)


def played(directory: Path) -> dict[str, Any]:
    return bits(ff.load_run(directory / "run", task=digits()), CLIENTS)


def play(nodes: Nodes, directory: Path, minimum: int, patience: str = LONG) -> Any:
    script = str(HERE / "play_on_cluster.py")
    return ended(nodes.driver(PYTHON, script, str(directory), ADDRESS, str(minimum), patience))


def waiting(directory: Path) -> set[int]:
    """Return the processes in which clients wait."""
    return {int(mark.name.removeprefix("waits-")) for mark in directory.glob("waits-*")}


def wait_for_clients(directory: Path, count: int) -> None:
    eventually(lambda: len(waiting(directory)) >= count, f"clients in {count} processes")


def go_on(directory: Path) -> None:
    (directory / "go").touch()


def test_two_nodes_give_the_bits_of_one_process(
    nodes: Nodes, second: subprocess.Popen[bytes], expected: dict[str, Any], tmp_path: Path
) -> None:
    go_on(tmp_path)
    with play(nodes, tmp_path, minimum=2) as driver:
        text = text_of(driver)
    assert "2 actors on 2 nodes" in text, text
    assert_same(played(tmp_path), expected)


def test_a_node_that_is_killed_in_the_middle_of_a_round_costs_no_bit(
    nodes: Nodes, second: subprocess.Popen[bytes], expected: dict[str, Any], tmp_path: Path
) -> None:
    with play(nodes, tmp_path, minimum=1) as driver:
        wait_for_clients(tmp_path, 2)
        os.kill(raylet_of(second), signal.SIGKILL)
        second.wait()
        go_on(tmp_path)
        text = text_of(driver)
    assert driver.returncode == 0, text
    assert "1 actor on 1 node" in text
    assert_same(played(tmp_path), expected)


def test_a_node_that_joins_in_the_middle_of_a_round_is_used(
    nodes: Nodes, expected: dict[str, Any], tmp_path: Path
) -> None:
    with play(nodes, tmp_path, minimum=1) as driver:
        wait_for_clients(tmp_path, 1)
        node = nodes.join()
        wait_for_clients(tmp_path, 2)
        go_on(tmp_path)
        text = text_of(driver)
    nodes.kill(node)
    assert driver.returncode == 0, text
    assert "2 actors on 2 nodes" in text
    assert_same(played(tmp_path), expected)


def test_a_run_whose_driver_was_killed_goes_on_on_the_cluster_and_on_the_pool(
    nodes: Nodes, second: subprocess.Popen[bytes], expected: dict[str, Any], tmp_path: Path
) -> None:
    with play(nodes, tmp_path, minimum=2) as driver:
        wait_for_clients(tmp_path, 2)
        driver.kill()
        driver.wait()
    go_on(tmp_path)
    shutil.copytree(tmp_path / "run", tmp_path / "copy" / "run")
    with ended(nodes.driver(PYTHON, "-c", RESUME, DIRECTORY=str(tmp_path / "run"))) as driver:
        text = text_of(driver)
    assert "finished on Ray" in text, text
    assert_same(played(tmp_path), expected)
    run = ff.resume(tmp_path / "copy" / "run", task=digits(), workers=2)
    assert_same(bits(run, CLIENTS), expected)


RESUME = f"""
import os
import flatfed as ff
from engines.bench import digits

run = ff.resume(os.environ["DIRECTORY"], task=digits(), engine=ff.Ray(address="{ADDRESS}", minimum=2))
print(run.status, "on Ray")
"""


def test_with_too_few_workers_for_too_long_a_run_stops_with_a_checkpoint(
    nodes: Nodes, second: subprocess.Popen[bytes], expected: dict[str, Any], tmp_path: Path
) -> None:
    with play(nodes, tmp_path, minimum=2, patience="3") as driver:
        wait_for_clients(tmp_path, 2)
        nodes.kill(second)
        text = text_of(driver)
    assert driver.returncode != 0
    assert "has had 1 workers with CPU=1, fewer than 2, for 3 s" in text
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.status()["status"] == "failed"
    assert directory.checkpoints.rounds()[0] == len(directory.rows) == 1
    go_on(tmp_path)
    assert_same(bits(ff.resume(tmp_path / "run", task=digits(), workers=0), CLIENTS), expected)


def run_command(directory: Path, *options: str) -> tuple[str, ...]:
    small = ("--rounds", "1", "--clients", "10", "--per-round", "2", "--lr", "0.1", "--out", str(directory / "run"))
    return (*FLATFED, "run", "digits", "fedavg", *small, "--engine", "ray", "--address", ADDRESS, *options)


@pytest.mark.parametrize("token", ["another", ""], ids=["wrong", "none"])
def test_a_wrong_token_is_refused_with_a_sentence(nodes: Nodes, token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if token:
        file.write_text(token * 8)
    with ended(nodes.driver(*run_command(tmp_path), RAY_AUTH_TOKEN_PATH=str(file))) as driver:
        text = text_of(driver)
    assert driver.returncode == 2, text
    last = text.strip().splitlines()[-1]
    assert last.startswith("Error: --address: no Ray cluster could be joined at 127.0.0.1:6379")
    assert "is the token right?" in last
    assert "Traceback" not in text
    assert not (tmp_path / "run").exists()


def test_the_right_token_is_enough_on_the_command_line(nodes: Nodes, tmp_path: Path) -> None:
    with ended(nodes.driver(*run_command(tmp_path))) as driver:
        text = text_of(driver)
    assert driver.returncode == 0, text
    assert f"Ray ({ADDRESS}): 1 actor on 1 node" in text
    assert RunDirectory.open(tmp_path / "run").status()["status"] == "finished"


def test_with_too_few_workers_from_the_beginning_nothing_is_left(nodes: Nodes, tmp_path: Path) -> None:
    few = run_command(tmp_path, "--resources", "CPU=64", "--patience", "2")
    with ended(nodes.driver(*few)) as driver:
        text = text_of(driver)
    assert driver.returncode == 1, text
    assert "no node of the cluster has room for a worker with CPU=64" in text
    assert "has had 0 workers with CPU=64, fewer than 1, for 2 s" in text.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()
