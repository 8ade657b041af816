"""A run in one file: the same bits when it is replayed, the first difference when not, and no trust in files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from experiments.networks import image_task, trained
from flatfed.cli.main import main
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.experiments.bundling.archive import write_archive
from flatfed.experiments.bundling.stretches import Stretch, chosen_stretches, ranges
from flatfed.runs.directory import RunDirectory
from flatfed.runs.records.files import held
from records import rewrite, rewrite_rows, unmark

ROUNDS = 9


def plain_task() -> ff.Task:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(6, 4, generator=generator), torch.arange(6) % 2) for _ in range(5)]
    return ff.Task(nn.Linear(4, 2), data, test=data[0], name="plain")


def made(out: Path, method: str = "scaffold", **settings: Any) -> Path:
    """Train in a directory; no task of it stays in memory."""
    given = {"rounds": ROUNDS, "keep_checkpoints": (0, 3, 5), "evaluate_every": 3}
    trained(plain_task(), method, out, **(given | settings))
    return out


@pytest.fixture(scope="module")
def _run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("bundled") / "run")


@pytest.fixture
def run(_run: Path, tmp_path: Path) -> Path:
    """A finished run of SCAFFOLD, whose clients keep states; a copy for each test."""
    return Path(shutil.copytree(_run, tmp_path / "run"))


def bundled(run: Path, name: str = "run.zip") -> Path:
    return ff.bundle(run, run.parent / name, with_data=True)


# --- replays ----------------------------------------------------------------------------------------------------


def test_three_stretches_come_to_the_same_bits(run: Path) -> None:
    file = bundled(run)
    result = ff.verify(file, rounds=2, seed=0, workers=0)
    assert result.outcome == "verified" and result.versions == "" and result.notes == []
    begin = result.stretches[1].start
    assert result.stretches == [Stretch("first", 0, 2), Stretch("random", begin, begin + 2), Stretch("last", 8, 9)]
    assert begin in (3, 5)
    assert result.replayed == {0, 1, begin, begin + 1, 8}
    assert result.compared == {5, 9} if begin == 3 else {9}
    assert {ff.verify(file, rounds=1, seed=seed, workers=0).stretches[1].start for seed in range(6)} == {3, 5}


def test_all_of_it_on_other_workers(run: Path) -> None:
    result = ff.verify(bundled(run), rounds=None, workers=2)
    assert result.outcome == "verified"
    assert (result.verified_rounds, result.other_rounds) == ("1 to 9", "")
    assert result.compared == {3, 5, 8, 9}


def test_an_average_and_statistics_are_replayed_too(tmp_path: Path) -> None:
    trained(image_task(), "fedgloss+sam+swa(start=0.3,cycle=2)", tmp_path / "run", rounds=5)
    result = ff.verify(bundled(tmp_path / "run"), rounds=2, workers=0)
    assert result.outcome == "verified" and result.other_rounds == "3 to 4"
    assert "no random stretch" in result.notes[0]


def test_a_rate_that_was_lowered_is_lowered_in_each_stretch(tmp_path: Path) -> None:
    steered = {"lr_plateau": "factor=0.5, patience=1", "monitor": "train_loss:max", "evaluate_every": 1}
    run = made(tmp_path / "run", "fedavg", **steered)
    assert len({row["lr"] for row in RunDirectory.open(run).rows[:5]}) > 1
    result = ff.verify(bundled(run), rounds=2, seed=0, workers=0)
    assert (result.outcome, result.difference) == ("verified", None) and len(result.stretches) == 3


def test_what_a_bundle_holds_is_the_same_each_time(run: Path) -> None:
    first, second = bundled(run), bundled(run, "again.zip")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
        manifest = json.loads(archive.read("bundle.json"))
        assert b"flatfed verify" in archive.read("README.md")
    assert {"config.json", "environment.json", "history.jsonl", "task.safetensors", "model.safetensors"} <= set(names)
    assert manifest["checkpoints"] == [0, 3, 5, 8, 9] and manifest["data"]["packed"] is True
    assert not any("lock" in name or name.endswith((".md.tmp", ".png")) for name in names)


# --- differences ------------------------------------------------------------------------------------------------


def forged_row(run: Path, round: int, **changes: Any) -> None:
    rows = RunDirectory.open(run).rows
    unmark(run)
    rewrite_rows(run, [row | changes if row["round"] == round else row for row in rows])


def other_torch(run: Path) -> None:
    environment = json.loads((run / "environment.json").read_text())
    environment["packages"]["torch"] = "1.0"
    rewrite(run / "environment.json", environment)


@pytest.mark.parametrize("column", ["train_loss", "update_norm", "model_norm", "clients", "test_accuracy"])
def test_a_forged_row_is_found(run: Path, column: str) -> None:
    round = 2
    forged_row(run, round, **{column: [0, 1, 2] if column == "clients" else 0.125})
    result = ff.verify(bundled(run), rounds=4, workers=0)
    assert result.outcome == "differs" and result.difference is not None
    assert (result.difference.round, result.difference.what) == (3, f"column {column}")
    assert result.verified_rounds == "1 to 2"


def test_a_forged_model_is_found(tmp_path: Path) -> None:
    run = made(tmp_path / "run", "fedavg")
    checkpoints = RunDirectory.open(run).checkpoints
    loaded = checkpoints.load(ROUNDS)
    loaded.tensors["w"][3] += 1e-6
    checkpoints.save(ROUNDS, loaded.tensors, {}, loaded.marks)
    result = ff.verify(bundled(run), rounds=1, workers=0)
    assert result.difference is not None and result.outcome == "differs"
    assert (result.difference.round, result.difference.what) == (ROUNDS, "tensor w of server")


def test_a_forged_state_of_a_client_is_found(run: Path) -> None:
    checkpoints = RunDirectory.open(run).checkpoints
    loaded, federation = checkpoints.load(ROUNDS), ff.load_run(run)._federation
    client = federation.clients.known()[0]  # type: ignore[attr-defined]
    state = federation.clients.read(client)
    name, tensor = next(iter(state.tensors().items()))
    setattr(state, name, tensor + 1e-6)
    federation.clients.write(client, state)
    stores: Any = {"clients": federation.clients, "records": federation.records}
    checkpoints.save(ROUNDS, loaded.tensors, stores, loaded.marks)
    result = ff.verify(bundled(run), rounds=1, workers=0)
    assert result.difference is not None
    assert result.difference.what == f"tensor {name} of clients {client}"


def test_other_versions_are_named(run: Path) -> None:
    other_torch(run)
    result = ff.verify(bundled(run), rounds=1, workers=0)
    assert result.outcome == "verified" and result.versions.startswith("torch 1.0, now ")
    forged_row(run, 0, train_loss=0.5)
    result = ff.verify(bundled(run, "other.zip"), rounds=1, workers=0)
    assert result.outcome == "versions differ" and result.difference is not None


def test_another_record_than_the_checkpoints_were_saved_under(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["settings"]["lr"] *= 2
    content = {name: value for name, value in config.items() if name != "seal"}
    from flatfed.runs.records.files import write_json

    write_json(run / "config.json", content)
    with pytest.raises(CheckpointError, match=r"config\.json is not what the checkpoint of round 0 was saved under"):
        ff.verify(bundled(run), rounds=1, workers=0)


# --- what cannot be packed or replayed ----------------------------------------------------------------------------


def test_examples_are_packed_only_where_that_is_asked_for(run: Path, tmp_path: Path) -> None:
    said: list[str] = []
    file = ff.bundle(run, say=said.append)
    assert file == tmp_path / "run.bundle.zip" and "--with-data" in said[0]
    with pytest.raises(ConfigError, match="holds no examples: its run was made from tensors"):
        ff.verify(file)
    assert ff.verify(file, task=plain_task(), rounds=1, workers=0).outcome == "verified"
    with pytest.raises(ConfigError, match="is there already; choose another out"):
        ff.bundle(run)


def damage(run: Path, *rounds: int) -> None:
    for round in rounds:
        file = run / f"checkpoints/round-{round:06d}/server.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"\x07")


def test_checkpoints_that_are_damaged_are_named_and_not_packed(run: Path) -> None:
    damage(run, 5, ROUNDS)
    said: list[str] = []
    file = ff.bundle(run, with_data=True, say=said.append)
    remarks = [text for text in said if text.startswith("without the checkpoint of round")]
    assert len(remarks) == 2 and "round 5: " in remarks[0] and f"round {ROUNDS}: " in remarks[1]
    assert all("damaged" in text for text in remarks)
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("bundle.json"))["checkpoints"] == [0, 3, 8]
        assert not any("round-000005" in name for name in archive.namelist())
    assert ff.verify(file, rounds=None, workers=0).compared == {3, 8}


def test_a_run_without_a_whole_checkpoint_is_not_packed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(run, 0, 3, 5, 8, ROUNDS)
    with pytest.raises(SystemExit) as ended:
        main(["bundle", str(run), "--with-data"])
    assert ended.value.code == 2
    assert "holds no usable checkpoint" in " ".join(capsys.readouterr().err.split())
    assert not list(run.parent.glob("*.zip"))


def test_a_run_that_goes_on_is_not_packed(run: Path) -> None:
    with held(run), pytest.raises(ConfigError, match="is being written by another process"):
        bundled(run)


def test_code_is_not_imported_because_a_bundle_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    source = "from torch import nn\nclass Net(nn.Linear):\n    pass\n"
    (tmp_path / "code/named_in_a_bundle.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    from named_in_a_bundle import Net  # type: ignore[import-not-found]

    task = plain_task()
    task.model = Net(4, 2)
    trained(task, out=tmp_path / "run", rounds=1)
    file = bundled(tmp_path / "run")
    del sys.modules["named_in_a_bundle"], task
    for place in ("run", "code"):  # also where the code is that of the present project
        monkeypatch.chdir(tmp_path / place)
        with pytest.raises(ConfigError, match="add --trust"):
            ff.verify(file, workers=0)
        assert "named_in_a_bundle" not in sys.modules
    assert ff.verify(file, trust=True, workers=0).outcome == "verified"


# --- hostile archives ---------------------------------------------------------------------------------------------


def copied(source: Path, target: Path, change: Callable[[zipfile.ZipInfo, bytes], Any]) -> None:
    """Write an archive again, each member as `change` has it: (member, bytes), several, or None to leave it out."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for member in before.infolist():
            for info, data in change(member, before.read(member)) or []:
                after.writestr(info, data)


def renamed(name: str) -> Callable[[zipfile.ZipInfo, bytes], Any]:
    def change(member: zipfile.ZipInfo, data: bytes) -> Any:
        if member.filename == "status.json":
            member.filename = name
        return [(member, data)]

    return change


def linked(member: zipfile.ZipInfo, data: bytes) -> Any:
    if member.filename == "status.json":
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        data = b"/etc/passwd"
    return [(member, data)]


def compressed(member: zipfile.ZipInfo, data: bytes) -> Any:
    if member.filename == "status.json":
        member.compress_type, data = zipfile.ZIP_DEFLATED, bytes(10**6)
    return [(member, data)]


def without_manifest(member: zipfile.ZipInfo, data: bytes) -> Any:
    return [] if member.filename == "bundle.json" else [(member, data)]


def one_more(member: zipfile.ZipInfo, data: bytes) -> Any:
    more = [("checkpoints/round-000099/checkpoint.json", b"{}")] if member.filename == "status.json" else []
    return [(member, data), *more]


def one_bit(member: zipfile.ZipInfo, data: bytes) -> Any:
    return [(member, data[:-1] + b"\x07" if member.filename == "task.safetensors" else data)]


def other_manifest(member: zipfile.ZipInfo, data: bytes) -> Any:
    return [(member, data.replace(b'"scaffold"', b'"fedavg"') if member.filename == "bundle.json" else data)]


def nested(member: zipfile.ZipInfo, data: bytes) -> Any:
    return [(member, b"[" * 200_000 if member.filename == "bundle.json" else data)]


HOSTILE: dict[str, tuple[Callable[[zipfile.ZipInfo, bytes], Any], str]] = {
    "out": (renamed("../../evil.json"), "is no file of a bundle"),
    "absolute": (renamed("/tmp/evil.json"), "is no file of a bundle"),
    "backslash": (renamed("..\\evil.json"), "is no file of a bundle"),
    "pickle": (renamed("state.pkl"), "is no file of a bundle"),
    "folder": (renamed("checkpoints/states/"), "is no file of a bundle"),
    "states": (renamed("checkpoints/states/../../x.states"), "is no file of a bundle"),
    "twice": (renamed("config.json"), "config.json is there twice"),
    "link": (linked, "status.json is a link"),
    "bomb": (compressed, "status.json is compressed"),
    "nothing": (without_manifest, "is no bundle of flatfed"),
    "more": (one_more, "does not name the files that are in it"),
    "bit": (one_bit, "task.safetensors does not have the SHA-256"),
    "manifest": (other_manifest, "was changed after it was written"),
    "nested": (nested, "is not unpacked: its bundle.json"),
}


@pytest.fixture(scope="module")
def good(_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ff.bundle(_run, tmp_path_factory.mktemp("good") / "good.zip", with_data=True)


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_hostile_archive_is_refused(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    change, words = HOSTILE[kind]
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    copied(good, tmp_path / "bad.zip", change)
    with pytest.raises(ConfigError, match=words):
        ff.verify(tmp_path / "bad.zip")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bad.zip", "temporary"]


def test_members_that_lie_over_each_other_are_refused(good: Path, tmp_path: Path) -> None:
    data = good.read_bytes()
    size = (10**6).to_bytes(4, "little")
    place = data.rindex(b"status.json") - 46  # its entry of the directory at the end
    assert data[place : place + 4] == b"PK\x01\x02"
    changed = data[: place + 20] + size + size + data[place + 28 :]
    (tmp_path / "bad.zip").write_bytes(changed)
    with pytest.raises(ConfigError, match="its files are larger than itself"):
        ff.verify(tmp_path / "bad.zip")


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_half_an_archive_is_damaged(good: Path, tmp_path: Path, share: float) -> None:
    data = good.read_bytes()
    (tmp_path / "half.zip").write_bytes(data[: int(share * len(data))])
    with pytest.raises(ConfigError, match="is no bundle, or it is damaged"):
        ff.verify(tmp_path / "half.zip")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in {"none": "is missing", "pipe": "cannot be unpacked", ".": "cannot be unpacked"}.items():
        with pytest.raises(ConfigError, match=words):
            ff.verify(tmp_path / name)


def test_a_link_in_a_run_is_not_followed(run: Path) -> None:
    (run / "status.json").unlink()
    (run / "status.json").symlink_to("/etc/hostname")
    with pytest.raises(CheckpointError, match="leads out of"):
        write_archive(run.parent / "x.zip", {"status.json": run / "status.json"}, run, {})


# --- which rounds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "checkpoints", "length", "expected"),
    [
        (0, [0], 5, []),
        (4, [3, 4], 5, [("all", 0, 4)]),
        (9, [8, 9], None, [("all", 0, 9)]),
        (100, [99, 100], 10, [("first", 0, 10), ("last", 99, 100)]),
        (100, [40, 99, 100], 10, [("first", 0, 10), ("random", 40, 50), ("last", 99, 100)]),
        (100, [5, 99, 100], 10, [("first", 0, 10), ("last", 99, 100)]),
        (100, [95, 99, 100], 10, [("first", 0, 10), ("random", 95, 100), ("last", 99, 100)]),
        (100, [], 10, [("first", 0, 10)]),
        (100, [90], 10, [("first", 0, 10), ("last", 0, 90)]),
    ],
)
def test_stretches(rounds: int, checkpoints: list[int], length: int | None, expected: list[Any]) -> None:
    assert [(one.kind, one.start, one.end) for one in chosen_stretches(rounds, checkpoints, length, 0)] == expected


def test_rounds_as_people_read_them() -> None:
    assert ranges([0, 1, 2, 7, 9, 10]) == "1 to 3, 8, 10 to 11"
    assert ranges([]) == ""
