"""The pool of actors: started where there is room, given work, replaced when they or their nodes die."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError, EngineError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import tell
from flatfed.core.method.messages import Message, pack, unpack
from flatfed.core.method.wire import decode_reply, encode_job
from flatfed.core.round.trainer import Pulse
from flatfed.core.task.task import Task
from flatfed.engines.pool.spreading import POLL_SECONDS
from flatfed.engines.pool.work import Begun, ComputeWork, Died, Failed, Outcome, T, TrainWork, Work, WorkResult
from flatfed.engines.ray_cluster.actor import Array, ClusterWorker, Introduction, arithmetic
from flatfed.engines.ray_cluster.bare_task import Unreadable
from flatfed.engines.ray_cluster.cluster import LOCAL, Cluster
from flatfed.engines.ray_cluster.config import Ray, parsed_resources
from flatfed.engines.ray_cluster.node_tasks import node_tasks, unreadable
from flatfed.engines.ray_cluster.sending import as_array

LOOK_SECONDS = 1.0
"""How often the pool looks whether nodes have joined."""


@dataclass(eq=False)
class ActorHandle:
    """One actor as the server sees it: `coming` until it has introduced itself, then until it has its task."""

    actor: Any
    coming: Any
    about: Introduction | None = None
    task: Any = None
    is_ready: bool = False
    answer: Any = None
    begun: bool = False


@dataclass(frozen=True)
class SentMessage:
    """What an exchange sends to all: a name that tells it from every other, and where it lies."""

    name: str
    data: Any


class ActorPool:
    """Actors for one task; they come and go with the nodes of the cluster."""

    def __init__(self, cluster: Cluster, task: Task, algorithm: Algorithm, settings: Settings, config: Ray) -> None:
        import ray

        self._ray: Any = ray
        self._cluster, self._config, self._settings = cluster, config, settings
        self._resources = parsed_resources(config.resources)
        self._tasks = node_tasks(task, config.node_data)
        self._algorithm = algorithm
        self._handles: list[ActorHandle] = []
        self._names = itertools.count()
        self._looked, self._enough = 0.0, time.monotonic()
        self._told: set[str] = set()
        self._last_news = ""
        self._refuse_no_room()
        self._fill()

    def _refuse_no_room(self) -> None:
        """Refuse workers that are too large for this machine; other clusters may get larger nodes."""
        if self._cluster.room_for(self._resources):
            return
        if self._cluster.address == LOCAL:
            raise ConfigError(
                f"{PARAMETER}: this machine has no room for a worker with {self._config.resources}; ask for less",
                parameter="resources",
            )
        tell(f"no node of the cluster has room for a worker with {self._config.resources}; waiting for one")

    # Who there is.

    @property
    def workers(self) -> list[ActorHandle]:
        """The actors that are ready."""
        return [handle for handle in self._handles if handle.is_ready]

    @property
    def description(self) -> str:
        """How many actors there are, and on how many nodes, for people."""
        nodes = {handle.about.node for handle in self.workers if handle.about is not None}
        coming = len(self._handles) - len(self.workers)
        actors = _counted(len(self.workers), "actor")
        text = f"Ray ({self._cluster.address}): {actors} on {_counted(len(nodes), 'node')}"
        return f"{text}, {coming} more to come" if coming else text

    def wait_for_the_first(self, pulse: Pulse) -> None:
        """Wait until there are as many as the run needs at least."""
        while len(self.workers) < self._config.minimum:
            pulse()
            self.wait((), POLL_SECONDS)
        self._tell()

    def _fill(self) -> None:
        """Start actors up to the number that is asked for, or for which there is room."""
        self._looked = time.monotonic()
        while len(self._handles) < self._wanted():
            self._handles.append(self._start())

    def _wanted(self) -> int:
        if self._config.workers is not None:
            return self._config.workers
        return max(self._config.minimum, self._cluster.room_for(self._resources))

    def _start(self) -> ActorHandle:
        """Ask for an actor; it comes when a node has room for it."""
        others = {name: amount for name, amount in self._resources.items() if name not in ("CPU", "GPU")}
        remote = self._ray.remote(
            num_cpus=self._resources.get("CPU", 0),
            num_gpus=self._resources.get("GPU", 0),
            resources=others or None,
            # Jobs would go to an actor that is still being restarted: the pool has another come in its place.
            max_restarts=0,
        )(ClusterWorker)
        actor = remote.remote(self._algorithm, self._settings)
        return ActorHandle(actor, actor.introduce.remote())

    def _look(self) -> None:
        """Welcome actors that are ready, drop those that have died, and start others where there is room."""
        for handle in self._coming():
            if self._ready([handle.coming]):
                self._welcome(handle)
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._fill()
        if not self._coming():
            self._tell()
        self._refuse_too_few()

    def _coming(self) -> list[ActorHandle]:
        """Return the actors that are on their way, or take their task."""
        return [handle for handle in self._handles if not handle.is_ready]

    def _tell(self) -> None:
        """Say how many workers there are, where that has changed."""
        news = self.description
        if news != self._last_news:
            self._last_news = news
            tell(news)

    def _welcome(self, handle: ActorHandle) -> None:
        """Hear an actor that is not ready: first who it is, and then whether it has its task."""
        try:
            answer = self._ray.get(handle.coming)
        except self._ray.exceptions.RayError as error:
            self._turn_away(handle, error)
            return
        if isinstance(answer, Introduction):
            self._compare(answer)
            handle.about = answer
            handle.task = self._tasks.on(answer)
            handle.coming = handle.actor.take.remote(handle.task)
        elif isinstance(answer, Unreadable):
            raise unreadable(cast(Introduction, handle.about), self._config.node_data, answer)
        else:
            handle.is_ready = True

    def _turn_away(self, handle: ActorHandle, error: Exception) -> None:
        """Let another come for an actor that ended before it was ready; an error of our own code would come again."""
        if self._is_raised(error):
            raise EngineError(f"a worker could not be started on the cluster: {_first_line(error)}") from error
        self.kill(handle)
        if handle.about is not None:
            self._tasks.lost(handle.about, handle.task)

    def _is_raised(self, error: Exception) -> bool:
        """Say whether code has raised an error, and not Ray because a process or a node is gone."""
        errors = self._ray.exceptions
        # Of an actor whose task got lost, the cause is an error of Ray's.
        return isinstance(error, errors.RayTaskError) and not isinstance(error.cause, errors.RayError)

    def _compare(self, about: Introduction) -> None:
        """Refuse a node with another flatfed, and tell of one whose arithmetic rounds otherwise."""
        here = arithmetic()
        others = {name: value for name, value in about.arithmetic.items() if value != here[name]}
        if "flatfed" in others:
            raise EngineError(
                f"the node {about.host} has flatfed {others['flatfed']}, and here is {here['flatfed']}; install the "
                "same version on every node"
            )
        if others and about.node not in self._told:
            self._told.add(about.node)
            listed = ", ".join(f"{name} {value}, here {here[name]}" for name, value in others.items())
            warnings.warn(
                f"the node {about.host} agrees with this one to rounding, not to the bit: {listed}", stacklevel=2
            )

    def _refuse_too_few(self) -> None:
        """Stop where there have been too few actors for too long."""
        now = time.monotonic()
        if len(self.workers) >= self._config.minimum or self._is_reading():
            self._enough = now
            return
        if now - self._enough <= self._config.patience:
            return
        raise EngineError(
            f"the Ray cluster at {self._cluster.address} has had {len(self.workers)} workers with "
            f"{self._config.resources}, fewer than {self._config.minimum}, for {self._config.patience:g} s; "
            "add nodes, ask for less, or give it more patience"
        )

    def _is_reading(self) -> bool:
        """Say whether actors have come whose node still reads the examples: that takes as long as it takes."""
        # Each once: the actors of a node have one task.
        tasks = list({handle.task for handle in self._coming() if handle.task is not None})
        return len(self._ready(tasks)) < len(tasks)

    # What gets to them.

    def send(self, message: Message, exchange: int) -> SentMessage:
        """Put the message into the object store, once for all clients of an exchange."""
        return SentMessage(f"{next(self._names)}", self._ray.put(as_array(message.to_bytes())))

    def share(self, tensors: Mapping[str, Tensor]) -> Any:
        """Put what a computation is given into the object store."""
        return self._ray.put(as_array(pack(tensors)))

    def release(self, shared: Any) -> None:
        """Nothing: the store lets go of what nobody refers to."""

    def give(self, worker: ActorHandle, work: Work[Any]) -> bool:
        """Call the actor; whether it is there shows in its answer."""
        worker.begun = isinstance(work, ComputeWork)  # which has no bound in time
        if isinstance(work, ComputeWork):
            worker.answer = worker.actor.compute.remote(work.given, work.piece, work.item)
            return True
        assert isinstance(work, TrainWork)
        jobs = [as_array(encode_job(job)) for job in work.jobs]
        names, data = [sent.name for sent in work.held], [sent.data for sent in work.held]
        worker.answer = worker.actor.train.remote(jobs, names, *data)
        return True

    # What comes back.

    def wait(self, workers: Collection[ActorHandle], seconds: float) -> list[ActorHandle]:
        """Wait for answers, or for actors that come."""
        # A work has a time from when it is given: an actor that is ready begins at once.
        fresh = [worker for worker in workers if not worker.begun]
        if fresh:
            return fresh
        answers = {worker.answer: worker for worker in workers}
        coming = [handle.coming for handle in self._coming()]
        if answers or coming:
            self._ray.wait([*answers, *coming], num_returns=1, timeout=seconds)
        else:
            time.sleep(seconds)
        self._look()
        return [answers[answer] for answer in self._ready(list(answers))]

    def has_answered(self, worker: ActorHandle) -> bool:
        """Say whether an answer, or the news of a death, is there."""
        return bool(self._ready([worker.answer]))

    def _ready(self, references: list[Any]) -> list[Any]:
        if not references:
            return []
        ready: list[Any] = self._ray.wait(references, num_returns=len(references), timeout=0)[0]
        return ready

    def take(self, worker: ActorHandle, work: Work[T]) -> Outcome[T]:
        """Return what an actor has to say of its work."""
        if not worker.begun:
            worker.begun = True
            return Begun()
        try:
            answer = self._ray.get(worker.answer)
        except self._ray.exceptions.RayError as error:
            return Died(_first_line(error), self._is_blamed(worker))
        if isinstance(answer, Failed):
            return answer
        return WorkResult(cast(T, _read(work, answer)))

    def _is_blamed(self, worker: ActorHandle) -> bool:
        """Say whether a work may have killed its actor; if the node is gone, it has not."""
        return worker.about is not None and self._cluster.is_alive(worker.about.node)

    # The end of them.

    def replace(self, worker: ActorHandle) -> None:
        """Have another actor come in the place of one that is gone."""
        self.kill(worker)
        self._fill()

    def kill(self, worker: ActorHandle) -> None:
        """End an actor at once."""
        self._ray.kill(worker.actor)
        if worker in self._handles:
            self._handles.remove(worker)

    def steps(self) -> int:
        """Return 0: actors tell of their steps when a client is done."""
        return 0

    def close(self) -> None:
        """End the actors and leave the cluster."""
        for handle in list(self._handles):
            self.kill(handle)
        self._cluster.leave()


def _read(work: Work[Any], answer: Any) -> Any:
    if isinstance(work, ComputeWork):
        return work.number, unpack(cast(Array, answer).tobytes())
    return [decode_reply(reply.tobytes()) for reply in answer]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
