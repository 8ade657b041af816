"""Tasks that a run directory describes: only what is meant for it is built, and no attribute brings code in."""

from __future__ import annotations

import copy
import json
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from flatfed.core.errors import CheckpointError, FlatfedError
from flatfed.data.formats.images import CropNormalise
from flatfed.data.storage.pool import Normalise
from flatfed.engines.processes.shared_directory import SharedDirectory
from flatfed.runs.described.import_paths import CannotDescribe
from flatfed.runs.described.tasks import describe_task
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults, Points
from runs.bench import small_run, small_task

Change = Callable[[dict[str, Any], Path], None]


@pytest.fixture(scope="module")
def _received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run"
    small_run(path, small_task(loss=functional.cross_entropy), rounds=1, average=None)
    return path


@pytest.fixture
def received(_received: Path, tmp_path: Path) -> Path:
    """A run in a directory that this process knows nothing of."""
    return Path(shutil.copytree(_received, tmp_path / "run"))


def changed(run: Path, change: Change, marker: Path) -> Path:
    """Change what a run says of its task, with a seal that its checkpoints accept: whoever changes it can seal it."""
    directory = RunDirectory.open(run)
    config = copy.deepcopy(directory.config)
    change(config["task"], marker)
    directory.rewrite(config)
    return run


def touch(marker: Path) -> dict[str, Any]:
    """An object that starts a process when it is made."""
    return {"class": "subprocess:Popen", "fields": {"args": ["touch", str(marker)]}}


def child(task: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = task["model"]["children"]["0"]
    return first


CALLING: dict[str, Change] = {
    "prepare": lambda task, marker: task.update(prepare=touch(marker)),
    "augment": lambda task, marker: task.update(augment=touch(marker)),
    "batch transform": lambda task, marker: task.update(batch_transform=touch(marker)),
    "attribute": lambda task, marker: child(task)["attributes"].update(note=touch(marker)),
    "deeper": lambda task, marker: child(task)["attributes"].update(note=[{"tuple": [touch(marker)]}]),
    "field of a chain": lambda task, marker: task.update(
        augment={"class": "flatfed.data.augment.chains:Chain", "fields": {"steps": {"tuple": [touch(marker)]}}}
    ),
    "layer": lambda task, marker: child(task).update({"class": "subprocess:Popen"}),
    "local layer": lambda task, marker: task["local"].update(types=["subprocess:Popen"]),
    "loss": lambda task, marker: task.update(loss="os:system"),
    "function": lambda task, marker: task.update(prepare={"function": "builtins:eval"}),
    "through a library": lambda task, marker: task.update(loss="torch.nn.functional:importlib.import_module"),
    "through a package": lambda task, marker: task.update(loss="torch:hub.load"),
    "a library's other functions": lambda task, marker: task.update(loss="torch.nn.functional:_verify_batch_size"),
    "torch's other classes": lambda task, marker: child(task).update({"class": "torch.jit:ScriptModule"}),
    "flatfed's commands": lambda task, marker: task.update(loss="flatfed.cli.main:main"),
    "flatfed's functions": lambda task, marker: task.update(loss="flatfed.models.weights:load_weights"),
    "flatfed's readers of files": lambda task, marker: task.update(
        prepare={
            "class": "flatfed.data.formats.images:ImageFiles",
            "fields": {"files": [], "targets": 0, "decoding": 0},
        }
    ),
    "no such field": lambda task, marker: task.update(
        prepare={"class": "flatfed.data.storage.pool:Normalise", "fields": {"other": 1}}
    ),
    "no class": lambda task, marker: child(task).pop("class"),
    "a child in place of a method": lambda task, marker: task["model"]["children"].update(forward=child(task)),
    "flatfed's other dataclasses": lambda task, marker: task.update(
        prepare={"class": "flatfed.data.storage.pool:Pool", "fields": {}}
    ),
}


@pytest.mark.parametrize("change", CALLING.values(), ids=CALLING)
def test_what_is_not_meant_for_a_task_is_not_built(change: Change, received: Path, tmp_path: Path) -> None:
    marker = tmp_path / "code-has-run"
    run = changed(received, change, marker)
    for open_it in (ff.load_run, ff.resume, ff.laboratory):
        with pytest.raises(FlatfedError) as caught:
            open_it(run)
        assert "not the configuration" not in str(caught.value), "it was refused for its seal"
    assert not marker.exists()


ATTRIBUTES = (
    "forward",
    "__class__",
    "_forward_hooks",
    "_compiled_call_impl",
    "_parameters",
    "extra_repr",
    "state_dict",
)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_takes_the_place_of_no_method(name: str, received: Path, tmp_path: Path) -> None:
    relu = {"import": "torch.nn.functional:relu"}
    run = changed(received, lambda task, _: child(task)["attributes"].update({name: relu}), tmp_path)
    with pytest.raises(CheckpointError, match=f"model.0.{name} would take the place of a method of Linear"):
        ff.load_run(run)


def test_a_model_with_such_an_attribute_is_not_described() -> None:
    task = small_task()
    task.model[0].forward = functional.relu
    with pytest.raises(CannotDescribe, match=r"model\.0\.forward takes the place of a method"):
        describe_task(task)


def test_what_is_meant_for_a_task_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # far from every project
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation=functional.gelu)
    task = small_task(model=nn.Sequential(layer, nn.Linear(4, 3)), loss=functional.cross_entropy)
    small_run(tmp_path / "run", task, rounds=1, average=None)
    again = ff.load_run(Path(shutil.copytree(tmp_path / "run", tmp_path / "copy"))).model()
    assert again[0].activation is functional.gelu
    for prepare in (Normalise((0.5,), (0.5,)), CropNormalise((0.5,), (0.5,), crop=2)):
        images = [(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.arange(4) % 3)] * 2
        model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        made = ff.Task(model=model, clients=images, prepare=prepare)
        name = type(prepare).__name__
        ff.train(made, ff.make("fedavg"), rounds=1, sampling=2, lr=0.1, workers=0, out=tmp_path / name)
        copied = Path(shutil.copytree(tmp_path / name, tmp_path / f"{name}-copy"))
        assert ff.load_run(copied)._federation.task.prepare == prepare


def prepared_by(name: str) -> Change:
    return lambda task, marker: task.update(prepare={"function": name})


STRANGE = """
from pathlib import Path
Path({marker!r}).touch()

def halved(inputs):
    return inputs / 2
"""


def test_code_of_others_is_imported_where_it_is_trusted(
    received: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, folder = tmp_path / "code-has-run", tmp_path_factory.mktemp("installed")
    package = folder / "strange_package"
    package.mkdir()
    (package / "__init__.py").write_text(STRANGE.format(marker=str(marker)))
    (package / "halves.py").write_text(STRANGE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(str(folder))
    for name in ("strange_package.halves:halved", "strange_package:halved"):
        run = changed(received, prepared_by(name), marker)
        with pytest.raises(FlatfedError, match=rf"config.json names {name}, .* would run {package}.*; add --trust"):
            ff.load_run(run)
    assert not marker.exists() and "strange_package" not in sys.modules
    inputs = torch.ones(1)
    try:
        assert ff.load_run(run, trust=True)._federation.task.prepare(inputs) == 0.5
        assert len(ff.resume(run, 2, trust=True).history) == 2
        with ff.laboratory(run, trust=True) as lab:
            assert lab.surface.task.prepare(inputs) == 0.5
    finally:
        for module in ("strange_package", "strange_package.halves"):
            sys.modules.pop(module, None)
    assert marker.exists()


def test_tensors_are_read_through_no_link_that_leads_out(received: Path, tmp_path: Path) -> None:
    (received / "task.safetensors").rename(tmp_path / "secret")
    (received / "task.safetensors").symlink_to(tmp_path / "secret")
    with pytest.raises(CheckpointError, match=r"task\.safetensors is a link that leads out of"):
        ff.load_run(received)


def test_points_are_added_through_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "letter.txt"
    victim.write_text("dear reader\n")
    (tmp_path / "run" / "flatness").mkdir(parents=True)
    (tmp_path / "run" / "flatness" / "surface.jsonl").symlink_to(victim)
    with pytest.raises(CheckpointError, match="is a link"):
        Points(tmp_path / "run", "surface", {})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "flatness").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="is a link"):
        KeptResults(tmp_path / "other")
    assert victim.read_text() == "dear reader\n"


def test_the_memory_that_workers_share_is_the_users_alone() -> None:
    directory = SharedDirectory()
    try:
        assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    finally:
        directory.remove()


def identity(inputs: Tensor) -> Tensor:
    return inputs


def test_a_run_records_the_files_of_the_code_that_it_names(tmp_path: Path) -> None:
    small_run(tmp_path / "run", small_task(prepare=identity), rounds=1, average=None)
    code = json.loads((tmp_path / "run" / "config.json").read_text())["code"]
    bench = Path(__file__).with_name("bench.py")
    assert code[__name__] == str(Path(__file__).resolve()) and code["runs.bench"] == str(bench.resolve())
    assert not any(name.startswith(("torch", "flatfed")) for name in code)
