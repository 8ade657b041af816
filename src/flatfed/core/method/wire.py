"""Jobs and replies as bytes: how they travel wherever client and server share no memory.

A safetensors file whose metadata holds the kind, a version and the numbers as JSON; never pickle. What is read is
checked: forged, damaged or oversized bytes are a `WireError`, whatever is in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from flatfed.core.errors import FlatfedError
from flatfed.core.method.engine import Job, Reply
from flatfed.core.method.messages import Message, metadata_of, pack, unpack
from flatfed.core.method.state import State

VERSION = 1
MOST_HEADER_BYTES = 1 << 20
"""Names and numbers of a message take far less; a header is read before anything is known of the tensors."""

Facts = dict[str, Any]


class WireError(FlatfedError):
    """Bytes that are no job, no reply, or of another version."""


def encode_job(job: Job) -> bytes:
    """Return a job as it travels: its numbers, the client's personal part and state."""
    tensors = _under("personal", job.personal.vectors) | _under("kept", job.kept.tensors())
    facts = {name: getattr(job, name) for name in JOB}
    return _encode("job", tensors, facts | {"scalars": job.personal.scalars})


def decode_job(data: bytes, limit: int | None = None) -> Job:
    """Read a job of at most `limit` bytes."""
    tensors, facts = _decode("job", data, limit)
    _refuse_others(tensors, ("personal", "kept"))
    numbers = {name: _read(facts, name, kind) for name, kind in JOB.items()}
    personal = _message(_within("personal", tensors), _numbers(facts, "scalars"))
    return Job(kept=State(_within("kept", tensors)), personal=personal, **numbers)


def encode_reply(reply: Reply) -> bytes:
    """Return a reply as it travels, with the client's new state where there is one."""
    tensors = _under("vector", reply.message.vectors)
    if reply.kept is not None:
        tensors |= _under("kept", reply.kept.tensors())
    if reply.model is not None:
        tensors |= {"model": reply.model}
    facts = {name: getattr(reply, name) for name in REPLY}
    keeps = reply.kept is not None
    facts |= {"scalars": reply.message.scalars, "watch": dict(reply.watch), "keeps": keeps}
    return _encode("reply", tensors, facts)


def decode_reply(data: bytes, limit: int | None = None) -> Reply:
    """Read a reply of at most `limit` bytes; what it says is checked where it is used (`Expectation`)."""
    tensors, facts = _decode("reply", data, limit)
    keeps = _read(facts, "keeps", _truth)
    model = tensors.pop("model", None)
    _refuse_others(tensors, ("vector", "kept") if keeps else ("vector",))
    numbers = {name: _read(facts, name, kind) for name, kind in REPLY.items()}
    message = _message(_within("vector", tensors), _numbers(facts, "scalars"))
    kept = State(_within("kept", tensors)) if keeps else None
    return Reply(message=message, kept=kept, watch=_numbers(facts, "watch"), model=model, **numbers)


def _encode(kind: str, tensors: Mapping[str, Tensor], facts: Facts) -> bytes:
    # JSON's float text is exact: it reads back to the same bits.
    return pack(tensors, {"flatfed": kind, "version": str(VERSION), "facts": json.dumps(facts)})


def _decode(kind: str, data: bytes, limit: int | None) -> tuple[dict[str, Tensor], Facts]:
    """Return the tensors and numbers of bytes of this kind."""
    if limit is not None and len(data) > limit:
        raise WireError(f"{len(data):,} bytes, above the bound {limit:,}")
    try:
        metadata = metadata_of(data, MOST_HEADER_BYTES)
        found, version = metadata["flatfed"], metadata["version"]
        if found == kind and version == str(VERSION):
            return unpack(data), dict(json.loads(metadata["facts"]))
    except Exception as error:  # whatever forged bytes bring about, they are not what was expected
        raise WireError(f"these bytes are no flatfed {kind}: {error}") from None
    if found != kind:
        raise WireError(f"these bytes are a flatfed {found!r:.40}, not a {kind}")
    raise WireError(
        f"this {kind} has the wire version {version!r:.20}, and this flatfed speaks {VERSION}; take the same release "
        "of flatfed on both sides"
    )


def _read(facts: Facts, name: str, kind: Callable[[Any], Any]) -> Any:
    """Return one of the numbers of a message."""
    try:
        return kind(facts[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise WireError(f"{name} is missing or not what it should be: {facts.get(name)!r:.40}") from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _real_or_none(value: Any) -> float | None:
    return None if value is None else _real(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _numbers(facts: Facts, name: str) -> dict[str, float]:
    """Return numbers by name."""
    entries = _read(facts, name, dict)
    return {_read({"name": key}, "name", _text): _read(entries, key, _real) for key in entries}


JOB: dict[str, Callable[[Any], Any]] = {
    "client": _whole,
    "round": _whole,
    "exchange": _whole,
    "attempt": _whole,
    "lr": _real,
    "shows_model": _truth,
}
REPLY: dict[str, Callable[[Any], Any]] = {
    "client": _whole,
    "round": _whole,
    "exchange": _whole,
    "attempt": _whole,
    "samples": _whole,
    "steps": _whole,
    "backprops": _whole,
    "loss": _real_or_none,
    "drift": _real,
    "seconds": _real,
    "missing": _text,
}


def _message(vectors: Mapping[str, Tensor], scalars: Mapping[str, float]) -> Message:
    """Return a message; what it calls a vector must be one, and nothing has the name of another."""
    flat = [name for name, vector in vectors.items() if not vector.ndim]
    doubled = sorted(vectors.keys() & scalars.keys())
    for name in (*flat, *doubled):
        raise WireError(f"{name!r:.40} is no vector, or a vector and a number at once")
    return Message.of(vectors, scalars)


def _refuse_others(tensors: Mapping[str, Tensor], groups: tuple[str, ...]) -> None:
    """Refuse tensors that belong to no part of a message."""
    for name in tensors:
        if name.partition("/")[0] not in groups or "/" not in name:
            raise WireError(f"there is no place for a tensor {name!r:.40}")


def _under(group: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{group}/{name}": tensor for name, tensor in tensors.items()}


def _within(group: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{group}/"
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
