"""A small federation of three sites, its simulation, and transports that lose or change what they carry."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import flatfed as ff
from engines.bench import PATIENCE, eventually, exact
from flatfed import models
from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError
from flatfed.core.method.engine import Engine, Job, Jobs, Reply, failure
from flatfed.core.method.envelope import Envelope
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.method.wire import decode_job
from flatfed.core.round.federation import TIMES
from flatfed.core.task.examples import Examples, PartExamples
from flatfed.data.storage.pool import Pool, image_pool
from flatfed.engines.choice import OwnEngine
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.sites.engine import EXCHANGE
from flatfed.engines.sites.sockets import SocketTransport
from flatfed.engines.sites.transport import Answer, NoAnswer, Pulse, Transport
from flatfed.engines.sites.versions import NEVER, version_of
from flatfed.experiments.federating.federate import FederatedRun, federate
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.play import play
from flatfed.experiments.running.run import Run
from flatfed.site.config import Site, site_of
from flatfed.site.data import SiteData
from flatfed.site.health import ask_health
from flatfed.site.listening import SiteProcess
from flatfed.site.service import SiteService
from flatfed.site.states import StateFiles

NAMES = ("a", "b", "c")
CLIENTS = {"a": 2, "b": 1, "c": 2}
SITE_OF = {0: "a", 1: "a", 2: "b", 3: "c", 4: "c"}
CLASSES, SIDE, TRAIN, TEST = 3, 4, 20, 9
SETTINGS: dict[str, Any] = {"rounds": 3, "lr": 0.1, "batch_size": 4, "weight_decay": 0.001}


def prepared(inputs: Tensor) -> Tensor:
    """Make inputs of a model of bytes."""
    return inputs.float() / 64 - 2


def pool(seed: int, classes: int = CLASSES, train: int = TRAIN) -> Pool:
    """Return a few small images of a site."""
    generator = torch.Generator().manual_seed(seed)

    def part(count: int) -> tuple[Tensor, Tensor]:
        images = torch.randint(0, 256, (count, 1, SIDE, SIDE), generator=generator, dtype=torch.uint8)
        return images, torch.arange(count) % classes

    return image_pool("tiny", part(train), part(TEST), classes, "logreg", prepared)


@functools.cache
def data_of(name: str) -> SiteData:
    """Return what lies at a site; no two sites have the same."""
    own = pool(NAMES.index(name) + 1, train=TRAIN + NAMES.index(name))
    return SiteData(own, [part.clone() for part in torch.arange(len(own.train)).tensor_split(CLIENTS[name])])


def site_in(home: Path, name: str, **content: Any) -> Site:
    """Return the configuration of a site in a folder."""
    return site_of({"site": name, "data": "digits", **content}, home, "site.yaml")


# --- sites in this process -----------------------------------------------------------------------------------------


class Direct:
    """Carries requests to services of this process."""

    def __init__(self, services: Mapping[str, SiteService]) -> None:
        self.services = dict(services)

    def addresses(self) -> list[str]:
        return sorted(self.services)

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        for address, request in requests.items():
            pulse()
            yield address, self.services[address].answer(request)


def service_in(home: Path, name: str, data: SiteData | None = None, **limits: Any) -> SiteService:
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    return SiteService(site_in(folder, name, limits=limits), data or data_of(name))


def services_in(home: Path) -> Direct:
    """Return three services and the way to them."""
    return Direct({name: service_in(home, name) for name in NAMES})


class Gated:
    """Real examples; while there is a gate (a file), whoever takes a batch waits, and a second file says so."""

    def __init__(self, examples: Examples, folder: Path) -> None:
        self.examples, self.gate, self.inside = examples, folder / "gate", folder / "inside"

    def __len__(self) -> int:
        return len(self.examples)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        while self.gate.exists():
            self.inside.touch()
            time.sleep(0.005)
        return self.examples.batch(indices)


# --- sites in processes of their own -------------------------------------------------------------------------------


@dataclass
class ForkedSite:
    """A site in a process that is forked from this one, which is quicker to start than a new interpreter."""

    home: Path
    name: str
    data: SiteData
    content: dict[str, Any] = field(default_factory=dict)
    process: Any = None

    @property
    def site(self) -> Site:
        return site_in(self.home, self.name, **self.content)

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=self._run, daemon=True)
        self.process.start()
        eventually(lambda: self.site.socket.is_socket() and self._answers(), f"site {self.name} listens")

    def _run(self) -> None:
        SiteProcess(self.site, self.data).run()
        os._exit(0)

    def _answers(self) -> bool:
        try:
            return bool(ask_health(self.site))
        except EngineError:
            return False

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.join(PATIENCE)

    def end(self) -> None:
        """End it, whatever its state."""
        if self.process is not None and self.process.is_alive():
            self.kill()

    def hold(self) -> None:
        """Let the next batch wait."""
        (self.home / "gate").touch()

    def is_held(self) -> bool:
        """Say whether a client is in the middle of its training, and waits."""
        return (self.home / "inside").exists()

    def let_go(self) -> None:
        (self.home / "gate").unlink(missing_ok=True)
        (self.home / "inside").unlink(missing_ok=True)

    def audit(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in (self.site.folder / "audit.jsonl").read_text().splitlines()]

    def restart(self) -> None:
        self.end()
        self.start()


@dataclass
class Forked:
    """Three sites in processes of their own."""

    home: Path
    sites: dict[str, ForkedSite] = field(default_factory=dict)

    def start(self) -> Forked:
        for name in NAMES:
            folder = self.home / name
            folder.mkdir()
            data = data_of(name)
            gated = replace(data.pool, train=Gated(data.pool.train, folder))
            self.sites[name] = ForkedSite(folder, name, replace(data, pool=gated))
            self.sites[name].start()
        return self

    def revive(self) -> None:
        """Start what was killed, and continue what was stopped."""
        for site in self.sites.values():
            site.let_go()
            if not site.process.is_alive():
                site.start()
            else:
                site.signal(signal.SIGCONT)

    def end(self) -> None:
        for site in self.sites.values():
            site.end()

    @property
    def transport(self) -> SocketTransport:
        return SocketTransport([self.address(name) for name in self.sites])

    def address(self, name: str) -> str:
        return str(self.sites[name].site.socket)


def short_folder() -> Path:
    """Return a new folder whose path is short enough for sockets in it."""
    return Path(tempfile.mkdtemp(prefix="ff-", dir="/tmp"))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


# --- what is carried is lost or changed ----------------------------------------------------------------------------

Moment = tuple[int, int, int]
"""Round, attempt and exchange."""
Change = Callable[[Answer], Answer]


def jobs_of(request: bytes) -> list[Job]:
    """Return the jobs in a request; none in one that is for something else."""
    envelope = Envelope.from_bytes(request)
    return [decode_job(part) for part in envelope.parts[2:]] if envelope.kind == EXCHANGE else []


def moment_of(request: bytes) -> Moment | None:
    jobs = jobs_of(request)
    return (jobs[0].round, jobs[0].attempt, jobs[0].exchange) if jobs else None


class Changed:
    """A real transport; what sites answer in some exchanges is changed, after something was done with them."""

    def __init__(self, transport: Transport, changes: Mapping[tuple[str, Moment], Change]) -> None:
        self.transport, self.changes = transport, dict(changes)
        self.before: dict[tuple[str, Moment], Callable[[], None]] = {}
        self.changed: list[tuple[str, Moment]] = []

    def addresses(self) -> list[str]:
        return self.transport.addresses()

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        moments = {address: moment_of(request) for address, request in requests.items()}
        for place in moments.items():
            self.before.get(place, lambda: None)()
        for address, answer in self.transport.ask(requests, seconds, limit, pulse):
            place = address, moments[address]
            if place in self.changes:
                self.changed.append(place)
                answer = self.changes[place](answer)
            yield address, answer


LOST = "the answer was lost"


def lose(answer: Answer) -> Answer:
    """Lose an answer that has come."""
    assert isinstance(answer, bytes), answer
    return NoAnswer(LOST)


class Losing:
    """A simulation that loses the replies of sites in the same exchanges, and whose clients begin anew in some."""

    def __init__(
        self, engine: Engine, lost: Mapping[tuple[str, Moment], str], anew: Set[tuple[int, Moment]] = frozenset()
    ) -> None:
        self.engine, self.lost, self.anew, self.gaps = engine, lost, anew, False
        self.fresh: dict[int, State] = {}

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        for job in list(jobs):
            fresh = self.fresh.setdefault(job.client, job.kept.copy())
            if (job.client, (job.round, job.attempt, job.exchange)) in self.anew:
                job = replace(job, kept=fresh.copy())
            reply = next(iter(self.engine.exchange(message, [job])))
            reason = self.lost.get((SITE_OF[job.client], (job.round, job.attempt, job.exchange)))
            yield failure(job, reason) if reason else reply

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        return self.engine.compute(*work)

    def close(self) -> None:
        self.engine.close()


# --- runs ----------------------------------------------------------------------------------------------------------


def wanted(method: str, out: Path, **changes: Any) -> FederatedRun:
    names = {name: changes.pop(name) for name in list(changes) if name in FederatedRun.__dataclass_fields__}
    return FederatedRun(method, SETTINGS | changes, **{"sites": NAMES, "out": out, "sampling": 4, **names})


def federated(transport: Transport, method: str, out: Path, **changes: Any) -> Run:
    return federate(wanted(method, out, **changes), transport)


def simulated(
    method: str,
    lost: Mapping[tuple[str, Moment], str] | None = None,
    sampling: int = 4,
    model: str = "logreg",
    local_layers: str | None = None,
    datas: Mapping[str, SiteData] | None = None,
    anew: Set[tuple[int, Moment]] = frozenset(),
    **changes: Any,
) -> Run:
    """Train the same clients in this process; replies are lost, and clients begin anew, where they do in the other."""
    datas = datas or {name: data_of(name) for name in NAMES}
    first = datas["a"].pool
    network = models.build(model, CLASSES, seed=0, **first.facts)
    clients = [PartExamples(data.pool.train, part) for data in datas.values() for part in data.parts]
    local = {"local": local_layers} if local_layers else {}
    task = ff.Task(network, clients, loss=first.loss, metrics=first.metrics, prepare=first.prepare, **local)
    spelled = parse_method(method)
    settings = Settings(**SETTINGS | {"vectorised": False} | changes)
    engine = Losing(InProcessEngine(task, spelled.algorithm, settings), lost or {}, anew)
    sampler = ff.Uniform(sampling)
    return play(Plan(task, spelled.algorithm, settings, sampler, spelled.average, OwnEngine(engine)), None)


BY_SITES = (*TIMES, "sites", "test_loss", "test_accuracy")
"""Times, and what is measured at the sites alone: the simulation has no test set."""


def rows(run: Run) -> list[str]:
    """Return the history as exact text, without times and without what only sites measure."""
    found = []
    for row in run.history:
        plain = {name: value for name, value in row.items() if name not in BY_SITES}
        found.append(json.dumps(plain, sort_keys=True))
    return found


def state_on_disk(run: Run, client: int, home: Path) -> dict[str, Any]:
    """Return the state of a client as its site has it, in the version that counts."""
    files = StateFiles(home / SITE_OF[client] / "state" / "runs" / run_name(run))
    version = version_of(run._federation.clients.read(client))
    assert version not in (None, NEVER)
    return files.read(client, version).tensors()


def run_name(run: Run) -> str:
    """Return how a run is called at the sites."""
    return run.directory.config["about"]["federation"]


def assert_same(run: Run, expected: Run, home: Path | None = None) -> None:
    """Compare a federation with its simulation to the bit."""
    assert rows(run) == rows(expected)
    assert exact(run.vector) == exact(expected.vector)
    assert exact(run.eval_vector) == exact(expected.eval_vector)
    assert exact(run.server_state) == exact(expected.server_state)
    assert run.status == expected.status
    if home is None:
        return
    for client in range(expected._federation.task.population):
        kept = expected._federation.clients.read(client).tensors()
        has_taken_part = any(client in row["clients"] for row in run.history)
        if kept and has_taken_part:
            assert exact(state_on_disk(run, client, home)) == exact(kept), client
