"""Every method keeps to its device: arithmetic between a client's vectors and main memory would fail on a GPU.

PyTorch's `meta` device stands in for one: its tensors have shapes and a device but no numbers, and mixing them with
tensors in main memory is the same error. Numbers that leave the device are made up.

Every run of the tests takes each method client by client and vectorised, with each parameter set in one of the two;
in `make battery`, every variant in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.model import precision
from flatfed.core.model.devices import CPU
from methods.designs import marked
from methods.wire import METHODS, SIZES, numbered_variants, variants

META = torch.device("meta")
WHOLE, SHORT = numbered_variants(METHODS)
MODES = (False, True)  # vectorised or not
PRODUCT = [(*case, vectorised) for case in WHOLE for vectorised in MODES]


def alternating() -> list[tuple[str, int, bool]]:
    """The short design: every method in both modes, its variants in one and the other by turns."""
    design = []
    for id in METHODS:
        numbers = [number for other, number in SHORT if other == id]
        assert len(numbers) >= len(MODES)
        design += [(id, number, MODES[turn % len(MODES)]) for turn, number in enumerate(numbers)]
    return design


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real_to, real_copy = Tensor.to, Tensor.copy_

    def known(tensor: Any) -> Any:
        return torch.full(tensor.shape, 0.5).to(tensor.dtype) if tensor.is_meta else tensor

    def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        leaves = self.is_meta and args and args[0] == CPU
        return known(self) if leaves else real_to(self, *args, **kwargs)

    def copy(self: Tensor, source: Tensor, *args: Any) -> Tensor:
        return real_copy(self, source if self.is_meta else known(source), *args)

    monkeypatch.setattr(precision, "find_device", lambda name: META)
    monkeypatch.setattr(Tensor, "to", to)
    monkeypatch.setattr(Tensor, "copy_", copy)
    monkeypatch.setattr(Tensor, "__float__", lambda self: 0.5)
    monkeypatch.setattr(Tensor, "__bool__", lambda self: True)
    monkeypatch.setattr(Tensor, "tolist", lambda self: [0.5] * self.numel())
    yield


def jittered(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.1 * torch.rand(inputs.shape, generator=generator).to(inputs.device)


def task() -> ff.Task:
    generator = torch.Generator().manual_seed(3)
    data = [(torch.randn(n, 6, generator=generator), (torch.arange(n) + k) % 3) for k, n in enumerate(SIZES)]
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    return ff.Task(model, data, augment=jittered)


@pytest.mark.usefixtures("device")
@marked("method, number, vectorised", PRODUCT, alternating())
def test_no_method_mixes_devices(method: str, number: int, vectorised: bool) -> None:
    settings = {
        "rounds": 2,
        "sampling": ff.Replay([[0, 1], [1, 2]]),
        "lr": 0.1,
        "batch_size": 3,
        "evaluate_every": 1,
    }
    run = ff.train(task(), variants(method)[number], workers=0, vectorised=vectorised, **settings)
    assert run.status == "finished", run.reason
    assert run.vector.device == CPU
