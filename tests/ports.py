"""Ports that a test may name before anybody listens there."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

PORTS = itertools.count(10_000 + os.getpid() * 97 % 20_000)
"""Ports to try: below those that the system gives to connections, apart from those of other processes of the tests."""


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback interface that nobody uses, never one twice."""
    ports: list[int] = []
    while len(ports) < number:
        with socket.socket() as probe, contextlib.suppress(OSError):
            candidate = next(PORTS)
            probe.bind(("127.0.0.1", candidate))
            ports.append(candidate)
    return ports
