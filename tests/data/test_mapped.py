"""Large sets of decoded images lie in a mapped file that processes share and nobody leaves behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch

import flatfed as ff
from flatfed.data.storage import mapped
from flatfed.data.storage.budget import read_all
from flatfed.data.storage.mapped import room_for


class Squares:
    """Images whose pixels are their number."""

    def __len__(self) -> int:
        return 12

    def __call__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((3, 4, 4), index, dtype=torch.uint8), torch.tensor(index % 3)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(mapped, "LARGE", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def mapped_here(directory: Path) -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(directory) in line]


def test_small_ones_lie_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert room_for((3, 4), torch.uint8).shape == (3, 4)
    assert not mapped_here(tmp_path)


def test_large_ones_lie_in_a_file_without_a_name(large: Path) -> None:
    examples = read_all(Squares())
    assert mapped_here(large)
    assert os.listdir(large) == []  # noqa: PTH208
    for index in range(12):
        inputs, targets = examples.batch(torch.tensor([index]))
        assert inputs.unique().tolist() == [index] and targets.tolist() == [index % 3]


def test_workers_train_on_them(large: Path) -> None:
    pool = read_all(Squares())
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3))
    task = ff.Task(model, ff.Partition.over(pool, [range(6), range(6, 12)]), prepare=torch.Tensor.float)
    runs = [ff.train(task, ff.make("fedavg"), rounds=2, sampling=2, lr=1e-4, workers=n).vector for n in (0, 2)]
    assert torch.equal(*runs)


def test_no_room_is_reported(large: Path) -> None:
    with pytest.raises(ff.ConfigError, match=r"no room for .* GB of decoded images in .*TMPDIR"):
        room_for((2**45,), torch.uint8)
