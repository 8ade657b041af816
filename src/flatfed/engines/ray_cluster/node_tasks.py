"""How nodes get the task: all of it is sent, or each reads the examples from its own disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from flatfed.core.errors import ConfigError, EngineError
from flatfed.core.task.task import Task
from flatfed.engines.pool.spreading import MAX_DEATHS
from flatfed.engines.ray_cluster.actor import Introduction
from flatfed.engines.ray_cluster.bare_task import Unreadable, read_at_node, without_examples
from flatfed.engines.ray_cluster.sending import as_array, tensors_as_arrays

T = TypeVar("T")


class NodeTasks(Protocol):
    """Where the actors of a node find the task."""

    def on(self, node: Introduction) -> Any:
        """Return the reference to the task for the actors of a node; it may still be on its way."""
        ...

    def lost(self, node: Introduction, task: Any) -> None:
        """Hear that an actor of a node ended before it had the task; raise an error where that must not go on."""
        ...


def node_tasks(task: Task, directory: str | None) -> NodeTasks:
    """Return the task for every node; with a directory, each node reads the examples from its own of that name."""
    return SentTask(task) if directory is None else ReadTask(task, directory)


class SentTask:
    """The whole task, put once: each node fetches it, and its actors read it where it lies."""

    def __init__(self, task: Task) -> None:
        import ray

        with tensors_as_arrays():
            self._task: Any = _sendable(lambda: ray.put(task))

    def on(self, node: Introduction) -> Any:
        """Return the one reference that there is."""
        return self._task

    def lost(self, node: Introduction, task: Any) -> None:
        """Nothing: another actor comes."""


class ReadTask:
    """The task without its examples, put once; on each node one process reads them for all of its actors."""

    def __init__(self, task: Task, directory: str) -> None:
        import ray

        origin = task.origin
        assert origin is not None
        self._ray: Any = ray
        self._directory = directory
        self._bare = ray.put(as_array(_sendable(lambda: without_examples(task, origin))))
        self._origin, self._fingerprint = origin.within(directory), origin.fingerprint()
        self._tasks: dict[str, Any] = {}
        self._losses: Counter[str] = Counter()

    def on(self, node: Introduction) -> Any:
        """Return the reference to the task of a node, which begins to read where it has not."""
        if node.node not in self._tasks:
            self._tasks[node.node] = self._read(node)
        return self._tasks[node.node]

    def _read(self, node: Introduction) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = self._ray.remote(
            # There and nowhere else: what it returns then lies in that node's object store.
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node, soft=False),
            # Besides the actors, which may have all cores.
            num_cpus=0,
            # Then its process ends: it holds the examples once more.
            max_calls=1,
            # An actor that comes later asks again.
            max_retries=0,
        )(read_at_node)
        return remote.remote(self._bare, self._origin, self._fingerprint)

    def lost(self, node: Introduction, task: Any) -> None:
        """Let the node read again for the next actor; one that is there and fails every time is an error."""
        if self._tasks.get(node.node) is not task:  # another of its actors has said so already
            return
        del self._tasks[node.node]
        self._losses[node.node] += 1
        if self._losses[node.node] >= MAX_DEATHS:
            raise EngineError(
                f"the node {node.host} could not read the examples from {self._directory}: the process that reads them "
                f"ended {MAX_DEATHS} times; it may need more memory than there is"
            )


def unreadable(node: Introduction, directory: str | None, answer: Unreadable) -> EngineError:
    """Return the error of a node that does not have the examples."""
    return EngineError(
        f"the node {node.host} cannot take the examples from {directory}: {answer.reason}. Have the same data on every "
        "node, or leave --node-data (node_data) out, and they are sent"
    )


def _sendable(send: Callable[[], T]) -> T:
    """Return what is made of a task to be sent; what cannot be sent is an error that says what to do."""
    try:
        return send()
    except ConfigError:
        raise
    except Exception as error:  # whatever in a task cannot be sent
        raise EngineError(
            f"this task cannot be sent to a cluster ({error}); define its model, loss and data sets at the top "
            "level of a module that the nodes have too"
        ) from error
