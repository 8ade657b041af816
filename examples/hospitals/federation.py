"""Three hospitals train one model together, on this machine: the tutorial of docs/federation.md as one program.

    python federation.py [FOLDER] [METHOD]

It makes the data and the kits, starts every part by its own script, trains ten rounds, shows the table, and ends all
that it started. Whatever happens, nothing is left running. Each command is printed as a person would type it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SITES = ("hospital-a", "hospital-b", "hospital-c")
SITE = """\
site: {site}
data: table
data_options: {{path: {site}.csv, scaling: scaling.csv, label: risk, class_names: "low,medium,high"}}
folder: state
socket: state/site.sock
limits:
  min_examples: 50
"""
BOUND = 300.0
"""Seconds that anything may take to get ready."""


def main(folder: Path, method: str) -> int:
    """Run the tutorial in a new folder; return the exit code."""
    if shutil.which("nginx", path=f"{environment()['PATH']}:/usr/sbin:/sbin") is None:
        print("this needs nginx, the sites' door: `make proxy` gets it, or apt-get install nginx")
        return 2
    federation = folder / "federation"
    port = free_port()
    call("python", str(HERE / "make_data.py"), str(folder / "data"))
    call("flatfed", "deploy", "init", str(federation), "--sites", ",".join(SITES), "--port", str(port))
    for site in SITES:
        kit = federation / "sites" / site
        for table in (f"{site}.csv", "scaling.csv"):
            shutil.copy(folder / "data" / table, kit)
        (kit / "site.yaml").write_text(SITE.format(site=site))
        call("flatfed", "site", "check", "--config", str(kit / "site.yaml"))
    parts = Parts(folder / "logs")
    try:
        return train(federation, port, method, parts)
    finally:
        parts.stop()


def train(federation: Path, port: int, method: str, parts: Parts) -> int:
    """Start every part, make a run and show it."""
    server = federation / "server"
    parts.start(server / "superlink.sh")
    until(lambda: answers(port + 1), "the SuperLink", parts)
    parts.start(server / "superexec.sh")
    parts.start(server / "proxy.sh")
    until(lambda: answers(port), "the proxy", parts)
    call("sh", str(server / "register.sh"))
    for number, site in enumerate(SITES):
        kit = federation / "sites" / site
        parts.start(kit / "site.sh")
        parts.start(kit / "supernode.sh", FLATFED_NODE_PORT=str(free_port(10 + number)))
    for site in SITES:
        path = federation / "sites" / site / "state" / "site.sock"
        until(path.is_socket, f"the site {site}", parts)
    settings = f"method='{method}' rounds=10 lr=0.05 batch_size=16 local_epochs=2 evaluate_every=2"
    call("sh", str(server / "flwr.sh"), "run", "../app", "flatfed", "--stream", "-c", settings)
    call("flatfed", "show", str(server / "runs" / "federation"))
    for site in SITES:
        models = federation / "sites" / site / "state" / "models"
        print(f"{site} has the final model: {', '.join(path.name for path in models.glob('*')) or 'no'}")
    return 0


def call(*command: str) -> None:
    """Run a command and show it; one that fails ends the program."""
    print(f"\n$ {' '.join(command)}", flush=True)
    program = sys.executable if command[0] == "python" else command[0]
    code = subprocess.run([program, *command[1:]], check=False, env=environment()).returncode
    if code:
        raise SystemExit(f"{command[0]} ended with {code}")


def environment(**more: str) -> dict[str, str]:
    """Return the variables of all programs: those installed beside this Python come first."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **more}


class Parts:
    """The programs of the federation that run in the background."""

    def __init__(self, logs: Path) -> None:
        self._logs, self._running = logs, list[tuple[str, subprocess.Popen[bytes]]]()
        logs.mkdir(parents=True)

    def start(self, script: Path, **variables: str) -> None:
        """Start a script in a group of its own, so that what it starts can be ended with it."""
        name = f"{script.parent.name}-{script.stem}"
        print(f"\n$ sh {script} &", flush=True)
        with (self._logs / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                ["sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(**variables),
                process_group=0,
            )
        self._running.append((name, process))

    def check(self) -> None:
        """Fail where a part has ended by itself."""
        for name, process in self._running:
            if process.poll() is not None:
                raise SystemExit(f"{name} ended; see {self._logs / f'{name}.log'}")

    def stop(self) -> None:
        """End every part, and what it has started."""
        for _, process in reversed(self._running):
            signal_group(process, signal.SIGTERM)
        for _, process in self._running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                signal_group(process, signal.SIGKILL)
        for _, process in self._running:
            signal_group(process, signal.SIGKILL)


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and all that it has started."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:  # all have ended
        return


def until(ready: Callable[[], bool], what: str, parts: Parts) -> None:
    """Wait until something is ready, for a bounded time."""
    end = time.monotonic() + BOUND
    while not ready():
        parts.check()
        if time.monotonic() > end:
            raise SystemExit(f"{what} is not ready after {BOUND:g} seconds")
        time.sleep(0.2)


def answers(port: int) -> bool:
    """Say whether somebody listens at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port(step: int = 0) -> int:
    """Return a port of this machine that is free, and the one after it too."""
    first = 20_000 + os.getpid() * 7 % 10_000 + step * 16
    for port in range(first, first + 1000):
        if not answers(port) and not answers(port + 1):
            return port
    raise SystemExit("no free port was found")


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("hospitals")
    if place.exists():
        raise SystemExit(f"{place} is there already; remove it, or name another folder")
    sys.exit(main(place.absolute(), sys.argv[2] if len(sys.argv) > 2 else "scaffold"))
