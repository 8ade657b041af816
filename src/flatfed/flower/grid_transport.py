"""Sites as nodes of a SuperLink: requests are pushed, answers are looked for until the time is over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import EngineError
from flatfed.engines.sites.transport import Answer, NoAnswer, Pulse
from flatfed.flower.inflation import bounded_arrays
from flatfed.flower.records import from_records, to_records

POLL = 0.2
"""Seconds between two looks for answers."""


class GridTransport:
    """Carries bytes to the nodes of a Flower run; an address is the number of a node."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def addresses(self) -> list[str]:
        """Return the nodes that are connected now."""
        with _reached():
            return [str(node) for node in sorted(self._grid.get_node_ids())]

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
        with _reached():
            identities = list(self._grid.push_messages(messages))
        return {identity: address for identity, address in zip(identities, requests, strict=False) if identity}

    def _pull(self, identity: str, limit: int) -> Answer | None:
        """Return the answer to a message, where it has come."""
        try:
            # One at a time: what is wrong with one must not take others with it.
            with _reached(), bounded_arrays(limit):
                messages = list(self._grid.pull_messages([identity]))
        except EngineError:
            raise
        except Exception as error:  # whatever forged content brings about in Flower
            return NoAnswer(f"an answer that cannot be read: {escaped(str(error))[:300]}")
        return _content(messages[0]) if messages else None


@contextmanager
def _reached() -> Iterator[None]:
    """Let a SuperLink that is away, also after Flower's own tries, be an error that says what to do."""
    try:
        yield
    except httpx.HTTPError as error:
        text = escaped(str(error))[:300]
        if isinstance(error, httpx.HTTPStatusError) and error.response.is_client_error:
            status = error.response.status_code
            raise EngineError(
                f"the SuperLink refuses this run ({status}): it was stopped there; go on with resume=true"
            ) from error
        raise EngineError(f"the SuperLink cannot be reached ({text}); resume the run when it is back") from error


def _content(message: Any) -> Answer:
    if message.has_error():
        reason = message.error.reason or f"error {message.error.code}"
        return NoAnswer(f"the node failed: {escaped(str(reason))[:120]}")
    try:
        return from_records(message.content)
    except ValueError as error:
        return NoAnswer(str(error))
