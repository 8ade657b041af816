"""A tracker that fails: the run ends with the same bits, one warning, and `flatfed track` sends what is missing."""

from __future__ import annotations

import json
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import flatfed
from engines.bench import eventually
from nursery import environment
from reports.disk import write_run
from runs.bench import ROUNDS, digest, in_new_process, small_run
from runs.test_full_disk import can_mount
from tracking.readers import from_mlflow
from tracking.server import MLflowServer
from tracking.stubborn import Lines
from tracking.table import remote_of, steps


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return digest(small_run(None))


def calls(folder: Path) -> list[list[Any]]:
    return [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]


def sent_steps(folder: Path) -> list[int]:
    return [step for call, value in calls(folder) if call == "points" for step in value]


def tracked(
    path: Path, tracker: ff.Tracker, on_round: Callable[[dict[str, Any]], None] = lambda row: None
) -> tuple[dict[str, Any], list[str]]:
    """Train, and return the bits and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = small_run(path, track=tracker, on_round=on_round)
    return digest(run), [str(warning.message) for warning in caught]


def test_one_that_fails_all_along_costs_a_warning_and_is_completed_afterwards(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    path, there = tmp_path / "run", tmp_path / "there"
    there.mkdir()
    (there / "broken").touch()
    bits, said = tracked(path, Lines(str(there)))
    assert bits == expected
    failure, how = said
    assert "secret" not in failure
    assert "lines takes nothing (ConnectionError: https://***@host does not answer); the run goes on" in failure
    assert f"send the rest with: flatfed track {path} --to 'lines(folder={there})'" in how
    (there / "broken").unlink()
    outcome = flatfed("track", path, "--to", f"lines(folder={there})", "--no-model")
    assert outcome.code == 0, outcome.err
    assert sent_steps(there) == list(range(1, ROUNDS + 1))
    assert calls(there)[-2:] == [["file", "model.safetensors"], ["end", "finished"]]
    assert flatfed("track", path).code == 0
    assert sent_steps(there) == list(range(1, ROUNDS + 1)), "nothing is sent twice"


def test_one_that_fails_for_a_while_gets_all_of_it(tmp_path: Path, expected: dict[str, Any]) -> None:
    path, there = tmp_path / "run", tmp_path / "there"
    there.mkdir()

    def break_and_mend(row: dict[str, Any]) -> None:
        if row["round"] == 0:
            eventually(lambda: (there / "lines.jsonl").exists() and sent_steps(there), "the first round is sent")
            (there / "broken").touch()
        if row["round"] == 3:
            (there / "broken").unlink()

    bits, said = tracked(path, Lines(str(there)), break_and_mend)
    assert bits == expected
    assert len(said) <= 1
    assert sent_steps(there) == list(range(1, ROUNDS + 1))
    assert calls(there)[-1] == ["end", "finished"]


def test_one_that_hangs_is_ended_after_its_patience(tmp_path: Path, expected: dict[str, Any]) -> None:
    path = tmp_path / "run"
    bits, said = tracked(path, Lines(str(tmp_path), hangs=True, patience=0.5))
    assert bits == expected
    assert len(said) == 1
    assert "0 rounds are at lines" in said[0]
    (tmp_path / "there").mkdir()
    outcome = flatfed("track", path, "--to", f"lines(folder={tmp_path / 'there'})")
    assert outcome.code == 0, outcome.err
    assert sent_steps(tmp_path / "there") == list(range(1, ROUNDS + 1))


def test_warnings_as_errors_do_not_stop_the_run(tmp_path: Path, expected: dict[str, Any]) -> None:
    (tmp_path / "broken").touch()
    assert digest(small_run(tmp_path / "run", track=Lines(str(tmp_path)))) == expected


def test_a_server_that_accepts_and_is_silent(
    tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        bits, said = tracked(tmp_path / "run", ff.MLflow(uri=uri, patience=300))
    assert bits == expected
    assert len(said) == 2
    assert f"flatfed track {tmp_path / 'run'} --to 'mlflow(uri={uri})'" in said[1]


REFUSED = """
import sys
from pathlib import Path
import flatfed as ff
from flatfed.tracking.subject import TrackedRun
subject = TrackedRun(Path(sys.argv[2]), "refused", {"../no/name": 1})
try:
    ff.MLflow(uri=sys.argv[1], experiment="refused").begin(subject, None)
except Exception as error:
    print(type(error).__name__)
"""


def test_a_run_whose_parameters_are_refused_does_not_stay_as_one_that_runs(
    server: MLflowServer, tmp_path: Path
) -> None:
    write_run(tmp_path / "run")
    outcome = in_new_process("-c", REFUSED, server.uri, str(tmp_path / "run"))
    assert "Exception" in outcome.stdout, outcome.stderr
    with closing(sqlite3.connect(server.folder / "mlflow.db")) as store:
        found = store.execute("select lifecycle_stage from runs where name = 'refused'").fetchall()
    assert found == [("deleted",)]


def test_a_server_that_is_killed_and_comes_back(
    tmp_path: Path, expected: dict[str, Any], server: MLflowServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, uri = tmp_path / "run", server.uri
    record = path / "tracking" / "mlflow" / "sent.json"

    def kill(row: dict[str, Any]) -> None:
        if row["round"] == 1:
            eventually(lambda: record.is_file() and json.loads(record.read_text())["rounds"] >= 1, "a row is sent")
            server.stop()

    bits, said = tracked(path, ff.MLflow(uri=uri, patience=300), kill)
    assert bits == expected
    assert len(said) == 2
    server.start()
    outcome = flatfed("track", path)  # where it was sent before
    assert outcome.code == 0, outcome.err
    found = from_mlflow(server.store, remote_of(path, "mlflow"))
    assert (steps(found), found.status) == (list(range(1, ROUNDS + 1)), "finished")
    monkeypatch.chdir(tmp_path)  # there the store without a server has its artifacts
    again = flatfed("track", path, "--to", f"mlflow(uri={server.store},experiment=direct)")
    assert again.code == 0, again.err
    stored = from_mlflow(server.store, remote_of(path, "mlflow"))
    assert steps(stored) == steps(found), "a store without a server takes the same"


SCRIPT = """
import json, sys, warnings
from pathlib import Path
import flatfed as ff
from runs.bench import digest, small_run

disk, path = Path(sys.argv[1]), Path(sys.argv[2])


def fill(row):
    if row["round"] == 0:
        with (disk / "filling").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(512))
            except OSError:
                pass


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    bits = digest(small_run(path, track=ff.TensorBoard(folder=str(disk / "events")), on_round=fill))
(disk / "filling").unlink()
from flatfed.cli.main import main
code = 0
try:
    main(["track", str(path)])
except SystemExit as error:
    code = error.code
from tracking.readers import from_tensorboard
from tracking.table import steps
found = from_tensorboard(disk / "events" / "run")
said = [str(warning.message) for warning in caught]
print(json.dumps({"bits": bits, "said": said, "code": code, "steps": steps(found), "status": found.status}))
"""


@pytest.mark.skipif(not can_mount(), reason="no small disk can be made here")
def test_a_full_disk(tmp_path: Path, expected: dict[str, Any]) -> None:
    disk, script = tmp_path / "disk", tmp_path / "script.py"
    disk.mkdir()
    script.write_text(SCRIPT)
    mounted = f"mount -t tmpfs -o size=64k none '{disk}' && exec \"$@\""
    prefix = ["unshare", "-rm", "sh", "-c", mounted, "sh"]
    command = [*prefix, sys.executable, str(script), str(disk), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bits"] == expected
    assert len(report["said"]) == 2
    assert (report["code"], report["steps"], report["status"]) == (0, list(range(1, ROUNDS + 1)), "finished")


def test_half_an_event_is_taken_back(tmp_path: Path) -> None:
    from flatfed.tracking.tensorboard_events import _append

    with pytest.raises(OSError, match="No space"):
        _append(Path("/dev/full"), b"event")
    file = tmp_path / "events"
    file.write_bytes(b"before")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            _append(file, bytes(200))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert file.read_bytes() == b"before"
