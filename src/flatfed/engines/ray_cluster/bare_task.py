"""A task on its way without its examples: each node puts in those that it has itself."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from flatfed.core.errors import PARAMETER, AboutParameter, ConfigError
from flatfed.core.task.examples import Examples
from flatfed.core.task.origin import Origin
from flatfed.core.task.task import Task
from flatfed.engines.ray_cluster.sending import keep_tensors_as_arrays


@dataclass(frozen=True)
class Unreadable:
    """A node cannot have the examples of the task from its own disk."""

    reason: str


def without_examples(task: Task, origin: Origin) -> bytes:
    """Return a task with names in the places of the examples that come from the origin.

    Everything else is in it, bit for bit: the model, who holds which examples, and a test set of another source.
    """
    examples = origin.examples()
    # Alone first: a task may have got other clients, and kept the test sets.
    _, names = _pickled(task.clients, examples)
    if not names:
        raise ConfigError(
            "the clients' examples are not those of the data set that the task was made from, so they must be sent to "
            f"the nodes; leave {PARAMETER} out",
            parameter="node_data",
        )
    return _pickled(task, examples)[0]


def with_examples(data: bytes, examples: Mapping[str, Examples]) -> Task:
    """Undo `without_examples` with the examples of this machine."""
    return cast(Task, _FindingUnpickler(io.BytesIO(data), examples).load())


def _pickled(thing: Any, examples: Mapping[str, Examples]) -> tuple[bytes, set[str]]:
    """Return something with names in the places of examples, as Ray would send it, and the names."""
    from ray.cloudpickle import CloudPickler

    # By the object: whatever holds it, a partition, clients that are pooled, a corruption of a test set.
    known = {id(each): name for name, each in examples.items()}
    met: set[str] = set()

    def name_of(pickler: Any, thing: Any) -> str | None:
        name = known.get(id(thing))
        if name is not None:
            met.add(name)
        return name

    pickler: Any = type("NamingPickler", (CloudPickler,), {"persistent_id": name_of})
    buffer = io.BytesIO()
    pickler(buffer).dump(thing)
    return buffer.getvalue(), met


class _FindingUnpickler(pickle.Unpickler):
    """Puts examples in the place of their names."""

    def __init__(self, file: io.BytesIO, examples: Mapping[str, Examples]) -> None:
        super().__init__(file)
        self._examples = examples

    def persistent_load(self, name: str) -> Examples:
        """Return the examples of a name."""
        return self._examples[name]


def read_at_node(data: Any, origin: Origin, fingerprint: str) -> Task | Unreadable:
    """Return the task with the examples of this node; it lies in the node's object store for all of its actors."""
    keep_tensors_as_arrays()
    return read(data.tobytes(), origin, fingerprint)


def read(data: bytes, origin: Origin, fingerprint: str) -> Task | Unreadable:
    """Return the task with the examples of an origin, which must have this fingerprint."""
    try:
        if origin.fingerprint() != fingerprint:
            return Unreadable("they are not the examples of this run")
        return with_examples(data, origin.examples())
    except Exception as error:  # whatever can be wrong with files
        return Unreadable(_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, AboutParameter) and error.parameter == "data_dir":
        return error.worded("--node-data")
    if isinstance(error, ConfigError):
        return str(error)
    return f"{type(error).__name__}: {error}"
