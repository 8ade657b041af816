"""Trackers by the command line: options, files, comparisons, studies, signals, and what is refused."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import SMALL, fingerprint, flatfed, read_json
from cli.test_signals import job, order, played
from flatfed.tracking.record import recorded_trackers
from flatfed.tracking.subject import measured_points
from flatfed.tracking.tracker import Tracker, chosen, trackers
from tracking.readers import from_mlflow, from_tensorboard, from_wandb
from tracking.server import MLflowServer
from tracking.table import TRACKERS, remote_of, steps

pytestmark = pytest.mark.usefixtures("_apart_folder")


@pytest.fixture
def _apart_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_table_of_the_tests_has_every_tracker() -> None:
    assert {name for name in trackers() if trackers()[name].__module__.startswith("flatfed.")} == set(TRACKERS)


def test_trackers_are_written_in_many_ways() -> None:
    flat = ff.MLflow(experiment="flat")
    assert chosen("mlflow(experiment=flat),tensorboard") == (flat, ff.TensorBoard())
    assert chosen(["tensorboard", flat]) == (ff.TensorBoard(), flat)
    assert chosen({"mlflow": {"experiment": "flat"}, "wandb": None}) == (flat, ff.WandB())
    assert chosen(flat.to_dict()) == (flat,)
    assert chosen("none") == chosen(None) == ()
    with pytest.raises(ff.ConfigError, match="did you mean 'mlflow'"):
        chosen("mlflo")
    with pytest.raises(ff.ConfigError, match="must name trackers"):
        chosen(3)  # type: ignore[arg-type]


def test_a_secret_in_an_address_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for uri in ("https://me:pass@host", "https://host/?token=pass", "postgresql://me:pass@host/db"):
        outcome = flatfed("run", "digits", "fedavg", *SMALL, "--out", "run", "--track", f"mlflow(uri={uri})")
        assert outcome.code == 2
        assert "MLFLOW_TRACKING_USERNAME" in outcome.err
        assert "pass@" not in outcome.err
        assert not (tmp_path / "run").exists()


def test_a_missing_package_is_said_with_what_to_install() -> None:
    class Absent(Tracker, id="absent"):
        """Needs what is not there."""

        package = "no_such_package_of_anybody"

    try:
        outcome = flatfed("run", "digits", "fedavg", *SMALL, "--out", "run", "--track", "absent")
    finally:
        del Tracker.registry["absent"]
    assert outcome.code == 2
    assert "pip install 'flatfed[absent]'" in outcome.err


def test_a_run_in_memory_cannot_be_tracked() -> None:
    from runs.bench import small_run

    with pytest.raises(ff.ConfigError, match="name a run directory"):
        small_run(None, track="tensorboard")


def test_run_resume_and_track(tmp_path: Path) -> None:
    Path("file.yaml").write_text("dataset: digits\nmethods: fedavg\ntrack: {tensorboard: {folder: board}}\n")
    outcome = flatfed("run", "--config", "file.yaml", *SMALL, "--out", "run")
    assert outcome.code == 0, outcome.err
    board = tmp_path / "board" / "run"
    assert steps(from_tensorboard(board)) == [1, 2, 3]
    assert flatfed("resume", "run", "--rounds", "5").code == 0
    assert steps(from_tensorboard(board)) == [1, 2, 3, 4, 5]
    assert flatfed("resume", "run", "--rounds", "6", "--track", "none").code == 0
    assert steps(from_tensorboard(board)) == [1, 2, 3, 4, 5]
    assert flatfed("track", "run").code == 0
    assert steps(from_tensorboard(board)) == [1, 2, 3, 4, 5, 6]
    plain = flatfed("run", "digits", "fedavg", *SMALL, "--out", "plain")
    assert plain.code == 0
    unsent = flatfed("track", "plain")
    assert unsent.code == 2
    assert "name a tracker with --to" in unsent.err
    before = fingerprint(Path("plain"))
    assert flatfed("track", "plain", "--to", "tensorboard").code == 0
    assert steps(from_tensorboard(Path("plain/tensorboard"))) == [1, 2, 3]
    after = fingerprint(Path("plain"))
    assert all(after[name] == before[name] for name in before)
    assert (tmp_path / "plain" / "model.safetensors").is_file()


def test_where_somebody_else_sent_a_run_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert flatfed("run", "digits", "fedavg", *SMALL, "--out", "run", "--track", "tensorboard(folder=board)").code == 0
    assert recorded_trackers(Path("run")) == (ff.TensorBoard(folder=str(tmp_path / "board")),)
    monkeypatch.setenv("FLATFED_KEY", str(tmp_path / "another"))
    assert recorded_trackers(Path("run")) == ()
    assert flatfed("resume", "run", "--rounds", "4").code == 0
    assert steps(from_tensorboard(tmp_path / "board" / "run")) == [1, 2, 3]


def test_a_comparison_has_its_runs_side_by_side_its_measurements_and_its_report() -> None:
    words = ("compare", "digits", "fedavg", "fedsam", *SMALL, "--flatness", "--watch-samples", "50", "--out", "both")
    outcome = flatfed(*words, "--track", "tensorboard", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    assert "2 runs at a time" in outcome.err
    for method in ("fedavg", "fedsam"):
        found = from_tensorboard(Path("both/tensorboard") / method / "seed-0")
        assert steps(found) == [1, 2, 3]
        assert found.measured["flatness/lambda_max"] > 0
    assert "curves.png" in from_tensorboard(Path("both/tensorboard/report")).files
    assert recorded_trackers(Path("both")) == (ff.TensorBoard(),)
    more = flatfed("compare", "digits", "fedavg", "fedsam", "fedprox", *SMALL, "--out", "both")
    assert more.code == 0, more.err
    assert "tensorboard takes nothing" not in more.err and "not all" not in more.err
    assert steps(from_tensorboard(Path("both/tensorboard/fedprox/seed-0"))) == [1, 2, 3]
    assert flatfed("resume", "both", "--rounds", "4").code == 0
    assert steps(from_tensorboard(Path("both/tensorboard/fedavg/seed-0"))) == [1, 2, 3, 4]


def test_a_comparison_is_a_parent_run_and_a_group(server: MLflowServer, tmp_path: Path) -> None:
    mlflow = f"mlflow(uri={server.uri},experiment=compared,patience=300)"
    words = ("compare", "digits", "fedavg", "fedsam", *SMALL, "--out", "both", "--flatness", "--watch-samples", "50")
    outcome = flatfed(*words, "--track", mlflow, "--track", "wandb")
    assert outcome.code == 0, outcome.err
    parent = read_json(Path("both/tracking/mlflow-group/sent.json"))["remote"]
    assert {"report.md", "curves.png"} <= from_mlflow(server.store, parent).files
    group = read_json(Path("both/tracking/wandb-group/sent.json"))["remote"]
    for method in ("fedavg", "fedsam"):
        run = Path("both") / method / "seed-0"
        at_mlflow = from_mlflow(server.store, remote_of(run, "mlflow"))
        at_wandb = from_wandb(tmp_path, remote_of(run, "wandb"))
        assert (at_mlflow.group, at_wandb.group) == (parent, group)
        for found in (at_mlflow, at_wandb):
            assert steps(found) == [1, 2, 3]
            assert found.measured["flatness/lambda_max"] > 0
            assert found.status == "finished"
    assert "report.md" in from_wandb(tmp_path, remote_of(Path("both"), "wandb")).files


STUDY = """
dataset: digits
rounds: 2
clients: 4
per_round: 2
model: logreg
methods: {fedavg: , fedsam: }
seeds: 0
"""


def test_a_study_sends_its_cells_and_its_report() -> None:
    Path("study.yaml").write_text(STUDY)
    outcome = flatfed("study", "run", "study.yaml", "--out", "out", "--jobs", "2", "--track", "tensorboard")
    assert outcome.code == 0, outcome.err
    for method in ("fedavg", "fedsam"):
        assert steps(from_tensorboard(Path("out/tensorboard/cells") / method / "seed-0")) == [1, 2]
    assert Path("out/tensorboard/report").is_dir()
    assert read_json(Path("out/tracking/tensorboard/sent.json"))["status"] == "finished"


def processes_of(folder: Path) -> list[str]:
    """Return the commands of processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run with each tracker, and Ctrl-C for its whole process group, workers included."""
    folder = tmp_path_factory.mktemp("signals")
    words = ["run", "digits", "scaffold", "--rounds", "20", "--clients", "5", "--per-round", "2"]
    words += ["--model", "net:Net", "--workers", "2", "--out", "run"]
    names = ("tensorboard", "wandb", "mlflow(uri=http://127.0.0.1:9)")
    jobs = [
        job(folder / str(n), [*words, "--track", name], order=order(signal.SIGINT, "train", 3))
        for n, name in enumerate(names)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLATFED_KEY", str(folder / "key"))
        patch.setenv("WANDB_DATA_DIR", str(folder / "data"))
        return {"folder": folder, "outcomes": dict(zip(names, played(jobs), strict=True))}


def test_ctrl_c_saves_and_leaves_nobody_behind(interrupted: dict[str, Any]) -> None:
    for number, (name, outcome) in enumerate(interrupted["outcomes"].items()):
        run = interrupted["folder"] / str(number) / "run"
        assert outcome["code"] == 130, (name, outcome)
        assert "Traceback" not in outcome["err"]
        assert outcome["err"].strip().splitlines()[-1].startswith("interrupted")
        assert outcome["err"].count("Warning:") == name.startswith("mlflow")
        assert read_json(run / "status.json")["status"] == "interrupted"
        assert list(run.glob("checkpoints/round-*"))
    assert processes_of(interrupted["folder"]) == []
    rows = json.loads((interrupted["folder"] / "1/run/tracking/wandb/sent.json").read_text())["rounds"]
    assert rows == len((interrupted["folder"] / "1/run/history.jsonl").read_text().splitlines())


def test_measurements_of_two_spaces_have_names_of_their_own() -> None:
    key = {"round": 3, "weights": "evaluated", "sample": {"of": "train"}}
    numbers = {"numbers": {"lambda_max": 2.0}}
    both = [{"key": key, "result": numbers}, {"key": key | {"space": "full"}, "result": numbers}]
    names = [name for _, point in measured_points(both, at=0) for name in point.values]
    assert names == ["flatness/lambda_max", "flatness/full-space/lambda_max"]
