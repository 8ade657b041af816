"""Server-sent events: one stream for each open page, with what changed since the page last heard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from flatfed import __version__
from flatfed.dashboard.run_columns import Position
from flatfed.dashboard.watching import Watch
from flatfed.reports.page.page_files import look_of_pages

LOOK_SECONDS = 0.5
"""Between two looks while a page is open; with none there are none."""
QUIET_SECONDS = 10.0
"""After which a page that has nothing to hear gets an empty line: either side notices that the other is gone."""
RETRY_MILLISECONDS = 1000


class Hub:
    """Looks at the folder as long as somebody listens, and wakes those who do."""

    def __init__(self, watch: Watch, is_ending: Callable[[], bool] = lambda: False) -> None:
        self.watch = watch
        self.is_ending = is_ending
        self.listeners = 0
        self._looking: asyncio.Task[None] | None = None
        self._woken: set[asyncio.Event] = set()

    def join(self) -> asyncio.Event:
        """Begin to listen; the event is set after each look that found something."""
        event = asyncio.Event()
        self._woken.add(event)
        self.listeners += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Listen no more; the last one to leave ends the looking."""
        self._woken.discard(event)
        self.listeners -= 1
        if not self.listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        before = self.watch.version
        studies: asyncio.Task[None] | None = None
        while True:
            with suppress(OSError):  # a disk that is away for a moment
                await asyncio.to_thread(self.watch.look)
            if studies is None or studies.done():
                # Beside it: a study needs more than runs do, and the list must not wait for it.
                studies = asyncio.create_task(asyncio.to_thread(self.watch.look_at_studies))
            if self.watch.version != before or self.is_ending():
                before = self.watch.version
                for event in self._woken:
                    event.set()
            await asyncio.sleep(LOOK_SECONDS)


async def stream(hub: Hub, picked: Sequence[str], since: int) -> AsyncIterator[str]:
    """Yield the events of one page; `since` is the version that it knows."""
    watch = hub.watch
    event = hub.join()
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
        # Whoever comes first waits for the first look, so that the first list is complete.
        with suppress(OSError):
            await asyncio.to_thread(watch.look)
        yield message("hello", _hello(watch), watch.boot, since)
        positions: dict[str, Position | None] = dict.fromkeys(picked)
        while not hub.is_ending():
            event.clear()
            changes = watch.changes_since(since)
            for name, data in _messages(changes, is_first=since == 0):
                yield message(name, data, watch.boot, changes.version)
            since = changes.version
            for id in picked:
                positions[id], piece = await asyncio.to_thread(watch.columns, id, positions[id])
                if piece is not None:
                    yield message("rows", {"id": id, **piece}, watch.boot, since)
            if not await _woken(event):
                yield ":\n\n"
    finally:
        hub.leave(event)


async def _woken(event: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), QUIET_SECONDS)
        return True
    return False


def _hello(watch: Watch) -> dict[str, Any]:
    return {"folder": str(watch.root), "version": __version__, "boot": watch.boot, "look": look_of_pages()}


def _messages(changes: Any, is_first: bool) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    if is_first or changes.entries or changes.gone or changes.groups is not None:
        data = {"whole": is_first, "entries": changes.entries, "gone": changes.gone, "groups": changes.groups}
        found.append(("list", data))
    return found + [("study", study) for study in changes.studies]


def message(name: str, data: Any, boot: str, version: int) -> str:
    """Return an event; its id is what the browser sends when it comes back."""
    # JSON has no line breaks of its own, and numbers that it does not have are not sent.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\nid: {boot}-{version}\ndata: {text}\n\n"


def version_of(text: str, boot: str) -> int:
    """Return the version that a page knows, from what it says; of another start of the server, nothing is known."""
    of, _, version = text.partition("-")
    return int(version) if of == boot and version.isascii() and version.isdigit() and len(version) < 16 else 0
