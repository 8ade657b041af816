"""The engine of a federation: clients are at sites, which hold the data and the clients' states.

One request per site and exchange: what is sent to all, and the jobs of its clients. The client of a reply is the one
whose job it answers, whatever the reply says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from flatfed.core.configuration.checking import escaped
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Item, Job, Jobs, Reply, WorkFunction, failure
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.messages import Message
from flatfed.core.method.wire import WireError, decode_reply, encode_job
from flatfed.core.task.task import Task
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.sites.assignment import Assignment, ModelRecipe, OutsidePart
from flatfed.engines.sites.roll_call import REFUSED, Roll
from flatfed.engines.sites.transport import NoAnswer, Pulse, Transport
from flatfed.engines.sites.versions import version_of
from flatfed.outside.origins import found_origins

EXCHANGE, REPLIES = "exchange", "replies"
SECONDS = 600.0
"""How long an exchange waits where the settings say nothing: no wait is without a bound."""
SPARE_BYTES = 1 << 20
"""What a reply may have beside its vectors: names, numbers, a header."""
FEWEST_VECTORS = 4
"""At least as many vectors a reply may have: not every exchange of a method uploads the same ones."""


@dataclass(frozen=True)
class Correspondence:
    """What an engine needs to write to the sites of a run."""

    transport: Transport
    run: str
    """The name of the run at the sites."""
    roll: Roll
    model: ModelRecipe
    code: str
    start: int = 0
    """How often the run was resumed: after each, rounds may be asked for again."""
    pulse: Pulse = lambda: None
    oldest: Callable[[], int] = lambda: 0
    """The oldest round whose states may be asked for again: that of the oldest checkpoint."""

    @property
    def addresses(self) -> dict[str, str]:
        """The address of every site by name."""
        return {site.name: site.address for site in self.roll.sites}

    def assignment(self, algorithm: Algorithm, settings: Settings) -> Assignment:
        """Return what the sites must know of the run."""
        sites = [(site.name, site.counts) for site in self.roll.sites]
        origins = found_origins([algorithm, settings])
        parts = [OutsidePart(origin.family, origin.id, origin.path, origin.digest) for origin in origins]
        return Assignment(self.run, algorithm.to_dict(), settings.to_dict(), self.model, sites, self.code, parts)


class SitesEngine:
    """Sends jobs to the sites of a run; states of clients never come here, only the numbers of their versions."""

    gaps = False

    def __init__(
        self, task: Task, algorithm: Algorithm, settings: Settings, correspondence: Correspondence, pulse: Pulse
    ) -> None:
        self._task, self._algorithm, self._settings = task, algorithm, settings
        self._to, self._pulse = correspondence, pulse
        assignment = correspondence.assignment(algorithm, settings)
        self._assignment = assignment.to_bytes()
        self._site_of = assignment.sites_by_client()

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Ask every site for the replies of its clients, within the time of an exchange."""
        by_site = self._by_site(jobs)
        reachable = set(self._to.transport.addresses())
        requests: dict[str, bytes] = {}
        asked: dict[str, str] = {}
        broadcast = message.to_bytes()
        for site, its_jobs in by_site.items():
            address = self._to.addresses[site]
            if address not in reachable:
                yield from (failure(job, f"the site {site} is not connected") for job in its_jobs)
                continue
            requests[address], asked[address] = self._request(broadcast, its_jobs), site
        limit = self._largest_answer(len(broadcast), max(map(len, by_site.values()), default=0))
        for address, answer in self._to.transport.ask(requests, self._seconds, limit, self._pulse):
            site = asked[address]
            yield from self._replies(site, by_site[site], answer, limit)

    @property
    def _seconds(self) -> float:
        return self._settings.exchange_timeout or SECONDS

    def _by_site(self, jobs: Jobs) -> dict[str, list[Job]]:
        by_site: dict[str, list[Job]] = {}
        for job in jobs:
            by_site.setdefault(self._site_of[job.client], []).append(job)
        return by_site

    def _request(self, broadcast: bytes, jobs: Sequence[Job]) -> bytes:
        """Return the request to a site; what is the same for all comes first, so that it is carried once."""
        facts = {
            "run": self._to.run,
            "start": self._to.start,
            "oldest": self._to.oldest(),
            "seconds": self._seconds,
        }
        parts = [self._assignment, broadcast, *(encode_job(job) for job in jobs)]
        return Envelope(EXCHANGE, facts, parts).to_bytes()

    def _largest_answer(self, broadcast: int, jobs: int) -> int:
        """Return how many bytes an answer may have: more are not read."""
        vectors = max(len(self._algorithm.uploads()), FEWEST_VECTORS)
        model = self._task.layout().shared * self._settings.torch_dtype.itemsize
        return jobs * (vectors * model + broadcast + SPARE_BYTES) + SPARE_BYTES

    def _replies(self, site: str, jobs: Sequence[Job], answer: bytes | NoAnswer, limit: int) -> Iterator[Reply]:
        """Yield a reply for each job: the site's, or why there is none."""
        if isinstance(answer, NoAnswer):
            yield from (failure(job, answer.reason) for job in jobs)
            return
        try:
            parts = _parts(answer, limit, len(jobs))
        except WireError as error:
            yield from (failure(job, f"the site {site}: {escaped(str(error))}") for job in jobs)
            return
        for job, part in zip(jobs, parts, strict=True):
            yield _reply(job, part)

    def compute(
        self, piece: WorkFunction, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Compute here: what is computed for the server needs its own test set and no client's examples."""
        return self._here.compute(piece, given, items)

    @functools.cached_property
    def _here(self) -> InProcessEngine:
        return InProcessEngine(self._task, self._algorithm, self._settings, self._pulse)

    def close(self) -> None:
        """Nothing was started: sites live longer than a run."""


def _parts(answer: bytes, limit: int, jobs: int) -> Sequence[bytes]:
    """Return the replies in an answer, one for each job."""
    envelope = Envelope.from_bytes(answer, limit)
    if envelope.kind == REFUSED:
        raise WireError(str(envelope.facts.get("reason", "refused"))[:400])
    if envelope.kind != REPLIES or len(envelope.parts) != jobs:
        raise WireError(f"answers with {len(envelope.parts)} parts of {envelope.kind!r:.40} for {jobs} jobs")
    return envelope.parts


def _reply(job: Job, data: bytes) -> Reply:
    """Return the reply to a job; one that cannot be read, or answers another client's job, is none."""
    try:
        reply = decode_reply(data)
    except WireError as error:
        return failure(job, escaped(str(error)))
    if reply.client != job.client:
        return failure(job, f"answers for client {reply.client}")
    if reply.missing:
        return failure(job, escaped(reply.missing[:400]))
    if version_of(reply.kept) is None or reply.model is not None:
        return failure(job, "holds a state or a model, which stay at the site")
    return replace(reply, seconds=max(0.0, reply.seconds))
