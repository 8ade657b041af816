"""Server and clients that share no memory, for any registered method: what crosses is bytes.

A `Site` is the clients' side. It is given everything in bytes, makes the method and the settings anew from JSON for
every single job, and keeps nothing of a client but bytes. A `WireEngine` is the server's end of the line to a site
in this process or, through a `Remote`, in another one.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor, nn

import flatfed as ff
from engines.bench import bits, exact
from flatfed.core.configuration.config import build, parameters
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser, client_slots
from flatfed.core.method.client import Client
from flatfed.core.method.engine import Engine, Held, Job, Reply, together
from flatfed.core.method.messages import Message, pack, unpack
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import State
from flatfed.core.model.devices import single_thread
from flatfed.core.model.layout import Local
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.trainer import Trainer, fresh_client_state
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import Run

# Small tasks, made anew at each call: two sides never hold the same tensors.

SIZES = (3, 5, 6, 8, 5)
COHORTS = ((0, 2, 3), (1, 3), (0, 2, 3), (1, 3), (0, 2))  # some come back with a state; client 4 is never asked
POPULATION = len(SIZES)
SETTINGS = {"lr": 0.1, "batch_size": 3, "lr_decay": 0.9, "seed": 7, "evaluate_every": 1, "vectorised": False}


def jittered(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.1 * torch.rand(inputs.shape, generator=generator)


TASKS: dict[str, tuple[bool, Local]] = {
    "plain": (False, Local()),
    "BatchNorm": (True, Local()),
    "BatchNorm local": (True, Local(types=(nn.BatchNorm1d,))),
    "BatchNorm statistics local": (True, Local(types=(nn.BatchNorm1d,), buffers_only=True)),
    "head local": (True, Local(names=("4.*",))),
}


def make_task(name: str) -> ff.Task:
    """A network that draws numbers (dropout, augmentation), over clients of unequal size."""
    normed, local = TASKS[name]
    generator = torch.Generator().manual_seed(3)
    data = [(torch.randn(n, 6, generator=generator), (torch.arange(n) + k) % 3) for k, n in enumerate(SIZES)]
    test = (torch.randn(9, 6, generator=generator), torch.arange(9) % 3)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        middle = [nn.BatchNorm1d(5)] if normed else []
        model = nn.Sequential(nn.Linear(6, 5), *middle, nn.Tanh(), nn.Dropout(0.2), nn.Linear(5, 3))
    return ff.Task(model=model, clients=data, test=test, augment=jittered, local=local, name=name)


# Every method, and its variants.


def ours(registry: Mapping[str, type[Any]]) -> list[str]:
    """The ids of the package's own classes; tests register others."""
    return sorted(id for id, cls in registry.items() if cls.__module__.startswith("flatfed."))


METHODS = ours(Algorithm.registry)
FEDERATED = [id for id in METHODS if not Algorithm.registry[id].pooled]
OPTIMISERS = ours(ClientOptimiser.registry)
AVERAGES = ours(Average.registry)
AVERAGE_VALUES = {"swa": {"start": 0.0, "cycle": 2, "lr_low": 0.01}, "wima": {"window": 2}}


def average(id: str | None) -> Average | None:
    """An average that has begun after two rounds and differs from the model after three and after five."""
    return Average.registry.make(id, **AVERAGE_VALUES.get(id, {})) if id else None


def takes_optimiser(id: str) -> bool:
    return "client_opt" in parameters(Algorithm.registry[id])


def rich(id: str) -> Algorithm:
    """A method with its defaults, and with two passes a step where it lets one choose."""
    return ff.make(id, **({"client_opt": "asam"} if takes_optimiser(id) else {}))


def drifting(id: str) -> Algorithm:
    """A method with every real parameter that may change on a schedule over the rounds."""
    allowed, values = Algorithm.registry[id].schedules, ff.make(id).to_dict()
    real = [n for n, v in values.items() if isinstance(v, float) and (allowed is True or (allowed and n in allowed))]
    return ff.make(id, **{name: f"decay({values[name]!r}, 0.9)" for name in real})


@functools.cache
def variants(id: str) -> list[Algorithm]:
    """A method with its defaults, each client optimiser, schedules, and the parameter sets of the methods' table."""
    from methods.bench import algorithm
    from methods.table import rows

    optimisers = OPTIMISERS if takes_optimiser(id) else []
    made = [ff.make(id), *(ff.make(id, client_opt=optimiser) for optimiser in optimisers), drifting(id)]
    made += [algorithm(case) for case in rows() if case.row.id == id]
    return list({json.dumps(method.to_dict()): method for method in made}.values())


@functools.cache
def short_variants(id: str) -> list[Algorithm]:
    """Those of its variants that a short design takes: schedules, and each parameter set with some client optimiser."""
    from methods.bench import algorithm
    from methods.designs import spread

    return [drifting(id), *(algorithm(case) for case in spread() if case.row.id == id)]


def numbered_variants(ids: Iterable[str]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Every variant by method and number, and those of the short design: two of each method."""
    from methods.designs import few

    whole, short = [], []
    for id in ids:
        chosen = [method.to_dict() for method in short_variants(id)]
        for number, method in enumerate(variants(id)):
            whole.append((id, number))
            if method.to_dict() in chosen:
                short.append((id, number))
    return whole, few(short, lambda pair: pair[0], 2)


def with_other_states(id: str) -> list[Algorithm]:
    """The variants that keep different things, one of each kind."""
    made = [(m.at(0), m) for m in reversed(variants(id))]
    return list(
        {(*a.server_state(), "/", *client_slots(a, ff.SGDStep()), "/", *a.records()): m for a, m in made}.values()
    )


# Playing.


def plan(method: Algorithm, task: str, averaged: str | None = None, rounds: int = 3) -> Plan:
    settings = Settings(rounds=rounds, **SETTINGS)
    return Plan(make_task(task), method, settings, ff.Replay(COHORTS), average(averaged), workers=0)


def everything(run: Run) -> dict[str, Any]:
    """All that a run has come to, down to the bits: also what the server keeps about single clients."""
    records = run._federation.records
    kept = {client: exact(records.read(client).tensors()) for client in records.known()}
    known, population = run._federation.clients.known(), run._federation.task.population
    return bits(run, population) | {"records": kept, "known": known}


def play(plan: Plan, engine: Engine) -> dict[str, Any]:
    """Play all rounds on an engine."""
    with single_thread():
        federation = plan.federation(engine)
        return everything(Run(federation, list(federation.rounds()), None))


def plainly(plan: Plan) -> Engine:
    return InProcessEngine(plan.task, plan.algorithm, plan.settings)


_REFERENCES: dict[tuple[str, str, str | None], dict[str, Any]] = {}


def reference(method: Algorithm, task: str, averaged: str | None = None) -> dict[str, Any]:
    """What the plain engine makes of it; played once for all the tests that compare with it."""
    key = (json.dumps(method.to_dict()), task, averaged)
    if key not in _REFERENCES:
        asked = plan(method, task, averaged)
        _REFERENCES[key] = play(asked, plainly(asked))
    return _REFERENCES[key]


# The clients' side.


def method_from(text: str) -> Algorithm:
    """A method from its JSON; the cheats of these tests are found too."""
    data = json.loads(text)
    cheat = CHEATS.get(data["id"])
    return cheat() if cheat else Algorithm.registry.from_dict(data)


def settings_from(text: str) -> Settings:
    return build(Settings, {name: value for name, value in json.loads(text).items() if name != "id"})


def plain_fields(item: Job | Reply) -> bytes:
    """The numbers of a job or a reply, as JSON."""
    names = [field.name for field in fields(item) if field.name not in ("kept", "personal", "message")]
    return json.dumps({name: getattr(item, name) for name in names}).encode()


Parts = tuple[bytes, bytes, bytes]


class Site:
    """The clients: between two jobs nothing is left of one but its state and this round's messages, as bytes."""

    def __init__(self, task: bytes, method: bytes, settings: bytes) -> None:
        self._method, self._settings = method.decode(), settings.decode()
        whole = make_task(task.decode())
        self._task = whole.pooled() if method_from(self._method).pooled else whole
        self._states: dict[int, bytes] = {}
        self._held: dict[int, Held[bytes]] = {}

    def work(self, header: bytes, common: bytes, personal: bytes) -> Parts:
        """Do a job; return the reply's numbers, its message and the client's new state."""
        reported = json.loads(header)
        client = reported["client"]
        held = self._held.setdefault(client, Held()).receive(reported["round"], reported["exchange"], common)
        message = together(map(Message.from_bytes, held))
        trainer = Trainer(self._task, method_from(self._method), settings_from(self._settings))
        job = Job(**reported, kept=self._state(client, trainer), personal=Message.from_bytes(personal))
        with single_thread(), preserved_global_state():
            reply = trainer.run(message, job)
        self._states[client] = pack(reply.kept.tensors())
        answer = plain_fields(reply), reply.message.to_bytes(), self._states[client]
        spoil([*tensors_in(message, job.personal, reply.message, reply.kept), trainer.oracle.w])
        return answer

    def _state(self, client: int, trainer: Trainer) -> State:
        if client in self._states:
            return State(unpack(self._states[client]))
        first, oracle = trainer.algorithm.at(0), trainer.oracle
        return fresh_client_state(first, ff.SGDStep(), oracle.w.clone(), oracle.initial_buffers, oracle.layout)


Work = Callable[[bytes, bytes, bytes], Parts]


def opening(plan: Plan) -> Parts:
    """What a site is given before the first round; of the task, its name."""
    return (
        plan.task.name.encode(),
        json.dumps(plan.algorithm.to_dict()).encode(),
        json.dumps(plan.settings.to_dict()).encode(),
    )


def serve(line: Connection) -> None:
    """Be the clients' side at the end of a pipe, until it is closed."""
    site: Site | None = None
    while True:
        try:
            kind, *parts = [line.recv_bytes() for _ in range(4)]
        except EOFError:
            return
        try:
            if kind == b"open":
                site, answer = Site(*parts), (b"", b"", b"")
            else:
                assert site is not None
                answer = site.work(*parts)
            outcome = b"done"
        except Exception as error:
            outcome, answer = b"failed", (f"{type(error).__name__}: {error}".encode(), b"", b"")
        for part in (outcome, *answer):
            line.send_bytes(part)


class Remote:
    """A site in a process of its own, started afresh: nothing of this one is in it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def open(self, parts: Parts) -> Work:
        """Begin a run there."""
        self._ask(b"open", *parts)
        return functools.partial(self._ask, b"work")

    def _ask(self, kind: bytes, *parts: bytes) -> Parts:
        for part in (kind, *parts):
            self._line.send_bytes(part)
        outcome, *answer = [self._line.recv_bytes() for _ in range(4)]
        if outcome != b"done":
            raise ff.EngineError(answer[0].decode())
        return answer[0], answer[1], answer[2]

    def close(self) -> None:
        self._line.close()
        self.process.join()


# The server's side.


@dataclass(frozen=True)
class Crossing:
    """What one job sent over the line, read off the bytes."""

    round: int
    exchange: int
    down: tuple[bytes, bytes]  # for all, and for this client
    up: bytes
    watched: int  # numbers for the history that go up with the message


def payload(data: bytes) -> int:
    """Bytes of the tensors in a wire message, without its header."""
    return len(data) - 8 - int.from_bytes(data[:8], "little")


class WireEngine:
    """Turns what goes down into bytes, and the bytes that come up into replies; evaluates on the server's side.

    Meanwhile the server's own copies hold garbage, so that a client which could reach them would be found out.
    """

    gaps = False

    def __init__(self, plan: Plan, work: Work) -> None:
        self._work, self._own = work, plainly(plan)
        self._states: dict[int, bytes] = {}
        self.crossings: list[Crossing] = []

    def exchange(self, message: Message, jobs: Iterable[Job]) -> Iterator[Reply]:
        common = message.to_bytes()
        for job in jobs:
            assert pack(job.kept.tensors()) == self._states.get(job.client, pack(job.kept.tensors()))
            personal = job.personal.to_bytes()
            with spoilt(tensors_in(message, job.personal, job.kept)):
                reported, answer, self._states[job.client] = self._work(plain_fields(job), common, personal)
            numbers, kept = json.loads(reported), State(unpack(self._states[job.client]))
            watched = len(numbers.get("watch", ()))
            self.crossings.append(Crossing(job.round, job.exchange, (common, personal), answer, watched))
            yield Reply(**numbers, message=Message.from_bytes(answer), kept=kept)

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        return self._own.compute(*work)

    def close(self) -> None:
        self._own.close()


def through_bytes(plan: Plan) -> WireEngine:
    """The engine whose clients are in this process, behind bytes."""
    return WireEngine(plan, Site(*opening(plan)).work)


# Garbage.


def tensors_in(*items: Message | State) -> list[Tensor]:
    return [t for item in items for t in (item.vectors if isinstance(item, Message) else item.tensors()).values()]


def spoil(tensors: Iterable[Tensor]) -> None:
    """Overwrite, behind torch's back: what is no copy now holds garbage."""
    for tensor in tensors:
        tensor.numpy()[...] = float("nan") if tensor.is_floating_point() else -1


@contextmanager
def spoilt(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Garbage for a while; then every bit is put back."""
    saved = [(tensor, tensor.clone()) for tensor in tensors]
    spoil(tensor for tensor, _ in saved)
    try:
        yield
    finally:
        for tensor, value in saved:
            tensor.numpy()[...] = value.numpy()


class SpoilingEngine:
    """The plain engine, but whatever passed between the sides is garbage as soon as it has been read."""

    gaps = False

    def __init__(self, plan: Plan) -> None:
        self._plain, self._held = plainly(plan), Held[Message]()
        self._trainer = Trainer(plan.task, plan.algorithm, plan.settings)
        self._given: list[Message] = []  # to the server, in the round before

    def exchange(self, message: Message, jobs: Iterable[Job]) -> Iterator[Reply]:
        """Every client gets a copy that is spoilt when it has replied; the server's are spoilt a round later."""
        first = True
        for job in jobs:
            if first and job.exchange == 0:  # counters excepted: the server's are those of the first reply
                spoil(t for given in self._given for name, t in given.vectors.items() if name != "counters")
                self._given = []
            if first:
                self._given.append(message)
            first = False
            received = together(self._held.receive(job.round, job.exchange, message)).copy()
            with single_thread(), preserved_global_state():
                reply = self._trainer.run(received, job)
            good = Reply(**json.loads(plain_fields(reply)), message=reply.message.copy(), kept=reply.kept.copy())
            spoil(tensors_in(received, job.personal, job.kept, reply.message, reply.kept))
            self._given.append(good.message)
            yield good

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        return self._plain.compute(*work)

    def close(self) -> None:
        self._plain.close()


# Methods that cheat: each finds a way across, or through time, that is no message and no declared state.

LEFT: dict[Any, Tensor] = {}


class LeavesOnItself(Algorithm):
    """The client leaves its model on the method's object, where the server finds it."""

    def finish(self, client: Client) -> Message:
        object.__setattr__(self, "left", client.w.clone())
        return super().finish(client)

    def update(self, server: Server, replies: Replies) -> None:
        super().update(server, replies)
        server.w = server.w + 0.1 * getattr(self, "left", torch.zeros(1))[: len(server.w)]


class LeavesInModule(Algorithm):
    """The client leaves its model in a variable of this module, where the server finds it."""

    def finish(self, client: Client) -> Message:
        LEFT["w"] = client.w.clone()
        return super().finish(client)

    def update(self, server: Server, replies: Replies) -> None:
        super().update(server, replies)
        server.w = server.w + 0.1 * LEFT.pop("w", torch.zeros(1))[: len(server.w)]


class RemembersOnItself(Algorithm):
    """The client holds on to the model it received, on the method's object instead of in a declared state."""

    def begin(self, client: Client) -> None:
        memory = self.__dict__.setdefault("memory", {})
        client.memo.last = memory.get(client.id, client.start)
        memory[client.id] = client.received.w

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        return gradient + 0.1 * (client.w - client.memo.last)


class RemembersOnModel(Algorithm):
    """The client remembers something on the model that all clients of a process share."""

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        steps = getattr(client._oracle.model, "steps", 0) + 1
        client._oracle.model.steps = steps
        return gradient * (1 + 0.1 * steps)


class WritesReceived(Algorithm):
    """The client changes what it received, where torch does not notice: the next client receives it so."""

    def begin(self, client: Client) -> None:
        client.received.w.numpy()[...] *= 1.01


CHEATS: dict[str, type[Algorithm]] = {}
for _cheat in (LeavesOnItself, LeavesInModule, RemembersOnItself, RemembersOnModel, WritesReceived):
    _cheat.id = f"cheat-{_cheat.__name__}"  # not in the registry: other tests go through that
    CHEATS[_cheat.id] = _cheat
