"""The process of a site: its socket and files, its signals, its audit log, and the command that starts it."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import flatfed as ff
from cli.command import flatfed
from engines.bench import PATIENCE, eventually
from flatfed import models
from flatfed.core.errors import EngineError
from flatfed.core.method.engine import Job
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.wire import encode_job
from flatfed.core.task.examples import PartExamples
from flatfed.engines.sites.sockets import SocketTransport
from flatfed.engines.sites.transport import NoAnswer
from flatfed.engines.sites.versions import handle
from flatfed.frames import ask_socket, receive_frame, send_frame
from flatfed.runs.fingerprints import code_fingerprint
from flatfed.site.config import Site, read_site
from flatfed.site.data import load_data
from flatfed.site.health import ask_health
from sites.bench import Forked, ForkedSite, data_of, federated, remove, run_name, service_in, short_folder
from sites.test_limits import assignment, request

MOST = 1 << 24


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- processes of the command ---------------------------------------------------------------------------------------


def started(home: Path, name: str, **content: Any) -> subprocess.Popen[str]:
    """Start `flatfed site run` for a site of the digits."""
    folder = home / name
    folder.mkdir(exist_ok=True)
    (folder / "site.yaml").write_text(yaml.safe_dump({"site": name, "data": "digits"} | content))
    command = [sys.executable, "-m", "flatfed", "site", "run", "--config", str(folder / "site.yaml")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def commanded() -> Iterator[tuple[list[Site], list[subprocess.Popen[str]]]]:
    home = short_folder()
    processes = [started(home, name, partition="iid", clients=2 + place) for place, name in enumerate("abc")]
    sites = [read_site(home / name / "site.yaml") for name in "abc"]
    eventually(lambda: all(is_up(site) for site in sites), "the sites listen")
    yield sites, processes
    for process in processes:
        process.kill()
        process.communicate()
    remove(home)


def is_up(site: Site) -> bool:
    try:
        return bool(ask_health(site))
    except EngineError:
        return False


def test_a_federation_of_commands_is_its_simulation(commanded: Any, tmp_path: Path) -> None:
    sites, _ = commanded
    settings: dict[str, Any] = {"rounds": 2, "lr": 0.1, "batch_size": 64}
    options = {"model": "logreg", "sampling": 5, "test_data": "digits"}
    run = federated(
        SocketTransport([site.socket for site in sites]), "scaffold", tmp_path / "run", **settings, **options
    )
    loaded = [load_data(site) for site in sites]
    pool = loaded[0].pool
    clients = [PartExamples(data.pool.train, part) for data in loaded for part in data.parts]
    network = models.build("logreg", pool.classes, seed=0, **pool.facts)
    task = ff.Task(network, clients, pool.test, loss=pool.loss, metrics=pool.metrics, prepare=pool.prepare)
    expected = ff.train(task, "scaffold", sampling=5, workers=0, vectorised=False, weight_decay=0.001, **settings)
    assert torch.equal(run.vector, expected.vector)
    assert run.history[-1]["test_accuracy"] == expected.history[-1]["test_accuracy"]
    assert run.history[-1]["sites"]["a"]["accuracy"] == pytest.approx(expected.history[-1]["test_accuracy"])


def test_the_commands_that_look_at_a_site(commanded: Any) -> None:
    sites, _ = commanded
    config = sites[0].home / "site.yaml"
    health = flatfed("site", "health", "--config", config, "--json")
    assert (health.code, health.json["site"], health.json["doing"]) == (0, "a", "waiting")
    check = flatfed("site", "check", "--config", config)
    assert check.code == 0
    assert f"code {code_fingerprint()}" in check.out
    again = flatfed("site", "run", "--config", config)
    assert again.code == 2
    assert f"a site listens at {sites[0].socket} already; end it, or name another socket" in again.err
    assert is_up(sites[0])


def test_a_second_site_in_the_same_folder_is_refused(commanded: Any) -> None:
    sites, _ = commanded
    other = sites[0].home / "other.yaml"
    content = yaml.safe_load((sites[0].home / "site.yaml").read_text())
    other.write_text(yaml.safe_dump(content | {"socket": "other.sock"}))
    again = flatfed("site", "run", "--config", other)
    assert again.code == 2
    assert "is being written by another process" in again.err


def test_a_term_signal_ends_the_command(commanded: Any) -> None:
    sites, processes = commanded
    processes[2].terminate()
    out, err = processes[2].communicate(timeout=PATIENCE)
    assert (processes[2].returncode, err) == (0, "")
    assert out.splitlines()[-1] == "site c: ended"
    assert not sites[2].socket.exists()
    health = flatfed("site", "health", "--config", sites[2].home / "site.yaml")
    assert health.code != 0
    assert "nobody answers at" in health.err
    assert "Traceback" not in health.err


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_are_for_their_user_alone(sites: Forked, tmp_path: Path) -> None:
    federated(sites.transport, "scaffold", tmp_path / "run", sampling=5)
    site = sites.sites["b"].site
    assert mode(site.socket) == 0o600
    assert mode(site.folder) == 0o700
    assert mode(site.folder / "audit.jsonl") == 0o600


def test_a_socket_that_was_left_behind_is_taken_over(sites: Forked) -> None:
    victim = sites.sites["b"]
    victim.kill()
    assert victim.site.socket.is_socket()
    victim.start()
    assert ask_health(victim.site)["site"] == "b"


def test_a_file_in_the_place_of_the_socket_is_left_alone(home: Path) -> None:
    (home / "site.yaml").write_text(yaml.safe_dump({"site": "a", "data": "digits"}))
    (home / "site.sock").write_text("mine")
    result = flatfed("site", "run", "--config", home / "site.yaml")
    assert result.code == 2
    assert "is there and is no socket; name another one" in result.err
    assert (home / "site.sock").read_text() == "mine"


# --- work and signals -----------------------------------------------------------------------------------------------


@pytest.fixture
def alone(home: Path) -> Iterator[ForkedSite]:
    """Site b by itself."""
    site = ForkedSite(home, "b", data_of("b"))
    site.start()
    yield site
    site.end()


def endless() -> bytes:
    """Return a request for training that takes years."""
    settings = assignment().settings | {"local_epochs": 10**9}
    return request(assignment(settings=settings), Job(2, 0, 0, 0.1, handle()), seconds=1e6)


def asking(site: ForkedSite, data: bytes) -> socket.socket:
    """Send a request and leave the connection open."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    connection.connect(str(site.site.socket))
    send_frame(connection, data)
    return connection


def is_training(site: ForkedSite) -> bool:
    return ask_health(site.site)["doing"] == "exchange"


def test_a_site_that_trains_is_well_answers_the_roll_and_ends(alone: ForkedSite) -> None:
    with asking(alone, endless()) as connection:
        eventually(lambda: is_training(alone), "it trains")
        hello = ask_socket(str(alone.site.socket), Envelope("hello").to_bytes(), PATIENCE, MOST)
        assert Envelope.from_bytes(hello).facts["site"] == "b"
        assert is_training(alone)
        alone.signal(signal.SIGTERM)
        alone.process.join(PATIENCE)
        assert alone.process.exitcode == 0
        assert alone.audit()[-2]["reason"] == "the site is ended"
        assert alone.audit()[-1]["what"] == "end"
        connection.close()
    assert not alone.site.socket.exists()


def test_another_request_for_work_comes_before_the_present_one(alone: ForkedSite) -> None:
    with asking(alone, endless()) as connection:
        eventually(lambda: is_training(alone), "it trains")
        answer = ask_socket(str(alone.site.socket), request(), PATIENCE, MOST)
        assert Envelope.from_bytes(answer).kind == "replies"
        given_up = Envelope.from_bytes(receive_frame(connection, MOST))
    assert (given_up.kind, given_up.facts["reason"]) == ("refused", "the site was asked for other work of this run")


def test_a_request_of_another_run_waits_for_its_turn(alone: ForkedSite) -> None:
    other = request(assignment(run="run2"), run="run2")
    with asking(alone, endless()) as first:
        eventually(lambda: is_training(alone), "it trains")
        with asking(alone, other) as second:
            # What comes after it on the same socket is answered: it has been heard, and nothing was given up for it.
            assert is_training(alone)
            first.close()
            assert Envelope.from_bytes(receive_frame(second, MOST)).kind == "replies"
    abandoned = [line["reason"] for line in alone.audit() if line["what"] == "abandoned"]
    assert abandoned == ["nobody waits for this work any more"]


def test_work_ends_with_its_time(alone: ForkedSite) -> None:
    settings = assignment().settings | {"local_epochs": 10**9}
    data = request(assignment(settings=settings), seconds=0.2)
    answer = Envelope.from_bytes(ask_socket(str(alone.site.socket), data, PATIENCE, MOST))
    assert answer.facts["reason"] == "the time of this request is over"
    answer = Envelope.from_bytes(ask_socket(str(alone.site.socket), request(), PATIENCE, MOST))
    assert answer.kind == "replies"


def test_work_that_nobody_waits_for_ends(alone: ForkedSite) -> None:
    with asking(alone, endless()):
        eventually(lambda: is_training(alone), "it trains")
    eventually(lambda: not is_training(alone), "it has given up")
    eventually(lambda: alone.audit()[-1]["what"] == "abandoned", "it is noted")


def test_a_request_that_is_too_large_is_answered(home: Path) -> None:
    site = ForkedSite(home, "b", data_of("b"), {"limits": {"largest_message": 1}})
    site.start()
    try:
        (found,) = SocketTransport([site.site.socket]).ask(
            {str(site.site.socket): bytes(3 << 20)}, PATIENCE, MOST, lambda: None
        )
        assert isinstance(found[1], bytes)
        reason = Envelope.from_bytes(found[1]).facts["reason"]
        assert reason == "3,145,728 bytes, above the bound 1,048,576 (limits.largest_message)"
        assert site.audit()[-1] | {"time": ""} == {
            "time": "",
            "what": "refused",
            "bytes": 3 << 20,
            "reason": "3,145,728 bytes, above the bound 1,048,576",
        }
    finally:
        site.end()


def test_connections_that_say_nothing_or_lie_do_no_harm(alone: ForkedSite) -> None:
    path = str(alone.site.socket)
    for data in (b"", b"\0", b"\xff" * 8, (1 << 40).to_bytes(8, "big") + b"x", (5).to_bytes(8, "big") + b"abc"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(path)
        connection.sendall(data)
        connection.close()
    assert Envelope.from_bytes(ask_socket(path, b"nonsense", PATIENCE, MOST)).kind == "refused"
    assert Envelope.from_bytes(ask_socket(path, request(), PATIENCE, MOST)).kind == "replies"


def test_an_answer_above_the_bound_is_not_read(alone: ForkedSite) -> None:
    path = str(alone.site.socket)
    (found,) = SocketTransport([path]).ask({path: request()}, PATIENCE, 100, lambda: None)
    assert isinstance(found[1], NoAnswer)
    assert "above the bound 100" in found[1].reason


# --- the audit log --------------------------------------------------------------------------------------------------


def test_everything_is_in_the_audit_log_by_name_and_size(sites: Forked, tmp_path: Path) -> None:
    victim = sites.sites["b"]
    before = len(victim.audit())
    run = federated(sites.transport, "scaffold", tmp_path / "run", sampling=5, rounds=2)
    lines = victim.audit()[before:]
    whats = ["hello", "run", "exchange", "evaluate", "exchange", "evaluate", "deliver"]
    assert [line["what"] for line in lines] == whats
    assert {line["run"] for line in lines[1:]} == {run_name(run)}
    exchange = lines[2]
    assert {name: exchange[name] for name in ("client", "round", "exchange", "attempt")} == {
        "client": 2,
        "round": 0,
        "exchange": 0,
        "attempt": 0,
    }
    assert exchange["in"] == {"w": 51 * 4, "c": 51 * 4}
    uploads = {name: size for name, size in exchange["out"].items() if size == 51 * 4}
    assert set(uploads) == set(ff.make("scaffold").uploads())
    assert set(lines[3]["out"]) == {"loss", "accuracy", "examples"}
    assert lines[6]["files"] == [f"{run_name(run)}.safetensors"]
    assert set(lines[0]["out"]) == {"site", "counts", "data", "code", "arithmetic", "flatfed"}


def test_no_value_is_in_the_audit_log(sites: Forked, tmp_path: Path) -> None:
    victim = sites.sites["b"]
    before = len(victim.audit())
    run = federated(sites.transport, "scaffold", tmp_path / "run", sampling=5, rounds=2)
    for line in victim.audit()[before:]:
        numbers = [value for group in ("in", "out") for value in line.get(group, {}).values()]
        assert all(isinstance(number, int) for number in numbers)
    text = json.dumps(victim.audit()[before:])
    for row in run.history:
        for value in row["sites"]["b"].values():
            assert value in (0.0, 1.0) or repr(value) not in text


def test_what_cannot_be_noted_is_refused(home: Path) -> None:
    (home / "b" / "state").mkdir(parents=True)
    (home / "mine").write_text("mine")
    (home / "b" / "state" / "audit.jsonl").symlink_to(home / "mine")
    service = service_in(home, "b")
    for data in (Envelope("hello").to_bytes(), request(), b"nonsense"):
        answer = Envelope.from_bytes(service.answer(data))
        assert (answer.kind, "cannot write its audit log" in answer.facts["reason"]) == ("refused", True)
    assert (home / "mine").read_text() == "mine"


def test_jobs_are_noted_one_by_one(home: Path) -> None:
    service = service_in(home, "c")
    whole = Envelope.from_bytes(request(None, Job(3, 0, 0, 0.1, handle())))
    second = encode_job(Job(4, 0, 0, 0.1, handle(9)))
    answer = service.answer(Envelope(whole.kind, whole.facts, [*whole.parts, second]).to_bytes())
    assert len(Envelope.from_bytes(answer).parts) == 2
    lines = [json.loads(line) for line in service.audit.path.read_text().splitlines()][1:]
    assert [line["client"] for line in lines] == [3, 4]
    assert "out" in lines[0]
    assert "out" not in lines[1]
    assert "is not here" in lines[1]["failed"]
