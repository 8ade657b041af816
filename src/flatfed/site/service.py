"""What a site answers: who it is, the replies of its clients, how good a model is here, that it is well.

Every request is answered, whatever is in it: a refusal says why. A request that cannot be read changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from flatfed import __version__
from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import FlatfedError, Interrupted
from flatfed.core.method.engine import Job, Reply
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.messages import Message
from flatfed.core.method.wire import WireError, decode_job, encode_reply
from flatfed.engines.sites.engine import EXCHANGE, REPLIES
from flatfed.engines.sites.evaluation import DELIVER, DELIVERED, EVALUATE, METRICS
from flatfed.engines.sites.roll_call import HELLO, REFUSED
from flatfed.runs.fingerprints import arithmetic_fingerprint, code_fingerprint
from flatfed.site.audit import AuditLog, sizes
from flatfed.site.config import Site
from flatfed.site.data import NotAllowed, SiteData
from flatfed.site.permission import RoundCounter
from flatfed.site.run_work import SiteWork, decoded_versions

HEALTH = "health"
MOST_RUNS = 2
"""Runs that are held ready at once; each takes the memory of its model."""
MOST_REASON = 400
"""Characters of a reason, in the audit log and in an answer."""


class Abandoned(Interrupted):
    """The work of a request is not waited for any more."""


class SiteService:
    """Answers the requests of a server, one at a time."""

    def __init__(self, site: Site, data: SiteData, why_stale: Callable[[], str] = lambda: "") -> None:
        self.site, self.data = site, data
        site.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.audit = AuditLog(site.folder)
        self._why_stale = why_stale
        """Says why the work of the present request is of no use any more; nothing where it is."""
        self._rounds = RoundCounter(site.folder, site.limits.rounds_per_day)
        self._works: dict[str, SiteWork] = {}
        self._deadline = float("inf")
        self._started = time.time()
        self._doing = ""

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request; what cannot be noted in the audit log is refused."""
        try:
            return self._noted_answer(request)
        except OSError as error:
            return refusal(f"the site cannot write its audit log: {error.strerror or error}")

    def _noted_answer(self, request: bytes) -> bytes:
        try:
            envelope = Envelope.from_bytes(request, self.site.limits.largest_bytes)
            return self._answer(envelope).to_bytes()
        except Interrupted as error:
            self.audit.note("abandoned", bytes=len(request), reason=str(error))
            return refusal(str(error))
        except FlatfedError as error:
            self.refused(len(request), str(error))
            return refusal(str(error))
        except Exception as error:  # whatever forged bytes bring about must not end the site
            reason = f"{type(error).__name__}: {error}"
            self.audit.note("failed", bytes=len(request), reason=escaped(reason)[:MOST_REASON])
            return refusal(f"the site failed: {reason}")

    def refused(self, size: int, reason: str) -> None:
        """Note a request that is not worked on."""
        self.audit.note("refused", bytes=size, reason=escaped(reason)[:MOST_REASON])

    def _answer(self, envelope: Envelope) -> Envelope:
        if envelope.kind == HEALTH:
            return self.health()
        if envelope.kind == HELLO:
            return self._hello()
        if envelope.kind not in (EXCHANGE, EVALUATE, DELIVER):
            raise WireError(f"this site does not know the request {envelope.kind!r:.40}")
        if len(envelope.parts) < 2:
            raise WireError(f"a request {envelope.kind!r} lacks its assignment or its message")
        self._deadline = time.monotonic() + _seconds(envelope.facts)
        self._doing = envelope.kind
        try:
            return self._work_on(envelope)
        finally:
            self._doing = ""

    def _work_on(self, envelope: Envelope) -> Envelope:
        work = self._work_for(envelope.parts[0])
        message = Message.from_bytes(envelope.parts[1])
        if envelope.kind == EXCHANGE:
            return self._exchange(work, message, envelope)
        versions = decoded_versions(envelope.facts, work.own)
        round = _round(envelope.facts)
        if envelope.kind == EVALUATE:
            metrics = work.test_metrics(message, versions)
            self._note(EVALUATE, work, message, round=round, out=sizes({}, metrics))
            return Envelope(METRICS, {"metrics": metrics})
        files = work.deliver(message, round, versions, self.site.folder / "models")
        self._note(DELIVER, work, message, round=round, files=[path.name for path in files])
        return Envelope(DELIVERED, {"files": len(files)})

    def _hello(self) -> Envelope:
        """Say who is here; what is said of the data is what a model must know."""
        facts = {
            "site": self.site.name,
            "counts": self.data.counts,
            "data": self.data.facts,
            "code": code_fingerprint(),
            "arithmetic": arithmetic_fingerprint(),
            "flatfed": __version__,
        }
        self.audit.note(HELLO, out={name: len(json.dumps(fact)) for name, fact in facts.items()})
        return Envelope("here", facts)

    def health(self) -> Envelope:
        """Say that the site is well, and what it does."""
        facts = {
            "site": self.site.name,
            "flatfed": __version__,
            "seconds": round(time.time() - self._started),
            "examples": sum(self.data.counts),
            "doing": self._doing or "waiting",
        }
        return Envelope("well", facts)

    def _work_for(self, assignment: bytes) -> SiteWork:
        """Return the work of a run; it is built when its assignment is seen first."""
        digest = hashlib.sha256(assignment).hexdigest()
        work = self._works.pop(digest, None)
        if work is None:
            work = SiteWork(assignment, self.site, self.data, self._pulse)
            names = work.assignment
            parts = {"parts": [f"{part.path} {part.digest}" for part in names.parts]} if names.parts else {}
            self.audit.note("run", run=names.run, method=work.algorithm.id, model=names.model.name, **parts)
        # The latest last: the one that was not used for longest goes first.
        while len(self._works) >= MOST_RUNS:
            del self._works[next(iter(self._works))]
        self._works[digest] = work
        return work

    def _pulse(self) -> None:
        """Give up work that nobody waits for any more."""
        if time.monotonic() > self._deadline:
            raise Abandoned("the time of this request is over")
        reason = self._why_stale()
        if reason:
            raise Abandoned(reason)

    def _exchange(self, work: SiteWork, message: Message, envelope: Envelope) -> Envelope:
        jobs = [decode_job(part) for part in envelope.parts[2:]]
        oldest = _whole(envelope.facts.get("oldest"))
        self._rounds.admit(envelope.parts[1:])
        start = _whole(envelope.facts.get("start", 0))
        for moment in sorted({(start, job.round, job.attempt, job.exchange) for job in jobs}):
            work.states.admit(moment)
        replies: list[Reply] = []
        for job in jobs:
            reply = work.reply(message, job, oldest)
            self._note_reply(work, message, job, reply)
            replies.append(reply)
        return Envelope(REPLIES, {}, [encode_reply(reply) for reply in replies])

    def _note_reply(self, work: SiteWork, message: Message, job: Job, reply: Reply) -> None:
        facts: dict[str, Any] = {"client": job.client, "round": job.round, "exchange": job.exchange}
        facts["attempt"] = job.attempt
        received = message | job.personal
        if reply.missing:
            self._note(EXCHANGE, work, received, **facts, failed=escaped(reply.missing)[:MOST_REASON])
            return
        out = sizes(reply.message.vectors, reply.message.scalars) | dict.fromkeys(reply.watch, 8)
        self._note(EXCHANGE, work, received, **facts, out=out)

    def _note(self, what: str, work: SiteWork, received: Message, **facts: Any) -> None:
        arrived = sizes(received.vectors, received.scalars)
        self.audit.note(what, run=work.assignment.run, **{"in": arrived}, **facts)


def refusal(reason: str) -> bytes:
    """Return the answer that says why a request is not worked on."""
    return Envelope(REFUSED, {"reason": escaped(reason)[:MOST_REASON]}).to_bytes()


def _seconds(facts: Mapping[str, Any]) -> float:
    seconds = facts.get("seconds", 600.0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e7:
        raise WireError(f"{seconds!r:.40} is no time")
    return float(seconds)


def _round(facts: Mapping[str, Any]) -> int:
    return _whole(facts.get("round"))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise WireError(f"{value!r:.40} is no round")
    return value


__all__ = ["HEALTH", "Abandoned", "NotAllowed", "SiteService"]
