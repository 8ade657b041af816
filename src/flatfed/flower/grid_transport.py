"""Sites as nodes of a SuperLink: requests are pushed, answers are looked for until the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import EngineError
from flatfed.engines.sites.transport import Answer, NoAnswer, Pulse
from flatfed.flower.inflation import bounded_arrays
from flatfed.flower.records import from_records, to_records

T = TypeVar("T")
POLL = 0.2
"""Seconds between two looks for answers."""
TRIES = 5
"""How often a call whose connection was cut is made."""
MOST_REASON = 300
"""Characters of what Flower says of a failure; flatfed's own advice stands at their end."""


class GridTransport:
    """Carries bytes to the nodes of a Flower run; an address is the number of a node."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def addresses(self) -> list[str]:
        """Return the nodes that are connected now."""
        return [str(node) for node in sorted(_reached(self._grid.get_node_ids))]

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        """Push the requests, and look for each answer until the time is over."""
        deadline = time.monotonic() + seconds
        waiting = self._push(requests, seconds)
        for address in requests.keys() - set(waiting.values()):
            yield address, NoAnswer("the SuperLink did not take the request")
        while waiting and time.monotonic() < deadline:
            for identity, address in list(waiting.items()):
                pulse()
                answer = self._pull(identity, limit)
                if answer is not None:
                    del waiting[identity]
                    yield address, answer
            if waiting:
                time.sleep(POLL)
        for address in waiting.values():
            yield address, NoAnswer(f"no reply within {seconds:g} s")

    def _push(self, requests: Mapping[str, bytes], seconds: float) -> dict[str, str]:
        """Push every request; return the addresses by the identity of their messages."""
        messages = [
            Message(to_records(data), dst_node_id=int(address), message_type="query", ttl=seconds)
            for address, data in requests.items()
        ]
        if not messages:
            return {}
        # A site that gets a request twice does the same work twice, to the same bits.
        identities = _reached(lambda: list(self._grid.push_messages(messages)))
        return {identity: address for identity, address in zip(identities, requests, strict=False) if identity}

    def _pull(self, identity: str, limit: int) -> Answer | None:
        """Return the answer to a message, where it has come."""
        try:
            # One at a time: what is wrong with one must not take others with it.
            messages = _reached(lambda: self._pulled(identity, limit))
        except EngineError:
            raise
        except Exception as error:  # whatever forged content brings about in Flower
            return NoAnswer(f"an answer that cannot be read: {escaped(str(error))[:MOST_REASON]}")
        return _content(messages[0]) if messages else None

    def _pulled(self, identity: str, limit: int) -> list[Message]:
        with bounded_arrays(limit):
            return list(self._grid.pull_messages([identity]))


def _reached(call: Callable[[], T]) -> T:
    """Call the SuperLink; one that is away, also after Flower's own tries, is an error that says what to do.

    Flower itself waits for a SuperLink that is away, but gives up where a connection is cut while TLS begins.
    """
    left = TRIES
    while True:
        left -= 1
        try:
            return call()
        except httpx.HTTPError as error:
            is_cut = isinstance(error, httpx.TransportError)
            if not is_cut or left == 0:
                raise EngineError(_why_not(error)) from error
            time.sleep(POLL)


def _why_not(error: httpx.HTTPError) -> str:
    """Return why the SuperLink does not do what it is asked for, and what to do."""
    if isinstance(error, httpx.HTTPStatusError) and error.response.is_client_error:
        status = error.response.status_code
        return f"the SuperLink refuses this run ({status}): it was stopped there; go on with resume=true"
    text = escaped(str(error))[:MOST_REASON]
    return f"the SuperLink cannot be reached ({text}); resume the run when it is back"


def _content(message: Any) -> Answer:
    if message.has_error():
        reason = message.error.reason or f"error {message.error.code}"
        return NoAnswer(f"the node failed: {escaped(str(reason))[:MOST_REASON]}")
    try:
        return from_records(message.content)
    except ValueError as error:
        return NoAnswer(str(error))
