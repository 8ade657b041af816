"""Checkpoints: exact, complete or refused with a reason, and no more of them than are needed."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import flatfed as ff
from engines.bench import exact
from flatfed.core.method.state import State
from flatfed.runs.checkpoints import Checkpoints, Loaded
from flatfed.runs.states.store import StateStore

RUN = "0123456789abcdef"


def state(value: float) -> State:
    return State({"h": torch.full((3,), value), "count": torch.tensor(value, dtype=torch.float64)})


def tensors(round: int) -> dict[str, Tensor]:
    """What a server holds: a model, no buffers, a scalar."""
    return {"w": torch.arange(4.0) + round, "buffers": torch.empty(0), "average/count": torch.tensor(float(round))}


class Fixture:
    """Checkpoints of a run in which round r changes the states of the clients r and r + 1."""

    def __init__(self, root: Path, run: str = RUN) -> None:
        self.root, self.checkpoints = root, Checkpoints(root, run)
        self.stores = {"clients": StateStore(lambda: state(0.0), 2**20), "records": StateStore(lambda: State({}), 0)}

    def save(self, *rounds: int) -> Fixture:
        for round in rounds:
            for client in (round, round + 1):
                self.stores["clients"].write(client, state(10.0 * round + client))
            self.checkpoints.save(round, tensors(round), self.stores)
        return self

    def newest(self, run: str = RUN) -> tuple[Loaded, list[str]]:
        """Load with fresh eyes; return the checkpoint and what was said about the others."""
        said: list[str] = []
        return Checkpoints(self.root, run).load_newest(said.append), said

    def file(self, round: int, name: str = "checkpoint.json") -> Path:
        return self.root / f"round-{round:06d}" / name


@pytest.fixture
def saved(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path / "checkpoints").save(1, 2, 3)


def content(loaded: Loaded) -> tuple[Any, ...]:
    states = {name: {k: exact(v) for k, v in entries.items()} for name, entries in loaded.states.items()}
    return loaded.round, exact(loaded.tensors), {name: entries for name, entries in states.items() if entries}


def expected(round: int) -> tuple[Any, ...]:
    """What a checkpoint of `Fixture.save(1, ..., round)` holds."""
    last = {client: r for r in range(1, round + 1) for client in (r, r + 1)}
    states = {client: exact(state(10.0 * r + client).tensors()) for client, r in last.items()}
    return round, exact(tensors(round)), {"clients": states}


def test_what_is_saved_is_loaded(saved: Fixture) -> None:
    loaded, said = saved.newest()
    assert content(loaded) == expected(3)
    assert said == []


DTYPES = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)), max_size=4), st.data())
def test_any_tensor_comes_back_to_the_same_bits(shapes: list[Any], data: st.DataObject) -> None:
    values: dict[str, Tensor] = {}
    for number, (dtype, shape) in enumerate(shapes):
        generator = torch.Generator().manual_seed(data.draw(st.integers(0, 9999)))
        size = torch.Size(shape).numel() * dtype.itemsize
        raw = torch.randint(0, 2 if dtype is torch.bool else 256, (size,), generator=generator, dtype=torch.uint8)
        values[f"server/{number}"] = raw.view(dtype).view(shape)
    with tempfile.TemporaryDirectory() as directory:
        store = StateStore(lambda: State({}), 2**20)
        store.write(7, State({name: v.clone() for name, v in values.items()}))
        Checkpoints(Path(directory), RUN).save(4, values, {"clients": store})
        loaded = Checkpoints(Path(directory), RUN).load(4)
        assert exact(loaded.tensors) == exact(values)
        kept = dict(loaded.states["clients"].items()) if loaded.states else {}
        assert exact(kept.get(7, {})) == exact(values)


def test_only_the_last_two_are_kept(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path / "checkpoints")
    for round in range(1, 6):
        fixture.save(round)
        assert fixture.checkpoints.rounds() == [r for r in (round, round - 1) if r > 0]
    assert sorted(p.name for p in fixture.root.iterdir()) == ["round-000004", "round-000005", "states"]
    assert content(fixture.checkpoints.load(4)) == expected(4)
    assert content(fixture.checkpoints.load(5)) == expected(5)


# Damage.


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    file.write_bytes(bytes(data))


def edited(**changes: Any) -> Callable[[Path], None]:
    """Change a manifest by hand, under the seal that it had."""

    def edit(file: Path) -> None:
        sealed = json.loads(file.read_text())
        sealed["manifest"] |= changes
        file.write_text(json.dumps(sealed))

    return edit


def sealed(**changes: Any) -> Callable[[Path], None]:
    """Write a manifest that says something else and is in itself sound."""

    def seal(file: Path) -> None:
        manifest = json.loads(file.read_text())["manifest"] | changes
        digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
        file.write_text(json.dumps({"manifest": manifest, "sha256": digest}))

    return seal


DAMAGES = {
    "server flipped": ("server.safetensors", flipped, "damaged"),
    "server truncated": ("server.safetensors", truncated, "damaged"),
    "server emptied": ("server.safetensors", emptied, "damaged"),
    "server missing": ("server.safetensors", Path.unlink, "cannot be read"),
    "manifest truncated": ("checkpoint.json", truncated, "cannot be read"),
    "manifest emptied": ("checkpoint.json", emptied, "cannot be read"),
    "manifest missing": ("checkpoint.json", Path.unlink, "missing"),
    "manifest not JSON": ("checkpoint.json", lambda f: f.write_text("round: 3"), "cannot be read"),
    "manifest not text": ("checkpoint.json", lambda f: f.write_bytes(b"\xff\xfe\x00"), "cannot be read"),
    "manifest a list": ("checkpoint.json", lambda f: f.write_text("[1, 2]"), "JSON object"),
    "wrong format": ("checkpoint.json", sealed(format=3), "format 3"),
    "no format": ("checkpoint.json", sealed(format=None), "format None"),
    "wrong run": ("checkpoint.json", sealed(run="f00d"), "another run"),
    "wrong round": ("checkpoint.json", sealed(round=7), "round 7"),
    "wrong digest": ("checkpoint.json", sealed(server="0" * 64), "damaged"),
    "no digest": ("checkpoint.json", sealed(server=None), "damaged"),
    "no manifest": ("checkpoint.json", lambda f: f.write_text('{"sha256": "0"}'), "damaged"),
    "no seal": ("checkpoint.json", lambda f: f.write_text('{"manifest": {"format": 1}}'), "damaged"),
    "edited digest": ("checkpoint.json", edited(server="0" * 64), "damaged"),
    "edited states": ("checkpoint.json", edited(states={}), "damaged"),
    "edited round": ("checkpoint.json", edited(round=3.0), "damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(damage: str, saved: Fixture) -> None:
    name, harm, reason = DAMAGES[damage]
    harm(saved.file(3, name))
    loaded, said = saved.newest()
    assert content(loaded) == expected(2)
    assert len(said) == 1
    assert "round 3 cannot be used" in said[0]
    assert reason in said[0]


def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(saved: Fixture) -> None:
    """Each byte of the manifest and of the tensors: refused with a reason, or the same content. Nothing else.

    One bit of each byte, by turns of three: what reads a byte asks nothing of where it stands.
    """
    wrong, masks = [], (0x01, 0x02, 0x20)
    for name in ("checkpoint.json", "server.safetensors"):
        file = saved.file(3, name)
        original = file.read_bytes()
        for position in range(len(original)):
            damaged = bytearray(original)
            damaged[position] ^= masks[position % len(masks)]
            file.write_bytes(bytes(damaged))
            if fault := fault_in(saved):
                wrong.append(f"{fault}: ...{damaged[max(0, position - 9) : position + 9].decode(errors='replace')}...")
        file.write_bytes(original)
    assert not wrong, "\n".join(wrong)


def fault_in(saved: Fixture) -> str | None:
    """Return what is wrong with the answer to a damaged third checkpoint, if anything is."""
    try:
        actual = content(saved.newest()[0])
    except Exception as error:
        return f"raised {type(error).__name__}"
    return None if actual in (expected(3), expected(2)) else f"gave other content for round {actual[0]}"


def test_where_none_is_usable_all_reasons_are_reported(saved: Fixture) -> None:
    truncated(saved.file(3, "server.safetensors"))
    saved.file(2).unlink()
    with pytest.raises(ff.CheckpointError, match="no usable checkpoint") as caught:
        saved.newest()
    assert "damaged" in str(caught.value)
    assert "is missing" in str(caught.value)


def test_where_there_is_none_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(ff.CheckpointError, match="there is none"):
        Checkpoints(tmp_path / "nowhere", RUN).load_newest()


# Another run's checkpoints, copied in.


def test_a_checkpoint_of_another_run_is_refused_and_named(saved: Fixture, tmp_path: Path) -> None:
    other = Fixture(tmp_path / "other", run="f00d").save(1, 2, 3, 4, 5)
    shutil.copytree(other.file(5).parent, saved.file(5).parent)
    loaded, said = saved.newest()
    assert content(loaded) == expected(3)
    assert "another run (f00d, not 0123456789abcdef)" in said[0]


@pytest.mark.parametrize("copied", [[9], [8, 9]])
def test_foreign_checkpoints_of_later_rounds_do_not_displace_the_runs_own(
    copied: list[int], saved: Fixture, tmp_path: Path
) -> None:
    Fixture(tmp_path / "other", run="f00d").save(*range(1, 10))
    for round in copied:
        shutil.copytree(tmp_path / "other" / f"round-{round:06d}", saved.file(round).parent)
    saved.save(4)
    assert content(saved.newest()[0]) == expected(4)
    truncated(saved.file(4, "server.safetensors"))
    assert content(saved.newest()[0]) == expected(3), "two of the run's own must be kept"


def test_a_refused_checkpoint_is_replaced_when_its_round_comes_again(saved: Fixture) -> None:
    truncated(saved.file(3, "server.safetensors"))
    again = Fixture(saved.root)
    loaded = again.checkpoints.load_newest()
    again.stores["clients"].adopt(loaded.states["clients"])
    again.save(3)
    loaded, said = saved.newest()
    assert (content(loaded), said) == (expected(3), [])
