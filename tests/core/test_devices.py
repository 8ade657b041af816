"""Devices by name: what is unknown or not here is said, and nothing is moved that lies where it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import flatfed as ff
from core.bench import task, train
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.model.devices import CPU, find_device, place, share

META = torch.device("meta")


def test_the_main_memory_is_always_there() -> None:
    assert find_device("cpu") is CPU
    assert share("cpu", 3) == "cpu" and share("cuda:1", 3) == "cuda:1"


@pytest.mark.parametrize(
    ("name", "words"), [("gpu9", "is unknown"), ("cuda:99", "is not here"), ("meta", "is not supported")]
)
def test_what_cannot_be_used_is_refused_before_anything_is_written(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match=f"device '{name}' {words}"):
        train(task(), device=name, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_workers_take_several_devices_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [share("cuda", worker) for worker in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]


def test_only_vectors_move_and_only_where_they_must() -> None:
    vector, number = torch.ones(3), torch.tensor(2.0)
    message, state = Message(w=vector, c=0.5), State({"h": vector, "n": number})
    assert message.to(CPU) is message and state.to(CPU) is state and place(vector, CPU) is vector
    moved = state.to(META)
    assert (moved.h.device, moved.n.device) == (META, CPU)
    assert message.to(META).w.device == META and message.to(META).scalars == {"c": 0.5}
