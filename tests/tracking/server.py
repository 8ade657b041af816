"""A real MLflow server as a process, on a free port of this machine, with SQLite; it can be stopped and come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from engines.bench import eventually
from nursery import environment
from ports import free_ports


class MLflowServer:
    """One server, at one address, with one database."""

    def __init__(self, folder: Path) -> None:
        self.folder, (self.port,) = folder, free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/mlflow.db"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", self.store, "--artifacts-destination", str(self.folder / "artifacts")]
        log = (self.folder / "log.txt").open("ab")
        # Without the processes for jobs, which no test needs: they take most of the time to start.
        off = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        variables = environment() | off
        self._process = subprocess.Popen(
            [*command, "--workers", "1"], cwd=self.folder, env=variables, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        eventually(self._answers, "the MLflow server answers")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=60) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """Kill it, with the processes that it has started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
