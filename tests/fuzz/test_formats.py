"""Damaged files of every format, and messages: read, or refused with a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.models.weights import load_weights
from fuzz.formats import FORMATS
from fuzz.mutations import damaged_bytes, edited_line
from fuzz.readers import good_or_refused

MANY = bool(os.environ.get("FLATFED_FUZZ"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_file_is_read(name: str, tmp_path: Path) -> None:
    """Otherwise the damage would be found before it is looked for."""
    (tmp_path / "file").write_bytes(FORMATS[name].whole)
    assert good_or_refused(lambda: FORMATS[name].read(tmp_path / "file"))


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@settings(max_examples=2000 if MANY else 30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files(name: str, tmp_path: Path, data: st.DataObject) -> None:
    whole = FORMATS[name].whole
    damaged = damaged_bytes(whole)
    if name == "history":
        damaged = st.one_of(damaged, edited_line(whole))
    (tmp_path / "file").write_bytes(data.draw(damaged))
    good_or_refused(lambda: FORMATS[name].read(tmp_path / "file"))


FOUND = {
    "idx": {
        "an axis of length 0 beside huge ones": "0000080b00000f000000000000000002000000030000000400010203"
        "0405060708090a0b0c0d0e0f1011121314151617",
        "more axes than NumPy has": "00000850" + "00000001" * 80 + "07",
    },
}
"""Bytes that were once no refusal but an error, by format."""


@pytest.mark.parametrize(("name", "what"), [(name, what) for name in FOUND for what in FOUND[name]])
def test_found_before(name: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes.fromhex(FOUND[name][what]))
    assert not good_or_refused(lambda: FORMATS[name].read(tmp_path / "file"))


def test_a_pickle_takes_no_memory_for_parts_that_it_does_not_hold(tmp_path: Path) -> None:
    """Part number 175 million: Python would take 3 GB before it looked further."""
    (tmp_path / "file").write_bytes(b"\x80\x02}rray\n.")
    with pytest.raises(ConfigError, match="part 175726962 of at most 2"):
        FORMATS["cifar.pickle"].read(tmp_path / "file")


TYPES = {
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
}


@pytest.mark.parametrize("name", TYPES)
def test_weights_that_are_no_real_numbers_are_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"weight": torch.zeros(2, 3).to(TYPES[name]), "bias": torch.zeros(2)}, file)
    with pytest.raises(ConfigError, match=f"their weight is of type {name}, the model's float32"):
        load_weights(nn.Linear(3, 2), file)


@pytest.mark.parametrize("type", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_are_converted(type: torch.dtype, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    model, weight = nn.Linear(3, 2), torch.tensor([[0.1, -2.0, 3.0], [4.0, 5.5, -6.0]])
    safetensors.torch.save_file({"weight": weight.to(type), "bias": torch.zeros(2, dtype=type)}, file)
    load_weights(model, file)
    assert model.weight.dtype == torch.float32
    assert torch.equal(model.weight, weight.to(type).float())


def test_counters_are_whole_numbers(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    norm = nn.BatchNorm1d(3)
    safetensors.torch.save_file(norm.state_dict(), file)
    load_weights(nn.BatchNorm1d(3), file)
