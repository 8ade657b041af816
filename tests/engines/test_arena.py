"""Shared memory: what one end writes, the other end reads, bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engines.bench import exact
from flatfed.engines.processes.arena import ALIGN, DTYPES, Inbox, Outbox

NAMES = st.text(min_size=1, max_size=12)
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any bits of any type and shape: NaN payloads, negative zeros, views that are not contiguous."""
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    shape = draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    count = int(torch.tensor(shape).prod())
    high = 2 if dtype is torch.bool else 256
    raw = torch.randint(0, high, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    tensor = raw.view(dtype).view(shape)
    return tensor.transpose(0, -1) if tensor.ndim > 1 and draw(st.booleans()) else tensor


@settings(deadline=None, max_examples=150)
@given(st.lists(st.dictionaries(NAMES, tensors(), max_size=5), min_size=1, max_size=4))
def test_what_is_written_is_read(writes: list[dict[str, Tensor]]) -> None:
    """Several writes in a row, growing and shrinking, through one pair of ends."""
    with tempfile.TemporaryDirectory() as directory:
        outbox, inbox = Outbox(Path(directory), "box"), Inbox()
        for contents in writes:
            found = inbox.read(outbox.write(contents))
            assert list(found) == list(contents)
            assert exact(found) == exact(contents)
            assert len(list(Path(directory).iterdir())) == 1, "an outgrown file was left behind"


@given(st.dictionaries(NAMES, tensors(), min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_entries_are_aligned_and_do_not_overlap(contents: dict[str, Tensor]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        header = Outbox(Path(directory), "box").write(contents)
    end = 0
    for entry, tensor in zip(header.entries, contents.values(), strict=True):
        assert entry.offset % ALIGN == 0
        assert entry.offset >= end
        end = entry.offset + tensor.numel() * tensor.element_size()
    assert end <= header.capacity


def test_a_box_that_grows_moves_to_a_new_file_and_stays_there(tmp_path: Path) -> None:
    outbox, inbox = Outbox(tmp_path, "box"), Inbox()
    small, large = {"v": torch.arange(3.0)}, {"v": torch.arange(10_000.0), "c": torch.ones(5)}
    first = outbox.write(small)
    kept = inbox.read(first)["v"].clone()
    second = outbox.write(large)
    assert second.file != first.file
    assert exact(inbox.read(second)) == exact(large)
    third = outbox.write(small)
    assert third.file == second.file
    assert exact(inbox.read(third)) == exact(small)
    assert torch.equal(kept, small["v"])


def test_views_follow_the_writer(tmp_path: Path) -> None:
    outbox, inbox = Outbox(tmp_path, "box"), Inbox()
    view = inbox.read(outbox.write({"v": torch.zeros(4)}))["v"]
    outbox.write({"v": torch.ones(4)})
    assert torch.equal(view, torch.ones(4))


def test_nothing_at_all_can_be_sent(tmp_path: Path) -> None:
    assert Inbox().read(Outbox(tmp_path, "box").write({})) == {}


def test_two_boxes_in_one_directory_do_not_meet(tmp_path: Path) -> None:
    boxes: list[Any] = [Outbox(tmp_path, "a"), Outbox(tmp_path, "b")]
    headers = [box.write({"v": torch.full((3,), float(i))}) for i, box in enumerate(boxes)]
    assert [Inbox().read(header)["v"][0].item() for header in headers] == [0.0, 1.0]
