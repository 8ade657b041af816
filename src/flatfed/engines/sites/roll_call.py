"""The roll call: who is there before the first round, with how many examples, and on which arithmetic.

The number of clients is fixed here and recorded, because methods divide by it. Sites with another flatfed, or other
kinds of data, are refused. Sites whose arithmetic rounds otherwise are named: the run is then the simulation's to
rounding only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import ConfigError, EngineError, FlatfedError, listed
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.wire import WireError
from flatfed.engines.sites.transport import Pulse, Transport

HELLO, REFUSED = "hello", "refused"
MOST_HELLO_BYTES = 1 << 24
HELLO_SECONDS = 30.0
"""How long one call waits: a node that never answers must not keep others from being called."""
PAUSE = 0.5
"""Seconds between two looks for sites that are not there yet."""
MOST_SITES = 10_000


@dataclass(frozen=True)
class SiteEntry:
    """A site that answered."""

    name: str
    address: str
    counts: list[int]
    data: dict[str, Any]
    """What the model must know: `classes`, `facts`, `class_names`, `default_model`."""
    code: str
    arithmetic: dict[str, str]


@dataclass(frozen=True)
class Roll:
    """The sites of a run, in the order of their names, and what differs between them."""

    sites: list[SiteEntry]
    rounding: list[str] = field(default_factory=list)
    """Why the run agrees with a simulation to rounding only; nothing where it does to the bit."""

    @property
    def counts(self) -> list[int]:
        """The number of examples of every client, in the order of their numbers."""
        return [count for site in self.sites for count in site.counts]

    @property
    def data(self) -> dict[str, Any]:
        """What the model must know of the data, the same at all sites."""
        return self.sites[0].data

    def to_dict(self) -> dict[str, Any]:
        """Return what is recorded of it."""
        sites = [{"site": site.name, "examples": site.counts, "arithmetic": site.arithmetic} for site in self.sites]
        return {"sites": sites, "data": self.data, "to_rounding": self.rounding}


@dataclass(frozen=True)
class Caller:
    """Whom the server calls, and what it compares their answers with."""

    expected: Sequence[str]
    """The names of the sites that must answer."""
    code: str
    arithmetic: dict[str, str]
    seconds: float = 120.0
    say: Callable[[str], None] = lambda text: None
    pulse: Pulse = lambda: None


def call_roll(transport: Transport, caller: Caller) -> Roll:
    """Ask who is there until all that are expected have answered; after the time it is an error that names them."""
    _check_names(caller.expected)
    deadline = time.monotonic() + caller.seconds
    answered: dict[str, SiteEntry] = {}
    reasons: dict[str, set[str]] = {}
    heard: set[str] = set()
    while True:
        new = [address for address in transport.addresses() if address not in heard]
        left = min(deadline - time.monotonic(), HELLO_SECONDS)
        for address, answer in _hellos(transport, new, max(left, 1.0), caller.pulse):
            if isinstance(answer, SiteEntry):
                _enter(answer, answered, caller)
                heard.add(address)
                reasons.pop(address, None)
            else:
                # All of them: the last call is cut short, and its reason is seldom the one that helps.
                reasons.setdefault(address, set()).add(answer)
        missing = [name for name in caller.expected if name not in answered]
        if not missing:
            break
        if time.monotonic() > deadline:
            raise EngineError(_not_there(missing, caller.seconds, reasons))
        caller.pulse()
        time.sleep(PAUSE)
    sites = [answered[name] for name in sorted(caller.expected)]
    _check_data(sites)
    return Roll(sites, _rounding(sites, caller))


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ConfigError("name the sites that take part, such as hospital-a,hospital-b")
    if len(set(names)) < len(names) or len(names) > MOST_SITES:
        raise ConfigError(f"the sites {listed(list(names))} are too many, or one is named twice")


def _hellos(
    transport: Transport, addresses: list[str], seconds: float, pulse: Pulse
) -> list[tuple[str, SiteEntry | str]]:
    """Return for each address who is there, or why nobody can be heard."""
    request = Envelope(HELLO).to_bytes()
    heard: list[tuple[str, SiteEntry | str]] = []
    for address, answer in transport.ask(dict.fromkeys(addresses, request), seconds, MOST_HELLO_BYTES, pulse):
        if not isinstance(answer, bytes):
            heard.append((address, answer.reason))
            continue
        try:
            heard.append((address, _entry(address, answer)))
        except WireError as error:
            heard.append((address, str(error)))
    return heard


def _entry(address: str, answer: bytes) -> SiteEntry:
    envelope = Envelope.from_bytes(answer, MOST_HELLO_BYTES)
    facts = envelope.facts
    if envelope.kind == REFUSED:
        raise WireError(escaped(str(facts.get("reason", "refused"))[:400]))
    try:
        counts = [int(count) for count in facts["counts"]]
        # Escaped: what a site says is shown on the server's terminal.
        arithmetic = {escaped(str(name)): escaped(str(value)) for name, value in facts["arithmetic"].items()}
        name, code = escaped(str(facts["site"])), escaped(str(facts["code"]))
        entry = SiteEntry(name, address, counts, dict(facts["data"]), code, arithmetic)
    except Exception as error:  # whatever a forged answer brings about
        raise WireError(f"a site answered the roll call with something else: {error!r}") from None
    if not counts or min(counts) < 0:
        raise WireError(f"the site {entry.name} has no clients, or negative numbers of examples")
    return entry


def _enter(entry: SiteEntry, answered: dict[str, SiteEntry], caller: Caller) -> None:
    """Enter a site that is expected, once."""
    if entry.name not in caller.expected:
        caller.say(f"the site {entry.name} answered, but is not among those of this run; it is left out")
        return
    if entry.name in answered:
        raise FlatfedError(f"two nodes say that they are the site {entry.name}; stop one of them")
    if entry.code != caller.code:
        raise FlatfedError(
            f"the site {entry.name} has another flatfed ({entry.code[:12]}) than the server ({caller.code[:12]}); "
            "install the same release on both"
        )
    answered[entry.name] = entry
    caller.say(f"site {entry.name}: {len(entry.counts)} client(s), {sum(entry.counts):,} examples")


def _not_there(missing: list[str], seconds: float, reasons: dict[str, set[str]]) -> str:
    text = f"{listed(missing)} did not answer the roll call within {seconds:g} s"
    heard = set().union(*reasons.values())
    if heard:
        text += f" (heard from others: {'; '.join(sorted(heard))[:400]})"
    return f"{text}; start `flatfed site run` and the SuperNode there, or leave them out"


def _check_data(sites: list[SiteEntry]) -> None:
    """Refuse sites whose data ask for different models."""
    first = sites[0]
    for site in sites[1:]:
        for name in sorted(first.data.keys() | site.data.keys()):
            here, there = first.data.get(name), site.data.get(name)
            if here != there:
                raise FlatfedError(
                    f"the sites {first.name} and {site.name} have different data: {name} is {here!r:.80} and "
                    f"{there!r:.80}; give both the same data options (classes, columns, size)"
                )


def _rounding(sites: list[SiteEntry], caller: Caller) -> list[str]:
    """Return which sites compute otherwise than the server does."""
    found: list[str] = []
    for site in sites:
        names = sorted(site.arithmetic.keys() | caller.arithmetic.keys())
        differing = [name for name in names if site.arithmetic.get(name) != caller.arithmetic.get(name)]
        if differing:
            pairs = [f"{name} {site.arithmetic.get(name)}, not {caller.arithmetic.get(name)}" for name in differing]
            found.append(f"{site.name}: {'; '.join(pairs)}")
    return found
