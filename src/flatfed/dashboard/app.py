"""What the dashboard answers: its page and files, the stream of events, two runs side by side, and reports."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import FlatfedError
from flatfed.dashboard.differing import differing_settings
from flatfed.dashboard.events import Hub, stream, version_of
from flatfed.dashboard.tree import refuse_links_out
from flatfed.reports.page.page_files import plotly_script, report_policy, shared_file

MakeReport = Callable[[Path, Path], None]
"""Writes the report of a run, comparison or study into a file."""
SCRIPT, STYLE = "text/javascript", "text/css"
OWN_SCRIPTS = ("state.js", "list.js", "picked.js", "details.js", "studies.js", "dashboard.js")
OWN = {"dashboard.css": STYLE, **dict.fromkeys(OWN_SCRIPTS, SCRIPT)}
SHARED = {"look.css": STYLE, "parts.js": SCRIPT, "curves.js": SCRIPT}
"""What the report's page has too."""
PLOTLY = "plotly.js"
MOST_PICKED = 40
MOST_STREAMS = 64


class Dashboard:
    """The application's answers."""

    def __init__(self, hub: Hub, make_report: MakeReport) -> None:
        self._hub, self._make_report = hub, make_report
        self._reporting = asyncio.Semaphore(1)

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/", self.page),
            Route("/files/{name}", self.file),
            Route("/events", self.events),
            Route("/compare", self.compare),
            Route("/report", self.report),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _plain_error, Exception: _unforeseen})

    async def page(self, request: Request) -> Response:
        """Return the page."""
        return Response(_own("dashboard.html"), media_type="text/html")

    async def file(self, request: Request) -> Response:
        """Return one of the files that the page names; no other name leads anywhere."""
        name = request.path_params["name"]
        if name == PLOTLY:
            return Response(await asyncio.to_thread(plotly_script), media_type=SCRIPT)
        if name in OWN:
            return Response(_own(name), media_type=OWN[name])
        if name in SHARED:
            return Response(shared_file(name), media_type=SHARED[name])
        raise HTTPException(404, "there is no such file")

    async def events(self, request: Request) -> Response:
        """Return the stream of a page."""
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        if request.method == "HEAD":
            return Response(headers=headers)
        if self._hub.listeners >= MOST_STREAMS:
            raise HTTPException(503, "too many pages are open; close some")
        asked = request.query_params.get("runs", "").split(",")
        picked = [id for id in dict.fromkeys(asked) if id.isalnum()][:MOST_PICKED]
        known = request.headers.get("last-event-id") or request.query_params.get("since", "")
        since = version_of(known, self._hub.watch.boot)
        return StreamingResponse(stream(self._hub, picked, since), headers=headers)

    async def compare(self, request: Request) -> Response:
        """Return the settings in which two runs differ."""
        configs = [self._hub.watch.config_of(request.query_params.get(name, "")) for name in ("a", "b")]
        first, second = configs
        if first is None or second is None:
            raise HTTPException(404, "there is no such run, or it cannot be read")
        return JSONResponse(differing_settings(first, second))

    async def report(self, request: Request) -> Response:
        """Return the report of a run, comparison or study, made now."""
        path = self._hub.watch.path_of(request.query_params.get("of", ""))
        if path is None:
            raise HTTPException(404, "there is no such run, comparison or study; open the dashboard first")
        if request.method == "HEAD":
            return Response(media_type="text/html")
        async with self._reporting:  # one at a time: it takes a core
            try:
                text = await asyncio.to_thread(self._report_text, path)
            except (FlatfedError, OSError) as error:
                raise HTTPException(409, f"the report cannot be made: {escaped(str(error))}") from None
        return Response(text, media_type="text/html", headers={"content-security-policy": report_policy()})

    def _report_text(self, path: Path) -> bytes:
        refuse_links_out(path, self._hub.watch.root)
        with tempfile.TemporaryDirectory(prefix="flatfed-report-") as folder:
            file = Path(folder) / "report.html"
            self._make_report(path, file)
            return file.read_bytes()


def _own(name: str) -> bytes:
    return files("flatfed.dashboard").joinpath("files").joinpath(name).read_bytes()


def _plain_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(error.detail, error.status_code)


def _unforeseen(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"unexpected: {type(error).__name__}", 500)


def application(hub: Hub, make_report: MakeReport) -> Any:
    """Return the application that a server runs."""
    return Dashboard(hub, make_report).app()
