"""What goes wrong in a federation on Flower: it costs the replies concerned, or is refused in one sentence.

It takes about twenty minutes, so it has a target of its own: `make federation-faults`.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import flatfed
from deploy.federation import LONG, until
from engines.bench import exact
from flatfed.core.method.envelope import Envelope
from flatfed.frames import ask_socket
from flower.bench import ENDLESS, MISSING, Bench, Member, lost_in, started
from flower.between import LARGEST, between
from sites.bench import assert_same
from sites.test_answers import ANSWERS, REPLIES, altered

pytestmark = [
    pytest.mark.skipif("FLATFED_FEDERATION" not in os.environ, reason="takes long: make federation-faults"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Flower's own, at its import
]

FIRST, SECOND = (0, 0, 0), (1, 0, 0)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with started() as bench:
        bench.wait_ready()
        yield bench


@pytest.fixture(autouse=True)
def nobody_waits(bench: Bench) -> Iterator[None]:
    """Let whoever waits go on after a test, also after one that failed."""
    yield
    for member in bench.sites.values():
        member.let_go()


# --- who cannot take part -------------------------------------------------------------------------------------------


def refusal(bench: Bench, name: str, **changes: object) -> str:
    """Return the one sentence with which a run ends that cannot begin."""
    number = bench.begin("fedavg", name, **changes)
    assert bench.federation.wait_finished(number) != "finished:completed"
    said = bench.log(number)
    assert "Traceback" not in said
    (sentence,) = [line for line in said.splitlines() if line.startswith("flatfed: Error: ")]
    assert not bench.out(name).exists()
    return sentence


def test_a_site_that_is_not_there_is_named(bench: Bench) -> None:
    c = bench["c"]
    assert c.process is not None
    c.process.stop()
    sentence = refusal(bench, "missing", roll_call_seconds=90)
    assert "c did not answer the roll call within 90 s" in sentence
    assert "is `flatfed site run` there?" in sentence
    c.start()
    c.wait_well()


def test_other_data_are_refused(bench: Bench) -> None:
    c = bench["c"]
    c.restart(data_options={"classes": 4})
    sentence = refusal(bench, "other-data")
    assert "the sites a and c have different data: classes is 3 and 4" in sentence
    c.restart()


def test_a_site_without_its_data_ends_with_a_sentence(bench: Bench, tmp_path: Path) -> None:
    home = bench["a"].home
    kit = tmp_path / "kit"
    kit.mkdir()
    shutil.copy(home / "site.sh", kit)
    (kit / "site.yaml").write_text("site: x\ndata: table\ndata_options: {path: none.csv, label: y}\n")
    program = bench.federation.start(kit / "site.sh")
    assert program.wait_ended() == 2
    assert "Traceback" not in program.text
    assert "none.csv" in program.text


OTHER = """#!/bin/sh
exec {python} -c 'import sys; sys.path.insert(0, "{folder}"); from flatfed.cli.main import main; sys.exit(main())' "$@"
"""


def test_another_flatfed_is_refused(bench: Bench) -> None:
    c = bench["c"]
    folder = c.home / "other"
    shutil.copytree(Path(flatfed.__file__).parent, folder / "flatfed", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "flatfed" / "frames.py").open("a") as file:
        file.write("# Another release.\n")
    # The script looks here first, as where a site has an environment of its own.
    command = c.home / ".venv/bin/flatfed"
    command.parent.mkdir(parents=True)
    command.write_text(OTHER.format(python=sys.executable, folder=folder))
    command.chmod(0o755)
    c.restart()
    sentence = refusal(bench, "other-release")
    assert "the site c has another flatfed" in sentence
    assert "install the same release on both" in sentence
    command.unlink()
    c.restart()


# --- what a site answers --------------------------------------------------------------------------------------------

LIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nan": (altered(REPLIES["nan"][0]), "is not finite"),
    "shape": (altered(REPLIES["shape"][0]), "has shape (50,), not (51,)"),
    "samples": (altered(REPLIES["samples"][0]), "1000"),
    "garbage": (ANSWERS["garbage"][0], "these bytes are no flatfed envelope"),
    "oversized": (lambda answer: os.urandom(4 << 20), "4,194,304 bytes, above the bound"),
    # Flower carries equal pieces once: this is small on its way.
    "inflating": (lambda answer: bytes(64 << 20), "67,108,864 bytes, above the bound"),
}


def states(member: Member) -> dict[Path, bytes]:
    """Return the states of a site's clients by their files."""
    return {file: file.read_bytes() for file in (member.home / "state/runs").rglob("*.safetensors")}


def kind(answer: bytes) -> str:
    return Envelope.from_bytes(answer).kind


def test_a_site_that_lies_is_left_out_and_requests_that_come_again_change_nothing(bench: Bench) -> None:
    rounds = len(LIES) + 1
    b = bench["b"]
    with between(b) as liar:
        liar.changes = {(round, 0, 0): change for round, (change, _) in enumerate(LIES.values())}
        liar.repeats = True
        bench.finish(bench.begin("scaffold", "lies", rounds=rounds))
        before = states(b)
        assert before
        for request, expected in ((liar.requests[-1], "replies"), (liar.requests[0], "refused")):
            assert kind(ask_socket(liar.real, request, LONG, LARGEST)) == expected
            assert states(b) == before
    # The first request is the latest one until the second has come.
    assert list(map(kind, liar.old_answers)) == ["replies"] + ["refused"] * (rounds - 2)
    run = bench.loaded("lies")
    lost = lost_in(run)
    for round, (_, reason) in enumerate(LIES.values()):
        assert reason in lost["b", (round, 0, 0)]
    assert len(lost) == len(LIES)
    expected_run = bench.simulated("scaffold", lost, rounds=rounds)
    assert [row["clients"] for row in run.history] == [row["clients"] for row in expected_run.history]
    assert exact(run.vector) == exact(expected_run.vector)
    assert exact(run.server_state) == exact(expected_run.server_state)


# --- what is lost ---------------------------------------------------------------------------------------------------


def test_a_site_restarted_between_rounds_and_a_server_killed_in_one(bench: Bench) -> None:
    a, b = bench["a"], bench["b"]
    a.hold()
    b.hold()
    before = len(b.audit("exchange"))
    bench.begin("scaffold", "killed")
    a.wait_held()
    b.wait_held()
    b.let_go()
    b.wait_answered(before + 1)
    # The server waits for a, so b has nothing to do.
    b.restart()
    b.hold()
    a.let_go()
    b.wait_held()
    assert len(bench.history("killed")) == 1
    bench.kill_server_app()
    b.let_go()
    again = bench.resume("killed")
    bench.finish(again)
    assert_same(bench.loaded("killed"), bench.simulated("scaffold"), bench.home)
    assert "the final model is at a, b, c" in bench.log(again)


def test_a_site_killed_after_its_state_was_written_and_before_it_answered(bench: Bench) -> None:
    b = bench["b"]
    with between(b) as somebody:

        def kill(answer: bytes) -> None:
            assert b.process is not None
            b.process.kill()
            b.start()
            b.wait_well()

        somebody.changes[FIRST] = kill
        bench.finish(bench.begin("scaffold", "unsaid"))
    lost = lost_in(bench.loaded("unsaid"))
    assert list(lost) == [("b", FIRST)]
    assert_same(bench.loaded("unsaid"), bench.simulated("scaffold", lost), bench.home)


def test_a_lost_state_costs_the_client_its_rounds(bench: Bench) -> None:
    a, b = bench["a"], bench["b"]
    before = len(b.audit("exchange"))
    old = states(b)
    a.hold()
    number = bench.begin("feddyn", "lost")
    a.wait_held()
    b.wait_answered(before + 1)
    (lost_file,) = states(b).keys() - old.keys()
    lost_file.unlink()
    a.let_go()
    bench.finish(number)
    _, lost = bench.same_so_far("feddyn", "lost")
    assert list(lost) == [("b", SECOND)]
    assert "the state of client 2 is not here; put runs/" in lost["b", SECOND]


# --- who is away ----------------------------------------------------------------------------------------------------


def test_a_node_that_is_ended_and_started_again(bench: Bench) -> None:
    a, c = bench["a"], bench["c"]
    assert c.node is not None
    a.hold()
    c.hold()
    number = bench.begin("fedwmsam", "ended", exchange_timeout=120)
    a.wait_held()
    c.wait_held()
    c.node.end()
    # The round waits for a, so the node is there for the next one.
    c.rejoin()
    c.let_go()
    a.let_go()
    bench.finish(number)
    _, lost = bench.same_so_far("fedwmsam", "ended")
    assert list(lost) == [("c", FIRST)]


def test_a_superlink_killed_in_a_round(bench: Bench) -> None:
    c = bench["c"]
    c.hold()
    number = bench.begin("fedgmt", "link", exchange_timeout=120)
    c.wait_held()
    (superlink,) = [program for program in bench.federation.programs if program.name == "server-superlink"]
    superlink.kill()
    bench.federation.start_superlink()
    c.let_go()
    bench.finish(number)
    run, _ = bench.same_so_far("fedgmt", "link")
    assert (run.status, run.round) == ("finished", 2)


def is_back(bench: Bench, name: str) -> bool:
    """Say whether clients 3 and 4 have taken part after the first round."""
    return any({3, 4} <= set(row["clients"]) for row in bench.history(name)[1:])


def test_a_site_that_stands_still_is_late_and_comes_back(bench: Bench) -> None:
    """A site may work for a stopped run a little longer: no test that lets one wait may follow before another run."""
    c = bench["c"]
    c.hold()
    number = bench.begin("fedgloss+sam", "late", rounds=ENDLESS, exchange_timeout=bench.patience())
    c.wait_held()
    c.signal(signal.SIGSTOP)
    c.let_go()
    until(lambda: bench.history("late"), "the first round")
    c.signal(signal.SIGCONT)
    until(lambda: is_back(bench, "late"), "c to be back")
    bench.stop(number)
    _, lost = bench.same_so_far("fedgloss+sam", "late")
    assert ("c", FIRST) in lost


# --- last, as they take more than a minute ---------------------------------------------------------------------------


def test_a_node_that_was_killed_comes_back_after_a_minute(bench: Bench) -> None:
    c = bench["c"]
    assert c.node is not None
    c.node.kill()
    c.rejoin()
    bench.finish(bench.begin("scaffold", "back", rounds=1))
    assert_same(bench.loaded("back"), bench.simulated("scaffold", rounds=1), bench.home)


def test_a_node_killed_in_a_round_and_the_run_stopped_later(bench: Bench) -> None:
    """The last one: the SuperLink lets the node back in only after a minute."""
    c = bench["c"]
    assert c.node is not None
    c.hold()
    number = bench.begin("feddyn", "stopped", rounds=ENDLESS, exchange_timeout=bench.patience())
    c.wait_held()
    c.node.kill()
    c.let_go()
    until(lambda: len(bench.history("stopped")) >= 2, "two rounds")
    bench.stop(number)
    run, lost = bench.same_so_far("feddyn", "stopped")
    assert run.round >= 2
    assert all(("c", (round, 0, 0)) in lost for round in range(run.round))
