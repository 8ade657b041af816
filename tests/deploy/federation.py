"""A real federation for tests, on the loopback interface: every program is started by the script that was generated.

    from deploy.federation import Federation, missing_programs

    pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=...)

    with Federation.made(tmp_path / "fed", sites=("a", "b", "c")) as federation:   # flatfed deploy init, on free ports
        federation.start_server()                # SuperLink, SuperExec and proxy; each is waited for, with a bound
        federation.register()                    # the sites' public keys, by register.sh
        for site in federation.sites:
            federation.start_node(site)          # by sites/NAME/supernode.sh
        federation.wait_online(3)
        federation.start(federation.site("a") / "site.sh")            # any further program, such as a site process
        run = federation.run(federation.folder / "app", "rounds=2")   # flwr run; returns the run's id
        assert federation.wait_finished(run) == "finished:completed"
    # leaving ends every process that was started here, and what they have started, by their ids

Each program writes to `logs/NAME.log` in the folder. No wait is without a bound, and it ends early, with the log, where
the program has ended. `Program.wait_ended()` waits for an end that is expected. Flower's programs are looked for beside
the Python of the tests and then on PATH; they import flatfed from the same places as the tests do.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from flatfed.deploy.deployment import Deployment
from flatfed.deploy.initialise import initialise
from ports import free_ports

T = TypeVar("T")
TESTS = Path(__file__).parents[1]
PROGRAMS = (
    "flower-superlink",
    "flower-superexec",
    "flower-supernode",
    "flwr",
    "flwr-clientapp",
    "flwr-serverapp",
    "nginx",
)
LONG = 600.0
"""The bound of a wait, in seconds: far more than anything takes on a busy machine."""

GRACE = 5.0
"""Seconds that programs have to end by themselves before they are killed."""


def search_path() -> str:
    """Return where programs are looked for."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])


def missing_programs() -> list[str]:
    """Return the programs that a federation needs and this machine does not have."""
    return [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]


def environment() -> dict[str, str]:
    """Return the variables of the programs."""
    own = {
        "PATH": search_path(),
        "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]),
        "OMP_NUM_THREADS": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
        "NO_COLOR": "1",
    }
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return kept | own


def until(find: Callable[[], T], what: str, seconds: float = LONG, pause: float = 0.2) -> T:
    """Return what `find` finds as soon as it is true; TimeoutError after the bound."""
    end = time.monotonic() + seconds
    while not (found := find()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} seconds for {what}")
        time.sleep(pause)
    return found


@dataclass
class Program:
    """A process that was started here, the leader of a group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    may_end: bool = False
    """Whether a test has ended it, or waits for its end."""

    @property
    def text(self) -> str:
        """What it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self.process.poll()

    def check_running(self) -> None:
        """Fail with its log where it has ended and should not have."""
        if self.code is not None and not self.may_end:
            raise AssertionError(f"{self.name} ended with {self.code}:\n{self.text}")

    def wait_ended(self, seconds: float = LONG) -> int:
        """Return its exit code once it has ended."""
        self.may_end = True
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End it at once, as a power cut would; what it has started goes on, as it would."""
        self.may_end = True
        self.process.kill()
        self.process.wait(LONG)

    def end(self) -> None:
        """Ask it to end, and wait until it has; what it has started goes on."""
        self.process.terminate()
        self.wait_ended()

    def stop(self) -> None:
        """Ask it to end; it and all that it has started is gone when this returns."""
        stop_all([self])


def stop_all(programs: list[Program]) -> None:
    """Ask programs to end, all at once; they and all that they have started are gone when this returns."""
    for program in programs:
        program.may_end = True
    families = [descendants(program.process.pid) for program in programs]
    for program in programs:
        program.process.terminate()
    end = time.monotonic() + GRACE
    for program in programs:
        try:
            program.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            families.append(descendants(program.process.pid))
            program.process.kill()
            program.process.wait(LONG)
    for pid in set().union(*families):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> set[int]:
    """Return the processes that a process has started, and those that they have."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    family = {pid}
    while children := {child for child, parent in parents.items() if parent in family} - family:
        family |= children
    return family - {pid}


@dataclass
class Federation:
    """A deployment whose programs are started and stopped by a test."""

    folder: Path
    deployment: Deployment
    programs: list[Program] = field(default_factory=list)
    node_ports: dict[str, int] = field(default_factory=dict)
    _control: Any = None

    @classmethod
    def made(
        cls, folder: Path, sites: tuple[str, ...] = ("a", "b", "c"), hosts: tuple[str, ...] = ("127.0.0.1",)
    ) -> Self:
        """Make a deployment in a new folder, on free ports."""
        port, inner, *node_ports = free_ports(2 + len(sites))
        deployment = Deployment(sites, hosts, port, inner)
        initialise(folder, deployment)
        (folder / "logs").mkdir()
        return cls(folder, deployment, node_ports=dict(zip(sites, node_ports, strict=True)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites."""
        return self.deployment.sites

    @property
    def server(self) -> Path:
        """The server's folder."""
        return self.folder / "server"

    def site(self, name: str) -> Path:
        """Return a site's folder."""
        return self.folder / "sites" / name

    # Programs

    def start(self, script: Path, *arguments: str, name: str = "", **variables: str) -> Program:
        """Start a script in the background; options come after those in it, variables beside those of all programs."""
        name = name or f"{script.parent.name}-{script.stem}"
        logs = self.folder / "logs"
        log = logs / f"{name}-{len(list(logs.iterdir()))}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["/bin/sh", str(script), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment() | variables,
                process_group=0,
            )
        program = Program(name, process, log)
        self.programs.append(program)
        return program

    def start_server(self) -> None:
        """Start SuperLink, SuperExec and proxy, and wait until both doors answer."""
        self.start_superlink()
        self.start(self.server / "superexec.sh")
        self.start_proxy()

    def start_superlink(self) -> Program:
        """Start the SuperLink and wait until it answers."""
        self._close_control()  # it was that of an earlier one
        program = self.start(self.server / "superlink.sh")
        self.wait_answering(program, self.deployment.inner_port)
        return program

    def start_proxy(self) -> Program:
        """Start nginx and wait until it answers."""
        program = self.start(self.server / "proxy.sh")
        self.wait_answering(program, self.deployment.port)
        return program

    def start_node(self, site: str, *arguments: str, script: Path | None = None, **variables: str) -> Program:
        """Start the SuperNode of a site; later options win, so `--superlink HOST:PORT` leads it elsewhere."""
        port = {"FLATFED_NODE_PORT": str(self.node_ports[site])}
        return self.start(script or self.site(site) / "supernode.sh", *arguments, **port | variables)

    def stop(self) -> None:
        """End everything that was started."""
        self._close_control()
        stop_all(self.programs)
        self.programs.clear()

    # Waiting

    def wait_answering(self, program: Program, port: int, seconds: float = LONG) -> None:
        """Wait until a program answers HTTPS on a port."""

        def answers() -> bool:
            program.check_running()
            with contextlib.suppress(OSError):
                return ask(port, "/health", self.server / "ca.crt")[0] > 0
            return False

        until(answers, f"{program.name} on port {port}", seconds)

    def wait_online(self, number: int, seconds: float = LONG) -> list[int]:
        """Wait until this many nodes are online; return their ids."""

        def enough() -> list[int]:
            for program in self.programs:
                program.check_running()
            online = [node for node, status in self.nodes().items() if status == "online"]
            return online if len(online) >= number else []

        return until(enough, f"{number} nodes online", seconds, pause=0.5)

    def wait_finished(self, run: int, seconds: float = LONG) -> str:
        """Wait for the end of a run; return its status, such as `finished:completed` or `finished:failed`."""

        def finished() -> str:
            status = self.status_of(run)
            return status if status.startswith("finished") else ""

        # Seldom: each look is work for the SuperLink, which has other work.
        return until(finished, f"the end of run {run}", seconds, pause=1.0)

    # The Control API, through the SuperLink's own port

    def flwr(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Flower's command line by `flwr.sh`, in the server's folder."""
        return self.call(self.server / "flwr.sh", *arguments, check=check)

    def call(self, script: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a script to its end; fail with what it wrote where `check` and its code is not 0."""
        command = ["/bin/sh", str(script), *arguments]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=LONG,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    def register(self, *sites: str) -> None:
        """Register the public keys of sites, by default of all."""
        self.call(self.server / "register.sh", *sites)

    def run(self, app: Path, config: str = "") -> int:
        """Start a run of an app with settings such as "rounds=3 method='feddyn'"; return its id."""
        options = ["-c", config] if config else []
        answer = last_json(self.flwr("run", str(app), "flatfed", "--format", "json", *options).stdout)
        return int(answer["run-id"])

    def nodes(self) -> dict[int, str]:
        """Return the registered nodes and whether each is registered, online, offline or unregistered."""
        from flwr.proto.control_pb2 import ListNodesRequest

        nodes = self.control().ListNodes(ListNodesRequest()).nodes_info
        return {node.node_id: node.status for node in nodes}

    def status_of(self, run: int) -> str:
        """Return the status of a run: pending, starting, running, or `finished:` with how."""
        from flwr.proto.control_pb2 import ListRunsRequest

        status = self.control().ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
        return f"{status.status}:{status.sub_status}" if status.sub_status else str(status.status)

    def control(self) -> Any:
        """Return a client of the Control API at the SuperLink's own port; it is opened once."""
        if self._control is None:
            self._control = self._new_control()
        return self._control

    def _close_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def _new_control(self) -> Any:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        roots = (self.server / "ca.crt").read_bytes()
        version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
        return ControlHttpClient.from_server_address(self.deployment.inner_address, False, roots, [version])


def ask(
    port: int, path: str, authority: Path, method: str = "GET", body: bytes = b"", raw: bytes = b""
) -> tuple[int, bytes]:
    """Ask for a path on a port of 127.0.0.1 over TLS, exactly as written; return the status and the whole answer."""
    context = ssl.create_default_context(cafile=str(authority))
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n".encode()
    )
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(raw or head + b"\r\n" + body)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    answer = b"".join(pieces)
    if not answer:
        return 0, answer
    return int(answer.split(b" ", 2)[1]), answer


def last_json(text: str) -> Any:
    """Return the JSON document at the end of what a command printed."""
    return json.loads(text[text.index("{") :])
