"""What a site does not allow is refused with a sentence, and nothing of it is done."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.engine import Job
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.method.wire import decode_reply, encode_job
from flatfed.engines.sites.assignment import Assignment, ModelRecipe
from flatfed.engines.sites.versions import handle, version_of
from flatfed.runs.fingerprints import code_fingerprint
from flatfed.site.service import SiteService
from sites.bench import NAMES, Direct, data_of, federated, service_in

SIZE = 51


def assignment(**changes: Any) -> Assignment:
    """Return an assignment that a site of the bench takes, but for the changes."""
    sites = [(name, data_of(name).counts) for name in NAMES]
    settings = Settings(rounds=3, lr=0.1, batch_size=4, vectorised=False)
    model = ModelRecipe("logreg", 3, facts={"in_channels": 1, "image_size": 4})
    plain = Assignment("run1", ff.make("scaffold").to_dict(), settings.to_dict(), model, sites, code_fingerprint())
    return replace(plain, **changes)


def request(
    given: Assignment | bytes | None = None, job: Job | bytes | None = None, kind: str = "exchange", **facts: Any
) -> bytes:
    given = assignment() if given is None else given
    first = given if isinstance(given, bytes) else given.to_bytes()
    job = Job(2, 0, 0, 0.1, handle()) if job is None else job
    last = job if isinstance(job, bytes) else encode_job(job)
    message = Message(w=torch.zeros(SIZE), c=torch.zeros(SIZE))
    parts = [first, message.to_bytes(), last]
    return Envelope(kind, {"run": "run1", "oldest": 0, "seconds": 60.0, "round": 0} | facts, parts).to_bytes()


def answered(service: SiteService, data: bytes) -> Envelope:
    return Envelope.from_bytes(service.answer(data))


def reason_of(service: SiteService, data: bytes) -> str:
    """Return why a request is refused; the site must say so and note it."""
    envelope = answered(service, data)
    assert envelope.kind == "refused", envelope
    last = json.loads(service.audit.path.read_text().splitlines()[-1])
    assert last["what"] in ("refused", "failed")
    assert "Traceback" not in str(envelope.facts["reason"])
    return str(envelope.facts["reason"])


def test_what_is_allowed_is_answered(home: Path) -> None:
    envelope = answered(service_in(home, "b"), request())
    (part,) = envelope.parts
    reply = decode_reply(part)
    assert (envelope.kind, reply.client, reply.missing) == ("replies", 2, "")
    assert version_of(reply.kept) == 1


LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "method": ({"methods": ["fedavg", "feddyn"]}, {}, "does not allow the method 'scaffold', only fedavg"),
    "batches": ({"min_batch": 5}, {}, "with batch_size=4 a batch here"),
    "batch": ({"min_batch": 5}, {}, "a batch here would have 1 examples, and this site takes 5 or more"),
    "examples": ({"min_examples": 22}, {}, "a client here has 21 examples, and this site trains on 22 or more"),
    "code": ({"code": ["0" * 64]}, {}, "allows flatfed only in other releases"),
    "server-code": ({}, {"code": "1" * 64}, "the server 111111111111; take the same"),
    "model-code": (
        {"models": ["own.net:Net"]},
        {"model": ModelRecipe("antigravity:Net", 3, facts={"in_channels": 1, "image_size": 4})},
        "does not allow the code 'antigravity:Net'; name it in limits.models",
    ),
}


@pytest.mark.parametrize(("limits", "changes", "reason"), LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_is_kept(limits: dict[str, Any], changes: dict[str, Any], reason: str, home: Path) -> None:
    service = service_in(home, "b", **limits)
    assert reason in reason_of(service, request(assignment(**changes)))
    assert not (service.site.folder / "runs").exists()
    assert "antigravity" not in sys.modules


def test_a_limit_of_one_site_leaves_the_others_alone(home: Path) -> None:
    services = {name: service_in(home, name, **({"methods": "fedavg"} if name == "b" else {})) for name in NAMES}
    run = federated(Direct(services), "scaffold", home / "run", sampling=5)
    reason = "the site b: this site does not allow the method 'scaffold', only fedavg"
    assert [row["rejected"] for row in run.history] == [[{"client": 2, "reason": reason}]] * 3
    assert run.status == "finished"


def algorithm(**changes: Any) -> dict[str, Any]:
    return ff.make("fedavg+sam").to_dict() | changes


def recipe(**changes: Any) -> dict[str, Any]:
    return {
        "model": ModelRecipe(**{"name": "logreg", "classes": 3, "facts": {"in_channels": 1, "image_size": 4}} | changes)
    }


ODD: dict[str, dict[str, Any]] = {
    "algorithm": {"algorithm": {"id": "antigravity:flight"}},
    "algorithm-empty": {"algorithm": {}},
    "algorithm-parameter": {"algorithm": algorithm(antigravity=1)},
    "algorithm-nested": {"algorithm": {name: {"id": "antigravity:x"} for name in algorithm()} | {"id": "fedavg"}},
    "settings": {"settings": {"rounds": 1, "lr": "antigravity:lr"}},
    "settings-empty": {"settings": {}},
    "settings-more": {"settings": {"rounds": 1, "lr": 0.1, "antigravity": 1}},
    "model": recipe(name="antigravity"),
    "model-options": recipe(options={"antigravity": 1}),
    "model-number": recipe(name=7),
    "classes": recipe(classes=4),
    "facts": recipe(facts={"in_channels": 1, "image_size": 5}),
    "augment": recipe(augment="antigravity:flip"),
    "local": recipe(local_layers="antigravity:layers"),
    "run": {"run": "../../up"},
    "run-hidden": {"run": ".."},
    "run-number": {"run": 7},
    "not-in-it": {"sites": [("a", [10, 10]), ("c", [11, 11])]},
    "other-counts": {"sites": [("a", [10, 10]), ("b", [22]), ("c", [11, 11])]},
    "more-clients": {"sites": [("a", [10, 10]), ("b", [21, 3]), ("c", [11, 11])]},
}


@pytest.mark.parametrize("changes", ODD.values(), ids=ODD.keys())
def test_an_odd_assignment_is_refused_and_imports_nothing(changes: dict[str, Any], home: Path) -> None:
    service = service_in(home, "b")
    assert reason_of(service, request(assignment(**changes)))
    assert "antigravity" not in sys.modules
    assert {path.name for path in service.site.folder.iterdir()} <= {"audit.jsonl"}
    assert answered(service, request()).kind == "replies"


CONTENT = asdict(assignment())
BYTES: dict[str, bytes] = {
    "nothing": b"",
    "list": b"[]",
    "deep": b"[" * 100_000,
    "endless": json.dumps(CONTENT | {"sites": [["b", [1e999]]]}).encode(),
    "more": json.dumps(CONTENT | {"x" * 5000: 1}).encode(),
    "less": json.dumps({name: value for name, value in CONTENT.items() if name != "code"}).encode(),
    "model": json.dumps(CONTENT | {"model": 3}).encode(),
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES.keys())
def test_bytes_that_are_no_assignment(data: bytes, home: Path) -> None:
    service = service_in(home, "b")
    assert "these bytes are no assignment of a run" in reason_of(service, request(data))
    assert max(map(len, service.audit.path.read_text().splitlines())) < 700


JOBS: dict[str, tuple[Job | bytes, dict[str, Any], str]] = {
    "not-own": (Job(0, 0, 0, 0.1, handle()), {}, "client 0 is not at this site"),
    "nobody": (Job(99, 0, 0, 0.1, handle()), {}, "client 99 is not at this site"),
    "state": (Job(2, 0, 0, 0.1, State({"c": torch.zeros(SIZE)})), {}, "names no version of a state"),
    "shows-model": (Job(2, 0, 0, 0.1, handle(), shows_model=True), {}, "asks for a client's model"),
    "garbage": (b"\xff" * 30, {}, "these bytes are no flatfed job"),
    "endless-wait": (Job(2, 0, 0, 0.1, handle()), {"seconds": 1e300}, "is no time"),
    "no-wait": (Job(2, 0, 0, 0.1, handle()), {"seconds": 0}, "is no time"),
    "oldest": (Job(2, 0, 0, 0.1, handle()), {"oldest": -1}, "is no round"),
}


@pytest.mark.parametrize(("job", "facts", "reason"), JOBS.values(), ids=JOBS.keys())
def test_an_odd_job_is_refused(job: Job | bytes, facts: dict[str, Any], reason: str, home: Path) -> None:
    assert reason in reason_of(service_in(home, "b"), request(None, job, **facts))


def test_a_request_from_before_another_is_refused_and_undoes_nothing(home: Path) -> None:
    def asked(round: int, kept: int, **facts: int) -> Envelope:
        # A new service every time, as after a restart.
        return answered(service_in(home, "b"), request(None, Job(2, round, 0, 0.1, handle(kept)), **facts))

    def version(envelope: Envelope) -> int:
        return version_of(decode_reply(envelope.parts[0]).kept) or 0

    first = version(asked(0, 0))
    second = version(asked(1, first))
    third = version(asked(2, second))
    late = asked(1, first)
    assert late.kind == "refused"
    assert "older than one that was worked on" in str(late.facts["reason"])
    # The state of the third round is still there; a server that was resumed may go back.
    assert version(asked(3, third)) > third
    assert version(asked(1, first, start=1)) == second


def test_a_request_that_comes_again_and_is_given_up_takes_no_state_away(home: Path) -> None:
    service = service_in(home, "b")
    assert answered(service, request()).kind == "replies"
    ending = SiteService(service.site, service.data, lambda: "the site is ended")
    assert answered(ending, request()).facts["reason"] == "the site is ended"
    reply = decode_reply(answered(service, request(None, Job(2, 1, 0, 0.1, handle(1)))).parts[0])
    assert reply.missing == ""


def test_an_unknown_version_is_the_clients_failure(home: Path) -> None:
    envelope = answered(service_in(home, "b"), request(None, Job(2, 1, 0, 0.1, handle(77))))
    missing = decode_reply(envelope.parts[0]).missing
    assert missing.startswith("the state of client 2 is not here; put runs/run1/2/77.safetensors back, or let")
    assert missing.endswith("`flatfed site forget run1 2`")


def test_an_odd_request_is_refused(home: Path) -> None:
    service = service_in(home, "b")
    assert "does not know the request 'shutdown'" in reason_of(service, Envelope("shutdown").to_bytes())
    assert "lacks its assignment" in reason_of(service, Envelope("exchange", {}, [b""]).to_bytes())
    assert "no flatfed envelope" in reason_of(service, b"GET / HTTP/1.1")
    assert reason_of(service, Envelope("exchange", {}, [assignment().to_bytes(), b"\0" * 20]).to_bytes())
    assert answered(service, request()).kind == "replies"


def test_a_large_request_is_refused(home: Path) -> None:
    service = service_in(home, "b", largest_message=1)
    assert "above the bound 1,048,576" in reason_of(service, bytes((1 << 20) + 1))


def test_rounds_of_a_day_are_counted_also_after_a_restart(home: Path) -> None:
    def asked(data: bytes) -> Envelope:
        # A new service every time, as after a restart.
        return answered(service_in(home, "b", rounds_per_day=2), data)

    first, second, third = (request(None, Job(2, round, 0, 0.1, handle())) for round in range(3))
    # The very same request counts once; another attempt at a round is another piece of training.
    assert [asked(first).kind, asked(first).kind, asked(second).kind] == ["replies"] * 3
    for more in (third, request(None, Job(2, 1, 0, 0.1, handle(), attempt=1))):
        refused = asked(more)
        assert refused.kind == "refused"
        assert "takes part in 2 rounds a day" in str(refused.facts["reason"])
    file = home / "b" / "state" / "rounds.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"day": "2001-01-01"}))
    assert asked(third).kind == "replies"


def test_a_reply_holds_no_state(home: Path) -> None:
    reply = decode_reply(answered(service_in(home, "b"), request()).parts[0])
    assert reply.kept is not None
    assert list(reply.kept) == ["version"]
    assert reply.model is None
