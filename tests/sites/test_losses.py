"""Sites that die, are away, are late or lose their answers: what counts is what a simulation with these losses has."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.command import flatfed
from engines.bench import PATIENCE, eventually
from flatfed.core.method.envelope import Envelope
from flatfed.engines.sites.transport import Answer, NoAnswer, Pulse
from flatfed.experiments.federating.federate import federate
from flatfed.frames import send_frame
from sites.bench import (
    LOST,
    SITE_OF,
    Changed,
    Forked,
    ForkedSite,
    assert_same,
    federated,
    lose,
    moment_of,
    run_name,
    simulated,
    wanted,
)

ALL: dict[str, Any] = {"sampling": 5, "rounds": 4}
SECOND = (1, 0, 0)
THIRD = (2, 0, 0)


@pytest.mark.parametrize("method", ["scaffold", "feddyn"])
def test_a_lost_reply_is_never_applied(method: str, sites: Forked, tmp_path: Path) -> None:
    transport = Changed(sites.transport, {(sites.address("b"), SECOND): lose, (sites.address("c"), THIRD): lose})
    run = federated(transport, method, tmp_path / "run", **ALL)
    assert len(transport.changed) == 2
    assert_same(run, simulated(method, {("b", SECOND): LOST, ("c", THIRD): LOST}, **ALL), sites.home)


def test_a_reply_lost_in_the_second_exchange(sites: Forked, tmp_path: Path) -> None:
    moment = (1, 0, 1)
    run = federated(Changed(sites.transport, {(sites.address("a"), moment): lose}), "mime", tmp_path / "run", **ALL)
    assert_same(run, simulated("mime", {("a", moment): LOST}, **ALL), sites.home)


def test_a_failed_attempt_leaves_no_trace_in_the_states(sites: Forked, tmp_path: Path) -> None:
    options = ALL | {"min_replies": 5, "retries": 1}
    run = federated(
        Changed(sites.transport, {(sites.address("b"), SECOND): lose}), "scaffold", tmp_path / "run", **options
    )
    assert run.history[1]["attempts"] == 2
    assert_same(run, simulated("scaffold", {("b", SECOND): LOST}, **options), sites.home)


def test_a_restart_between_two_rounds_changes_nothing(sites: Forked, tmp_path: Path) -> None:
    transport = Changed(sites.transport, {})
    transport.before[sites.address("b"), SECOND] = sites.sites["b"].restart
    run = federated(transport, "scaffold", tmp_path / "run", **ALL)
    assert_same(run, simulated("scaffold", **ALL), sites.home)


def test_killed_after_its_state_was_written_and_before_its_reply_came(sites: Forked, tmp_path: Path) -> None:
    def lose_and_kill(answer: Answer) -> Answer:
        sites.sites["b"].restart()
        return lose(answer)

    run = federated(
        Changed(sites.transport, {(sites.address("b"), SECOND): lose_and_kill}), "scaffold", tmp_path / "run", **ALL
    )
    assert_same(run, simulated("scaffold", {("b", SECOND): LOST}, **ALL), sites.home)


class Pulsing(Changed):
    """Does something while the answers of a moment are waited for."""

    def __init__(self, sites: Forked, changes: Any, meanwhile: Callable[[], None]) -> None:
        super().__init__(sites.transport, changes)
        self.meanwhile = meanwhile

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        is_then = SECOND in map(moment_of, requests.values())
        return super().ask(requests, seconds, limit, self.meanwhile if is_then else pulse)


def unreachable(answer: Answer) -> Answer:
    assert isinstance(answer, NoAnswer)
    assert answer.reason.startswith("cannot be reached: ")
    return NoAnswer(LOST)


def test_killed_in_the_middle_of_its_training(sites: Forked, tmp_path: Path) -> None:
    victim = sites.sites["b"]

    def kill_when_it_trains() -> None:
        if victim.is_held():
            victim.kill()
            victim.let_go()

    transport = Pulsing(sites, {(sites.address("b"), SECOND): unreachable}, kill_when_it_trains)
    transport.before[sites.address("b"), SECOND] = victim.hold
    transport.before[sites.address("b"), THIRD] = victim.start
    run = federated(transport, "scaffold", tmp_path / "run", **ALL)
    assert transport.changed == [(sites.address("b"), SECOND)]
    assert_same(run, simulated("scaffold", {("b", SECOND): LOST}, **ALL), sites.home)


def test_a_site_restarted_between_two_exchanges_of_a_round_misses_the_round(sites: Forked, tmp_path: Path) -> None:
    moment = (1, 0, 1)
    transport = Changed(sites.transport, {})
    transport.before[sites.address("b"), moment] = sites.sites["b"].restart
    run = federated(transport, "mime", tmp_path / "run", **ALL)
    reason = "exchange 1 of round 2 came without those before it"
    assert_same(run, simulated("mime", {("b", moment): reason}, **ALL), sites.home)


def test_a_site_that_is_away_and_comes_back(sites: Forked, tmp_path: Path) -> None:
    def leave(row: Any) -> None:
        if row["round"] == 0:
            sites.sites["b"].signal(signal.SIGTERM)
            sites.sites["b"].process.join(PATIENCE)
        if row["round"] == 1:
            sites.sites["b"].start()

    run = federate(wanted("scaffold", tmp_path / "run", **ALL), sites.transport, leave)
    expected = simulated("scaffold", {("b", SECOND): "the site b is not connected"}, **ALL)
    assert_same(run, expected, sites.home)
    assert sorted(run.history[1]["sites"]) == ["a", "c"]


# --- late ----------------------------------------------------------------------------------------------------------


class GivingUp(Changed):
    """Gives up on a site that is in the middle of its work, and leaves its connection open."""

    def __init__(self, sites: Forked, name: str) -> None:
        super().__init__(sites.transport, {})
        self.victim, self.address = sites.sites[name], sites.address(name)
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        left = dict(requests)
        if moment_of(requests.get(self.address, next(iter(requests.values())))) == SECOND:
            self.victim.hold()
            self.connection.connect(self.address)
            send_frame(self.connection, left.pop(self.address))
            eventually(self.victim.is_held, "the site works on the request")
            yield self.address, NoAnswer(LOST)
        yield from super().ask(left, seconds, limit, pulse)


@pytest.mark.parametrize("hangs_up", [True, False])
def test_work_that_is_late_is_given_up_and_the_next_round_works(hangs_up: bool, sites: Forked, tmp_path: Path) -> None:
    victim = sites.sites["b"]
    transport = GivingUp(sites, "b")

    before = len(victim.audit())

    def given_up() -> list[str]:
        return [line["reason"] for line in victim.audit()[before:] if line["what"] == "abandoned"]

    def go_on() -> None:
        if hangs_up:
            transport.connection.close()
        victim.let_go()
        if hangs_up:
            # Before the next request comes, which would be a reason too.
            eventually(given_up, "the work is given up")

    transport.before[sites.address("b"), THIRD] = go_on
    # The evaluation after a round would ask the site too, in the middle of its work.
    options = ALL | {"evaluate_every": 4, "evaluate_last": 0}
    run = federated(transport, "scaffold", tmp_path / "run", **options)
    assert_same(run, simulated("scaffold", {("b", SECOND): LOST}, **options), sites.home)
    if hangs_up:
        assert given_up() == ["nobody waits for this work any more"]
    transport.connection.close()


def test_a_site_that_hangs_is_given_up_after_the_time(sites: Forked) -> None:
    victim, address = sites.sites["b"], sites.address("b")
    victim.signal(signal.SIGSTOP)
    try:
        asked = {address: Envelope("hello").to_bytes()}
        answers = list(sites.transport.ask(asked, 0.2, 1 << 20, lambda: None))
    finally:
        victim.signal(signal.SIGCONT)
    assert answers == [(address, NoAnswer("no reply within 0.2 s"))]


def test_a_request_that_nobody_waits_for_is_not_begun(sites: Forked, tmp_path: Path) -> None:
    """Requests may be overtaken: one that was given up must not undo what came after it."""
    victim = sites.sites["b"]
    requests: list[bytes] = []

    class Noting(Changed):
        def ask(self, asked: Mapping[str, bytes], *others: Any) -> Iterator[tuple[str, Answer]]:
            if moment_of(asked.get(sites.address("b"), b"") or next(iter(asked.values()))) == SECOND:
                requests.append(asked[sites.address("b")])
            return super().ask(asked, *others)

    run = federated(Noting(sites.transport, {}), "scaffold", tmp_path / "run", **ALL)
    states = victim.site.folder / "runs" / run_name(run)
    kept, before = sorted(states.rglob("*.safetensors")), len(victim.audit())
    victim.signal(signal.SIGSTOP)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(sites.address("b"))
    send_frame(connection, requests[0], time.monotonic() + 60)
    connection.close()
    victim.signal(signal.SIGCONT)
    eventually(lambda: len(victim.audit()) > before, "the site has looked at the request")
    assert [line["reason"] for line in victim.audit()[before:]] == ["nobody waits for an answer any more"]
    assert sorted(states.rglob("*.safetensors")) == kept


# --- lost states, and the server's own end -------------------------------------------------------------------------


def forget_states(site: ForkedSite, client: int) -> None:
    for path in site.site.folder.glob(f"runs/*/{client}/*.safetensors"):
        path.unlink()


def test_a_lost_state_fails_its_client_alone(sites: Forked, tmp_path: Path) -> None:
    transport = Changed(sites.transport, {})
    transport.before[sites.address("c"), SECOND] = lambda: forget_states(sites.sites["c"], 3)
    run = federated(transport, "scaffold", tmp_path / "run", **ALL)
    name = run_name(run)
    reason = (
        f"the state of client 3 is not here; put runs/{name}/3/1.safetensors back, or let the client begin anew with "
        f"`flatfed site forget {name} 3`"
    )
    rejected = [row.get("rejected", []) for row in run.history]
    assert rejected == [[], *[[{"client": 3, "reason": reason}]] * 3]
    assert [row["clients"] for row in run.history] == [[0, 1, 2, 3, 4], *[[0, 1, 2, 4]] * 3]
    longer = federated(sites.transport, "scaffold", tmp_path / "run", resume=True, resume_rounds=5)
    assert longer.history[4]["rejected"] == [{"client": 3, "reason": reason}]


def begin_anew(sites: Forked, client: int) -> None:
    """Let a client begin anew in the newest run, as whoever keeps the site would."""
    site = sites.sites[SITE_OF[client]]
    config = site.home / "site.yaml"
    config.write_text(yaml.safe_dump({"site": site.name, "data": "digits"}))
    outcome = flatfed("site", "forget", newest_run(sites), str(client), "--config", config)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"client {client} of {newest_run(sites)} begins anew" in outcome.out
    assert site.audit()[-1] | {"time": ""} == {
        "time": "",
        "what": "forget",
        "run": newest_run(sites),
        "client": client,
    }


def test_a_client_whose_state_is_lost_may_begin_anew(sites: Forked, tmp_path: Path) -> None:
    transport = Changed(sites.transport, {})
    transport.before[sites.address("b"), SECOND] = lambda: forget_states(sites.sites["b"], 2)
    transport.before[sites.address("b"), THIRD] = lambda: begin_anew(sites, 2)
    out = tmp_path / "run"
    run = federated(transport, "scaffold", out, **ALL, checkpoint_every=2)
    (rejected,) = run.history[1]["rejected"]
    expected = simulated("scaffold", {("b", SECOND): rejected["reason"]}, anew={(2, THIRD)}, **ALL)
    assert_same(run, expected, sites.home)
    # A server that goes back plays the same rounds again.
    shutil.rmtree(out / "checkpoints" / "round-000004")
    again = federated(sites.transport, "scaffold", out, **ALL, resume=True)
    assert_same(again, expected, sites.home)


def test_who_begins_anew_where_there_is_no_such_run(home: Path) -> None:
    (home / "site.yaml").write_text(yaml.safe_dump({"site": "a", "data": "digits"}))
    for run, reason in (("0123", "there is no run 0123 here"), ("..", "is no name of a run")):
        outcome = flatfed("site", "forget", run, "2", "--config", home / "site.yaml")
        assert outcome.code == 2
        assert reason in outcome.err
        assert "Traceback" not in outcome.err


def play_until_killed(sites: Forked, out: Path, moment: tuple[int, int, int], every: int) -> None:
    """Be the server, in a process of its own that ends in the middle of a round."""

    def die(answer: Answer) -> Answer:
        os.kill(os.getpid(), signal.SIGKILL)
        return answer

    transport = Changed(sites.transport, {(sites.address("b"), moment): die})
    federated(transport, "scaffold", out, **(ALL | {"rounds": 5}), checkpoint_every=every)
    os._exit(7)


@pytest.mark.parametrize(("round", "every"), [(1, 1), (3, 2), (2, 5)])
def test_a_server_that_is_killed_goes_on_to_the_same_bits(
    round: int, every: int, sites: Forked, tmp_path: Path
) -> None:
    arguments = sites, tmp_path / "run", (round, 0, 0), every
    server = multiprocessing.get_context("fork").Process(target=play_until_killed, args=arguments)
    server.start()
    server.join(PATIENCE)
    assert server.exitcode == -signal.SIGKILL
    options = ALL | {"rounds": 5}
    run = federated(sites.transport, "scaffold", tmp_path / "run", **options, resume=True)
    assert_same(run, simulated("scaffold", **options), sites.home)


def test_versions_are_few_and_reach_back_to_the_oldest_checkpoint(sites: Forked, tmp_path: Path) -> None:
    options = ALL | {"rounds": 12}
    most: list[int] = []

    def count(row: Any) -> None:
        name = newest_run(sites)
        folders = [path for site in sites.sites.values() for path in (site.site.folder / "runs" / name).iterdir()]
        most.append(max(len(list(folder.iterdir())) for folder in folders if folder.is_dir()))

    federate(wanted("scaffold", tmp_path / "run", **options, checkpoint_every=1), sites.transport, count)
    assert max(most) <= 4
    assert len(most) == 12
    checkpoints = sorted((tmp_path / "run" / "checkpoints").glob("round-*"))
    assert [path.name for path in checkpoints] == ["round-000011", "round-000012"]
    shutil.rmtree(checkpoints[-1])
    again = federated(sites.transport, "scaffold", tmp_path / "run", **options, resume=True)
    assert_same(again, simulated("scaffold", **options), sites.home)


def newest_run(sites: Forked) -> str:
    folders = (sites.sites["a"].site.folder / "runs").iterdir()
    return max(folders, key=lambda path: path.stat().st_ctime_ns).name
