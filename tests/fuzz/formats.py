"""Readers of bytes, each with a small whole file of its format."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import nn

from flatfed.core.method.engine import Job, Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.method.wire import decode_job, decode_reply, encode_job, encode_reply
from flatfed.data.formats.cifar import CifarLabels, read_binary, read_pickled
from flatfed.data.formats.client_tables import class_number, read_table
from flatfed.data.formats.idx import read_idx
from flatfed.data.formats.images import Decoding, decode
from flatfed.data.formats.number_tables import NumberTable, Scaling
from flatfed.data.formats.numpy_files import opened
from flatfed.data.formats.segmentation import read_pair_list
from flatfed.data.formats.texts import read_rows
from flatfed.models.weights import load_weights
from flatfed.runs.history import read_rows as read_history

LABELS = [CifarLabels("labels", 10)]
ROW = {"round": 0, "clients": [0, 1], "lr": 0.1, "bytes_down": 10, "test_loss": 1.0, "watch": {"c": None}}


@dataclass(frozen=True)
class Format:
    """A reader of files, and a file that it takes."""

    read: Callable[[Path], Any]
    whole: bytes


def _idx() -> bytes:
    return b"\0\0\x08\x03" + np.array([2, 3, 4], ">u4").tobytes() + bytes(range(24))


def _pickled() -> bytes:
    return pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 9], "filenames": ["a", "b"]}, protocol=2)


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.arange(3), b=np.zeros((2, 2)))
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(6).reshape(2, 3))
    return file.getvalue()


def _png() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(file, "PNG")
    return file.getvalue()


def _weights() -> bytes:
    return safetensors.torch.save({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)})


def _job() -> Job:
    return Job(3, 1, 0, 0.1, State({"sigma": torch.zeros(2)}), Message(v=torch.ones(2), n=0.5))


def _reply() -> Reply:
    message, kept = Message(w=torch.arange(3.0), c=0.5), State({"sigma": torch.zeros(2)})
    return Reply(3, 1, 0, message, samples=10, steps=2, backprops=4, loss=0.5, kept=kept, watch={"c": 1.0})


def _read_arrays(path: Path) -> None:
    with opened(path) as arrays:
        for name in getattr(arrays, "files", ()):
            assert arrays[name] is not None


def _read_clients(path: Path) -> None:
    table = read_table(path, ["client", "class"], ["text"])
    table.column("client")
    table.read("class", class_number(3))


def _read_numbers(path: Path) -> None:
    table = NumberTable.open(path)
    table.check_column("b")
    table.contents()
    table.features(["a", "b"] if "a" in table else ["b"], None, 0.5)


def _read_image(path: Path) -> None:
    decode(path, Decoding(size=4, crop=4, channels=3))


FORMATS = {
    "message": Format(
        lambda path: Message.from_bytes(path.read_bytes()), Message(w=torch.arange(3.0), c=0.5).to_bytes()
    ),
    "job": Format(lambda path: decode_job(path.read_bytes()), encode_job(_job())),
    "reply": Format(lambda path: decode_reply(path.read_bytes()), encode_reply(_reply())),
    "idx": Format(read_idx, _idx()),
    "idx.gz": Format(lambda path: read_idx(path, 3), gzip.compress(_idx(), mtime=0)),
    "cifar": Format(lambda path: read_binary([path], LABELS), bytes([3]) + bytes(3072)),
    "cifar.pickle": Format(lambda path: read_pickled([path], LABELS), _pickled()),
    "csv": Format(lambda path: list(read_rows(path)), b'a,b\n"x, y",2\n\n3,4\n'),
    "clients.csv": Format(_read_clients, b"client,class,text\nanna,0,a\nben,2,b\n"),
    "numbers.csv": Format(_read_numbers, b"a,b,label\n1,2.5e3,x\n-0.5,NA,y\n"),
    "scaling.csv": Format(Scaling.read, b"column,mean,std\nage,52,16\nbmi,26.8,4.6\n"),
    "pairs": Format(lambda path: read_pair_list(path, path.parent), b"a.png b.png\nc.png d.png\n"),
    "npy": Format(_read_arrays, _npy()),
    "npz": Format(_read_arrays, _npz()),
    "image": Format(_read_image, _png()),
    "weights": Format(lambda path: load_weights(nn.Linear(3, 2), path), _weights()),
    "history": Format(read_history, "".join(json.dumps(ROW | {"round": n}) + "\n" for n in range(2)).encode()),
}
