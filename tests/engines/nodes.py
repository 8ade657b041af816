"""A real Ray cluster of several nodes on this machine, in a network of its own, with a token."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engines.bench import eventually

HERE = Path(__file__).parent
PORT = 6379
ADDRESS = f"127.0.0.1:{PORT}"
PYTHON = sys.executable
RAY = str(Path(sys.executable).with_name("ray"))
FLATFED = (PYTHON, "-c", "from flatfed.cli.main import main; main()")


class Network:
    """A network with a loopback and nothing else, for as long as it is open."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            [PYTHON, str(HERE / "own_network.py"), "new", "/bin/cat"], stdin=subprocess.PIPE
        )
        here = Path("/proc/self/ns/net").stat().st_ino
        eventually(lambda: self._is_made(here), "a network of its own")

    def _is_made(self, here: int) -> bool:
        assert self._holder.poll() is None, "the network could not be made"
        pid = self._holder.pid
        is_another = Path(f"/proc/{pid}/ns/net").stat().st_ino != here
        return is_another and b"own_network" not in Path(f"/proc/{pid}/cmdline").read_bytes()

    def start(self, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command in it."""
        place = [PYTHON, str(HERE / "own_network.py"), str(self._holder.pid)]
        return subprocess.Popen([*place, *command], start_new_session=True, **options)

    def close(self) -> None:
        """End it."""
        self._holder.kill()
        self._holder.communicate()


def alone(*command: str) -> tuple[str, ...]:
    """Return a command that sees no process but its own, in a network without anybody."""
    return PYTHON, str(HERE / "own_network.py"), "alone", *command


def can_have_networks() -> bool:
    """Say whether this process may make networks, and rooms without other processes."""
    return subprocess.run(alone("/bin/true"), capture_output=True).returncode == 0


class Nodes:
    """The nodes of a cluster: a head, and others that come and go."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        # Short: the paths of Ray's sockets begin with it.
        self._temporary = Path(tempfile.mkdtemp(prefix="ff-ray-", dir="/tmp"))
        token = directory / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
        paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        unset = ("RAY_ADDRESS", "RAY_AUTH_TOKEN")
        plain = {name: value for name, value in os.environ.items() if name not in unset}
        self.environment = plain | own | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        self._running: list[subprocess.Popen[bytes]] = []
        self.others: list[subprocess.Popen[bytes]] = []
        self.head = self._start(
            "--head", f"--port={PORT}", f"--temp-dir={self._temporary}", "--include-dashboard=false"
        )
        eventually(self._answers, "an answer of the head node")

    def join(self) -> subprocess.Popen[bytes]:
        """Let another node join, with room for one worker, as the head has."""
        node = self._start(f"--address={ADDRESS}")
        self.others.append(node)
        return node

    def second(self) -> subprocess.Popen[bytes]:
        """Return the one node besides the head; it joins now where there is none."""
        assert len(self.others) <= 1
        return self.others[0] if self.others else self.join()

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = (RAY, "start", "--block", "--node-ip-address=127.0.0.1", "--num-cpus=1", *options)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        node = self.network.start(*command, env=self.environment, **quiet)
        self._running.append(node)
        return node

    def _answers(self) -> bool:
        code = f"import socket; socket.create_connection(('127.0.0.1', {PORT})).close()"
        return self.network.start(PYTHON, "-c", code, stderr=subprocess.DEVNULL).wait() == 0

    def driver(self, *command: str, **changes: str) -> subprocess.Popen[bytes]:
        """Start a program that uses the cluster."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return self.network.start(*command, env=self.environment | changes, **options)

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """Kill a node as a power cut would: its raylet and all that it has started."""
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()
        self._running.remove(node)
        self.others.remove(node)

    def close(self) -> None:
        """End all nodes."""
        for node in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()
        shutil.rmtree(self._temporary, ignore_errors=True)


def text_of(driver: subprocess.Popen[bytes]) -> str:
    """Wait for a program and return what it has said."""
    assert driver.stdout is not None
    text = driver.stdout.read().decode()
    driver.wait()
    return text


@contextlib.contextmanager
def ended(driver: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a program, however a test ends."""
    try:
        yield driver
    finally:
        driver.kill()
        driver.wait()
        assert driver.stdout is not None
        driver.stdout.close()
