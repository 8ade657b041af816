"""Files of a run that are well-formed and wrong: each is refused by name, with what is wrong in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flatfed.core.errors import CheckpointError
from flatfed.reports.results.results import collect
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.directory import RunDirectory
from flatfed.runs.environment import changes_since
from flatfed.runs.records.files import digest, line_seal, read_json, sealed_line
from flatfed.runs.results import KeptResults, Points
from records import rewrite
from reports.disk import write_run
from runs.bench import small_run

GONE = object()

DEEP: Any = 1
for _ in range(150):
    DEEP = [DEEP]

CONFIGS: list[tuple[str, Any, str]] = [
    ("method", 3, "method is 3, not text"),
    ("algorithm", [], "algorithm is [], not an object"),
    ("algorithm", {}, "algorithm lacks id"),
    ("algorithm.id", None, "algorithm.id is None, not text"),
    ("average", "swa", "average is 'swa', not an object"),
    ("settings.rounds", "3", "settings.rounds is '3', not a whole number"),
    ("settings.rounds", True, "settings.rounds is True, not a whole number"),
    ("settings.rounds", 0, "settings.rounds is 0, below 1"),
    ("settings.rounds", 10**400, "does not fit into 64 bits"),
    ("settings.seed", GONE, "settings lacks seed"),
    ("settings.seed", -1, "settings.seed is -1, below 0"),
    ("settings.evaluate_last", {}, "settings.evaluate_last is {}, not a whole number"),
    ("settings.lr", [0.1], "settings.lr is [0.1], not a number"),
    ("task", GONE, "lacks task"),
    ("task.kind", "magic", "task.kind is 'magic', not one of catalogue"),
    ("task.clients", "many", "task.clients is 'many', not a whole number"),
    ("task.partition", "iid", "task.partition is 'iid', not an object"),
    ("task.dataset", GONE, "task lacks dataset"),
    ("task.weights", "a\0b", "holds a NUL character"),
    ("method", "\ud800", "is not UTF-8 text"),
    ("metrics", {"x": {"colour": 1}}, "metrics.x holds 'colour', which means nothing there"),
    ("metrics", {"x": {"unit": 1}}, "metrics.x.unit is 1, not text"),
    ("test_sets", [1], "test_sets[0] is 1, not text"),
    ("setting", None, "setting is None, not an object"),
    ("setting", {"data": {}}, "setting.data lacks name"),
    ("setting", {"model": {"name": "x", "options": {}, "parameters": "1", "bytes": 1}}, "setting.model.parameters"),
    ("keep_checkpoints", 3, "keep_checkpoints is 3, not a list"),
    ("watch", [{}], "watch[0] lacks measurement"),
    ("about", None, "about is None, not an object"),
    ("model_bytes", DEEP, "nested more than 100 levels deep"),
    ("replaces", 3, "replaces is 3, not a list"),
]

ROWS: list[tuple[str, Any, str]] = [
    ("round", 5.5, "line 2 is damaged"),
    ("round", -1, "round is -1, below 0"),
    ("round", 0, "round 0 comes after round 0"),
    ("test_accuracy", "0.5", "test_accuracy is '0.5', not a number or a list"),
    ("test_accuracy", True, "test_accuracy is True"),
    ("test_accuracy", [0.5], "test_accuracy is a number in one round and a list in another"),
    ("bytes_down", None, "bytes_down is None, not a number"),
    ("seconds", 10**400, "does not fit into 64 bits"),
    ("rejected", 3, "rejected is 3, not a list"),
    ("rejected", ["x"], "rejected[0] is 'x', not an object"),
    ("watch", [], "watch is [], not an object"),
    ("watch", {"c": "high"}, "watch.c is 'high', not a number"),
    ("clients_watch", {"c": {"x": 1.0}}, "clients_watch.c holds 'x', which is no client's number"),
    ("clients", DEEP, "nested more than 100 levels deep"),
]

OTHERS: list[tuple[str, Any, str]] = [
    ("status.json", {"status": 3}, "status is 3, not text"),
    ("status.json", {"reason": ""}, "lacks status"),
    ("status.json", {"status": "failed", "reason": {}}, "reason is {}, not text"),
    ("status.json", {"status": "finished", "history": 3}, "history is 3, not an object"),
    ("status.json", {"status": "finished", "history": {"rows": -1, "seal": ""}}, "history.rows is -1, below 0"),
    ("environment.json", {}, "lacks python, packages"),
    ("environment.json", {"python": "3.11", "packages": []}, "packages is [], not an object"),
    ("environment.json", {"python": 3.11, "packages": {}}, "python is 3.11, not text"),
    ("flatness/results.json", {"format": 1, "results": [{"key": {"sample": 3}, "result": {}}]}, "no result"),
    ("flatness/results.json", {"format": 1, "results": [3]}, "no result"),
    ("flatness/readings.json", {"format": 1, "readings": {}}, "does not hold results"),
]


def put(values: dict[str, Any], name: str, value: Any) -> None:
    *way, last = name.split(".")
    for step in way:
        values = values[step]
    if value is GONE:
        del values[last]
    else:
        values[last] = value


def refused(path: Path, *parts: str) -> None:
    """Check that a report of the run is refused with these words."""
    with pytest.raises(CheckpointError) as error:
        for result in collect([path]):
            for run in result.runs:
                dict(run.versions)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(("name", "value", "words"), CONFIGS)
def test_configurations(name: str, value: Any, words: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    config = json.loads(json.dumps(RunDirectory.open(run).config))
    put(config, name, value)
    rewrite(run / "config.json", config)
    refused(run, "config.json", words)
    # As an earlier version wrote it.
    (run / "config.json").write_text(json.dumps(config | {"format": 1}))
    refused(run, "config.json", words)


MODULES: list[tuple[str, Any, str]] = [
    ("task.model.children.0.children", GONE, "task.model.children.0 lacks children"),
    ("task.model.children.0", 3, "task.model.children.0 is 3, not an object"),
    ("task.model.children.0", {"same": 3}, "task.model.children.0.same is 3, not text"),
    ("task.model.children.0.parameters.weight.tensor", [], "parameters.weight.tensor is [], not text"),
]


@pytest.fixture(scope="module")
def of_tensors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose task is described module by module; each test rewrites its configuration."""
    path = tmp_path_factory.mktemp("structure") / "run"
    small_run(path, rounds=1, average=None)
    return path


@pytest.mark.parametrize(("name", "value", "words"), MODULES)
def test_described_modules(name: str, value: Any, words: str, of_tensors: Path) -> None:
    config = RunDirectory.open(of_tensors).config
    wrong = json.loads(json.dumps(config))
    put(wrong, name, value)
    rewrite(of_tensors / "config.json", wrong)
    refused(of_tensors, "config.json", words)
    rewrite(of_tensors / "config.json", config)


@pytest.mark.parametrize(("name", "value", "words"), ROWS)
def test_rows(name: str, value: Any, words: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    rows = RunDirectory.open(run).rows
    put(rows[1], name, value)
    (run / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(run, "history.jsonl", words)


@pytest.mark.parametrize(("file", "content", "words"), OTHERS)
def test_other_files(file: str, content: Any, words: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "flatness").mkdir()
    (run / file).write_text(json.dumps(content))
    refused(run, file, words)
    rewrite(run / file, content)
    refused(run, file, words)


@pytest.mark.parametrize("file", ["config.json", "status.json", "environment.json"])
def test_nesting_without_end(file: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / file).write_text('{"a": ' + "[" * 200_000)
    refused(run, file)


def test_nesting_that_can_just_be_read_and_not_sealed(tmp_path: Path) -> None:
    """At some depth the standard library reads what it cannot write; where that is depends on who calls."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 300, limit):
        (tmp_path / "a.json").write_text('{"a": ' + "[" * depth + "]" * depth + ', "seal": ""}')
        with pytest.raises(CheckpointError, match=r"a\.json"):
            read_json(tmp_path / "a.json")


def test_a_wrong_environment_is_no_reason_not_to_go_on(tmp_path: Path) -> None:
    rewrite(tmp_path / "environment.json", {"cpu": "AVX2", "python": "3.11", "packages": None})
    assert changes_since(tmp_path) == ""


STATES = {
    "file": "a.states",
    "form": [["h", "float32", [3]]],
    "index": {"file": "a.index", "entries": 0, "sha256": ""},
    "new": 0,
}
MANIFESTS: list[tuple[str, Any, str]] = [
    ("server", GONE, "lacks server"),
    ("marks", None, "marks is None, not an object"),
    ("marks", {"config": 3}, "marks.config is 3, not text"),
    ("marks", {"history": {"rows": 1}}, "marks.history lacks seal"),
    ("states", [], "states is [], not an object"),
    ("states", {"clients": []}, "states.clients is [], not an object"),
    ("states", {"clients": {}}, "states.clients lacks file"),
    ("states", {"clients": STATES | {"file": "../../a"}}, "states.clients.file is '../../a', not a file"),
    ("states", {"clients": STATES | {"index": {}}}, "states.clients.index lacks file"),
    ("states", {"clients": STATES | {"new": -1}}, "states.clients.new is -1"),
    ("states", {"clients": STATES | {"form": [["h", "float99", [3]]]}}, "is no name, type and shape"),
    ("states", {"clients": STATES | {"form": [["h", "float32", [-3]]]}}, "is no name, type and shape"),
    ("states", {"clients": STATES | {"form": [["h", ["float32"], [3]]]}}, "is no name, type and shape"),
    ("states", {"clients": STATES}, "a.index cannot be read"),
]
EARLIER_MANIFESTS: list[tuple[str, Any, str]] = [
    ("states", {"clients": {"x": f"a:{'0' * 64}"}}, "states.clients holds 'x', which is no client's number"),
    ("states", {"clients": {"0": "../../a"}}, "states.clients.0 is '../../a', not a file and its SHA-256"),
]


@pytest.mark.parametrize(
    ("format", "name", "value", "words"),
    [(2, *wrong) for wrong in MANIFESTS] + [(1, *wrong) for wrong in EARLIER_MANIFESTS],
)
def test_manifests(format: int, name: str, value: Any, words: str, tmp_path: Path) -> None:
    """Sealed as it should be: who can change a manifest can seal it."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", "r")
    checkpoints.save(1, {}, {})
    manifest = json.loads((tmp_path / "checkpoints/round-000001/checkpoint.json").read_text())["manifest"]
    manifest["format"] = format
    put(manifest, name, value)
    sealed = {"manifest": manifest, "sha256": digest(json.dumps(manifest).encode())}
    (tmp_path / "checkpoints/round-000001/checkpoint.json").write_text(json.dumps(sealed))
    with pytest.raises(CheckpointError, match="no usable checkpoint") as error:
        checkpoints.load_newest()
    assert words in str(error.value)


NO_POINTS = [3, [], {"at": 1, "metrics": {}}, {"at": [[1]], "metrics": {}}, {"at": [2.0], "metrics": 3}, {"at": [2.0]}]
KEY = {"k": 1}


@pytest.mark.parametrize("wrong", NO_POINTS, ids=json.dumps)
def test_what_is_no_point_is_refused(wrong: Any, tmp_path: Path) -> None:
    (tmp_path / "flatness").mkdir()
    file = tmp_path / "flatness" / "line.jsonl"
    # As an earlier version wrote it.
    file.write_text(f"{json.dumps(KEY)}\n{json.dumps(wrong)}\n")
    no_points(tmp_path, "line 2 is damaged")
    if isinstance(wrong, dict):
        file.write_bytes(sealed_line(KEY, "") + sealed_line(wrong, line_seal(KEY, "")))
        no_points(tmp_path, "line 2 is damaged")


def test_nesting_without_end_in_points(tmp_path: Path) -> None:
    (tmp_path / "flatness").mkdir()
    (tmp_path / "flatness" / "line.jsonl").write_text(json.dumps(KEY) + "\n" + "[" * 200_000 + "\n")
    no_points(tmp_path, "line 2 is damaged")


def no_points(run: Path, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        Points(run, "line", KEY)


def test_a_good_run_is_read(tmp_path: Path) -> None:
    """Otherwise the tests above would say nothing."""
    run = write_run(tmp_path / "run")
    assert RunDirectory.open(run).summary()["rounds"] == 3
    assert KeptResults(run).of_round([1]) == []
    assert [result.status for result in collect([run])] == ["finished"]
