"""The server as a site sees it: does it answer, with the right certificate and time, and only what sites need?"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path

from flatfed.deploy.doctor.diagnosis import Diagnosis, fault, warning, well

PATIENCE = 3.0
"""Seconds for the server to answer."""

AHEAD, BEHIND, NOTICED = 5.0, 300.0, 2.0
"""Flower refuses a site whose clock is further ahead or behind than this; a smaller difference is worth a word."""

CONTROL_PATH = "/v1/control/list-nodes"
NOT_FOUND = 404


def check_connection(address: str, authority: Path, expected: bool) -> Iterator[Diagnosis]:
    """Look at the server from here; where it is `expected` to run, silence is a fault."""
    host, port = split_address(address)
    problem = _unreachable(host, port)
    if problem:
        yield _silent(address, problem, expected)
        return
    yield well("port", f"{address} answers")
    try:
        answer = _ask(host, port, authority)
    except ssl.SSLError as error:
        yield fault("TLS", _reason(error), "compare ca.crt, the host name and the dates with the server's certificate")
    except (OSError, HTTPException, ValueError) as error:
        yield fault("TLS", f"no answer over TLS: {error or type(error).__name__}", "start the server's proxy.sh")
    else:
        yield well("TLS", "the server's certificate is accepted")
        yield _check_control(answer)
        yield check_clock(answer.getheader("Date"), time.time())


def check_clock(date: str | None, now: float) -> Diagnosis:
    """Compare this machine's time with the server's, as its answer gives it in whole seconds."""
    try:
        there = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return warning("clock", "the server does not tell its time", "compare the clocks by hand")
    ahead = now - there
    limits = f"allowed: {AHEAD:g} ahead, {BEHIND:g} behind"
    if ahead > AHEAD + 1:
        return fault("clock", f"{ahead:.0f} seconds ahead of the server's ({limits})", "set the clocks by NTP")
    if ahead < -BEHIND:
        return fault("clock", f"{-ahead:.0f} seconds behind the server's ({limits})", "set the clocks by NTP")
    if abs(ahead) > NOTICED:
        return warning("clock", f"{abs(ahead):.0f} seconds from the server's ({limits})", "set the clocks by NTP")
    return well("clock", f"within {NOTICED:g} seconds of the server's")


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 address stands in brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _silent(address: str, problem: str, expected: bool) -> Diagnosis:
    text = f"{address} does not answer within {PATIENCE:g} seconds: {problem}"
    if expected:
        return fault("port", text, "start the server, and let this machine reach it")
    return warning("port", text, "start the server's superlink.sh, superexec.sh and proxy.sh")


def _unreachable(host: str, port: int) -> str:
    """Return why a port cannot be opened; empty where it can."""
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _ask(host: str, port: int, authority: Path) -> HTTPResponse:
    """Ask the sites' port for what sites must not get."""
    context = ssl.create_default_context(cafile=str(authority))
    connection = HTTPSConnection(host, port, timeout=PATIENCE, context=context)
    with contextlib.closing(connection):
        connection.request("POST", CONTROL_PATH)
        return connection.getresponse()


def _check_control(answer: HTTPResponse) -> Diagnosis:
    if answer.status != NOT_FOUND:
        return fault(
            "Control API",
            f"the sites' port passes it on (status {answer.status}): whoever reaches it can run code",
            "let only proxy/nginx.conf answer there, and the SuperLink on 127.0.0.1",
        )
    return well("Control API", "closed to the sites")


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is refused: {error.verify_message}"
    return f"the server does not speak TLS as expected: {error.reason or error}"
