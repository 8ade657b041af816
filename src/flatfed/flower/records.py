"""Bytes in Flower's messages: one array, which Flower carries in pieces. No torch here, so that it is quick."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, RecordDict

NAME, ENTRY, KIND = "flatfed", "envelope", "bytes"


def to_records(data: bytes) -> RecordDict:
    """Return records that hold the bytes."""
    array = Array(dtype="uint8", shape=(len(data),), stype=KIND, data=data)
    return RecordDict({NAME: ArrayRecord({ENTRY: array})})


def from_records(records: RecordDict) -> bytes:
    """Return the bytes of some records; records that hold something else are a `ValueError`."""
    record = records.array_records.get(NAME)
    if record is None or ENTRY not in record:
        raise ValueError("this message holds nothing of flatfed")
    array = record[ENTRY]
    if array.stype != KIND:
        raise ValueError("this message holds an array of another kind")
    return bytes(array.data)
