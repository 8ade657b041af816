"""The connection to a Ray cluster: joined, looked at, left."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.machine import usable_cores

LOCAL, AUTO = "local", "auto"
CONNECT_SECONDS = 5.0
LOOPBACK = "127.0.0.1"
START_ATTEMPTS = 3
"""Ray gives up on a start after 30 s, which a machine that is busy may need."""


class Cluster:
    """A Ray cluster for as long as an engine runs; one that was joined before by this process stays joined."""

    def __init__(self, address: str, cpus: float = 0.0) -> None:
        # Ray would report to its makers that it is used.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # The way of coming versions; without it Ray prints a warning about this choice.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        self._ray: Any = ray
        self.address = address
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            self._join(cpus)

    def _join(self, cpus: float) -> None:
        refuse_silent(self.address)
        attempts = START_ATTEMPTS if self.address == LOCAL else 1
        for attempt in range(1, attempts + 1):
            try:
                self._init(cpus)
                return
            except Exception as error:  # of many kinds: no answer, a wrong token, another version of Ray or Python
                if attempt == attempts:
                    raise ConfigError(self._why_not(error), parameter="address") from error

    def _init(self, cpus: float) -> None:
        """Start Ray, or join it."""
        options: dict[str, Any] = {"address": self.address, "log_to_driver": False, "logging_level": logging.ERROR}
        with contextlib.ExitStack() as stack:
            stack.enter_context(_no_signals_changed())
            stack.enter_context(_untidiness_unsaid())
            if self.address == LOCAL:
                stack.enter_context(_loopback_alone())
                options |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
                # Ray would let everything else on the machine go before its workers.
                options["_system_config"] = {"worker_niceness": 0}
                # More workers than cores only take turns, as processes do.
                options["num_cpus"] = max(usable_cores(), math.ceil(cpus))
            self._ray.init(**options)

    def _why_not(self, error: Exception) -> str:
        """Return why the cluster cannot be joined, and what to do."""
        if self.address == AUTO and isinstance(error, ConnectionError):
            return (
                "this machine belongs to no Ray cluster that runs; start one with `ray start --head`, or give the "
                f"HOST:PORT of a head node for {PARAMETER}"
            )
        reason = str(error).strip().split("\n")[0].rstrip(".")
        if self.address == LOCAL:
            return (
                f"Ray could not be started on this machine: {reason:.120}; is there enough memory and disk for it? "
                "Worker processes need less: leave the engine out"
            )
        return (
            f"{PARAMETER}: no Ray cluster could be joined at {self.address}: {reason:.120}; are the versions of Ray "
            "and Python the same there, and is the token right?"
        )

    def leave(self) -> None:
        """Leave the cluster; one that was started for this engine ends."""
        if self._is_ours and self._ray.is_initialized():
            with _untidiness_unsaid():
                self._ray.shutdown()

    def room_for(self, resources: Mapping[str, float]) -> int:
        """Return how many actors with these resources the nodes that are alive could hold, all together."""
        needed = {name: amount for name, amount in resources.items() if amount > 0}
        if not needed:
            return 1
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        # Node by node: half a worker here and half there is none.
        return sum(min(math.floor(node.get(name, 0) / amount) for name, amount in needed.items()) for node in nodes)

    def is_alive(self, node: str) -> bool:
        """Say whether a node is part of the cluster."""
        return any(entry["NodeID"] == node and entry["Alive"] for entry in self._ray.nodes())

    @property
    def nodes(self) -> int:
        """How many nodes are alive."""
        return sum(bool(node["Alive"]) for node in self._ray.nodes())


def refuse_silent(address: str) -> None:
    """Refuse an address at which nobody answers: Ray itself would try for a minute."""
    host, sign, port = address.rpartition(":")
    if not sign or "/" in address or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"{PARAMETER}: nobody answers at {address} ({error}); is `ray start --head` running there?",
            parameter="address",
        ) from None


@contextlib.contextmanager
def _untidiness_unsaid() -> Iterator[None]:
    """Be silent about files and processes of Ray's own that it leaves to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@contextlib.contextmanager
def _loopback_alone() -> Iterator[None]:
    """Let a Ray that is started now listen on the loopback alone: a cluster for one run has no other guests.

    On Linux Ray puts the machine's address in the place of the loopback's, and listens on all of them without asking
    for a password. It does not where it is given that there are no clusters, as on macOS.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def _no_signals_changed() -> Iterator[None]:
    """Keep this process's handlers of signals: Ray puts its own in their place, which would end a run unsaved."""
    import signal

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                with contextlib.suppress(ValueError):  # not in the main thread: then nothing was changed
                    signal.signal(number, handler)
