"""What the global model is worth at each site: every site tests it on its own test examples, which stay there.

Where layers stay at the clients (FedBN), each client's own are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import tell
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.messages import Message
from flatfed.core.method.wire import WireError
from flatfed.core.round.federation import Federation
from flatfed.core.task.task import TEST
from flatfed.engines.sites.assignment import Assignment
from flatfed.engines.sites.engine import SECONDS, Correspondence
from flatfed.engines.sites.roll_call import REFUSED
from flatfed.engines.sites.transport import Answer, NoAnswer
from flatfed.engines.sites.versions import NEVER, version_of

EVALUATE, METRICS = "evaluate", "metrics"
DELIVER, DELIVERED = "deliver", "delivered"
MOST_METRICS_BYTES = 1 << 20
EXAMPLES = "examples"


class SiteEvaluation:
    """Puts each site's metrics into the rows that are evaluated, and their means over all sites' test examples."""

    looks_back = False

    def __init__(self, to: Correspondence, algorithm: Algorithm, settings: Settings) -> None:
        self._to, self._settings = to, settings
        self._assignment = to.assignment(algorithm, settings)

    def due(self, round: int) -> bool:
        """Say whether sites test the model after this round."""
        return self._settings.evaluates(round)

    def read(self, federation: Federation) -> Mapping[str, Any]:
        """Return the metrics of the sites that answered, and their means."""
        answers = ask_sites(self._to, self._assignment, EVALUATE, federation)
        metrics: dict[str, dict[str, float]] = {}
        for site, envelope in sorted(answers.items()):
            numbers = _numbers(envelope.facts) if envelope.kind == METRICS else {}
            if numbers:
                metrics[site] = numbers
        means = _means(metrics)
        if federation.task.test_sets:
            return {"sites": metrics, "watch": {f"sites_{name}": value for name, value in means.items()}}
        # Where the server has no test set, the sites' examples together are the test.
        return {"sites": metrics, **{f"{TEST}_{name}": value for name, value in means.items()}}


def deliver(to: Correspondence, federation: Federation) -> None:
    """Give the final model to the sites, and say who has it."""
    assignment = to.assignment(federation.algorithm, federation.settings)
    answers = ask_sites(to, assignment, DELIVER, federation)
    having = sorted(site for site, envelope in answers.items() if envelope.kind == DELIVERED)
    missing = sorted(to.addresses.keys() - set(having))
    tell(f"the final model is at {', '.join(having) or 'no site'}")
    if missing:
        tell(f"the final model is not at {', '.join(missing)}: resume the run when they are there")


def _versions(federation: Federation, clients: range) -> dict[str, int]:
    """Return the version of each of some clients that counts."""
    versions: dict[str, int] = {}
    for client in clients:
        version = version_of(federation.clients.read(client))
        versions[str(client)] = NEVER if version is None else version
    return versions


def ask_sites(to: Correspondence, assignment: Assignment, kind: str, federation: Federation) -> dict[str, Envelope]:
    """Send the evaluated model to every site that can be reached; return the answers that can be read, by site."""
    reachable = set(to.transport.addresses())
    site_at = {address: site for site, address in to.addresses.items() if address in reachable}
    message = Message.of({"w": federation.evaluated, **federation.server.buffers})
    parts = [assignment.to_bytes(), message.to_bytes()]
    seconds = federation.settings.exchange_timeout or SECONDS
    facts: dict[str, Any] = {"run": to.run, "round": federation.round, "seconds": seconds}
    requests: dict[str, bytes] = {}
    for address, site in site_at.items():
        versions = _versions(federation, assignment.clients_of(site))
        requests[address] = Envelope(kind, facts | {"versions": versions}, parts).to_bytes()
    answers: dict[str, Envelope] = {}
    for address, answer in to.transport.ask(requests, seconds, MOST_METRICS_BYTES, to.pulse):
        try:
            answers[site_at[address]] = _read(answer)
        except WireError as error:  # the others have answered: the run goes on
            tell(f"the site {site_at[address]} cannot {kind} the model: {error}")
    return answers


def _read(answer: Answer) -> Envelope:
    """Return the envelope of an answer; where there is none, or it is a refusal, a `WireError` says why."""
    if isinstance(answer, NoAnswer):
        raise WireError(answer.reason)
    envelope = Envelope.from_bytes(answer, MOST_METRICS_BYTES)
    if envelope.kind == REFUSED:
        raise WireError(escaped(str(envelope.facts.get("reason", "refused"))[:400]))
    return envelope


def _numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are finite numbers; what else a site may write is passed over."""
    metrics = facts.get("metrics")
    if not isinstance(metrics, dict):
        return {}
    numbers: dict[str, float] = {}
    for name, value in list(metrics.items())[:64]:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and math.isfinite(value) and str(name).isidentifier():
            numbers[str(name)] = float(value)
    return numbers if numbers.get(EXAMPLES, 0) > 0 else {}


def _means(sites: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return each metric's mean over the sites, weighted by their test examples."""
    names = {name for numbers in sites.values() for name in numbers if name != EXAMPLES}
    means: dict[str, float] = {}
    for name in sorted(names):
        having = [numbers for numbers in sites.values() if name in numbers]
        total = sum(numbers[EXAMPLES] for numbers in having)
        means[name] = sum(numbers[name] * numbers[EXAMPLES] for numbers in having) / total
    return means
