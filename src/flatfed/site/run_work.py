"""The work of one run at a site: clients trained, the model tested and delivered."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flatfed.core.configuration.config import build
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import FlatfedError, Interrupted
from flatfed.core.evaluation.evaluator import Evaluator, even_chunks
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Job, Reply, failure
from flatfed.core.method.messages import Message, pack
from flatfed.core.method.state import State
from flatfed.core.method.wire import WireError
from flatfed.core.model.layout import LOCAL_BUFFERS
from flatfed.core.randomness import key, key_global_generators
from flatfed.core.round.trainer import fresh_client_state
from flatfed.core.task.metrics import add_up, metric_values
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.sites.assignment import Assignment
from flatfed.engines.sites.versions import NEVER, handle, version_after, version_of
from flatfed.runs.records.files import replace_file
from flatfed.site.approved_parts import enter_approved
from flatfed.site.config import Site
from flatfed.site.data import NotAllowed, SiteData, task_for
from flatfed.site.permission import check_run
from flatfed.site.states import StateFiles

RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def states_of(site: Site, run: str) -> StateFiles:
    """Return the states of a site's clients in a run."""
    if not RUN.fullmatch(run):
        raise WireError(f"{run!r:.60} is no name of a run")
    return StateFiles(site.folder / "runs" / run)


class SiteWork:
    """One run as a site takes part in it: task, engine, and the states of the site's clients."""

    def __init__(self, data: bytes, site: Site, its_data: SiteData, pulse: Callable[[], None]) -> None:
        self.digest = hashlib.sha256(data).hexdigest()
        self.assignment = Assignment.from_bytes(data)
        self.states = states_of(site, self.assignment.run)
        enter_approved(self.assignment.parts, site.limits)
        self.algorithm = Algorithm.registry.from_dict(self.assignment.algorithm)
        settings = {name: value for name, value in self.assignment.settings.items() if name != "id"}
        self.settings = build(Settings, settings).replace(device=site.config.device, vectorised=False)
        check_run(self.assignment, self.algorithm, self.settings, its_data.counts, site.limits)
        self.task = task_for(self.assignment, site, its_data)
        self.own = self.assignment.clients_of(site.name)
        self._pulse = pulse
        self._engine = InProcessEngine(self.task, self.algorithm, self.settings, pulse)
        self._fresh = self._fresh_state()

    def _fresh_state(self) -> State:
        layout, dtype = self.task.layout(), self.settings.torch_dtype
        model = self.task.fresh_model(dtype)
        first = self.algorithm.at(0)
        return fresh_client_state(
            first, self.settings.at(0).base_opt, layout.read(model), layout.read_buffers(model, dtype), layout
        )

    def reply(self, message: Message, job: Job, oldest: int) -> Reply:
        """Do a client's job from the version of its state that counts; the new version is on disk before this returns.

        What goes wrong with one client is its reply, and leaves the others alone.
        """
        if job.client not in self.own:
            raise NotAllowed(f"client {job.client} is not at this site")
        version = version_of(job.kept)
        if version is None or job.shows_model:
            raise WireError("a job names no version of a state, or asks for a client's model")
        try:
            kept = self._kept(job.client, version)
            coming = version_after(job.round, job.attempt, job.exchange)
            self.states.forget(job.client, version, oldest, coming)
            here = replace(job, kept=kept)
            reply = next(iter(self._engine.exchange(message, [here])), None)
        except Interrupted:
            raise  # no fault of the client
        except FlatfedError as error:
            return failure(job, str(error))
        if reply is None:
            return failure(job, "no time was left for it")
        if reply.missing or reply.kept is None:
            return reply
        return replace(reply, kept=handle(self._keep(job, reply.kept)))

    def _kept(self, client: int, version: int) -> State:
        is_anew = self.states.is_anew(client, version)
        if is_anew or version == NEVER or not len(self._fresh):
            return self._fresh.copy()
        return self.states.read(client, version)

    def _keep(self, job: Job, state: State) -> int:
        """Keep a client's new state, where the method has any, and return its version."""
        version = version_after(job.round, job.attempt, job.exchange)
        if len(state):
            self.states.write(job.client, version, state)
        return version

    def test_metrics(self, message: Message, versions: Mapping[int, int]) -> dict[str, float]:
        """Return the metrics of a model on the site's own test examples: the mean over its clients' own layers."""
        evaluator = Evaluator(self.task, self.settings)
        results = [self._tested(evaluator, message, kept) for kept in self._own_layers(versions)]
        means = {name: sum(result[name] for result in results) / len(results) for name in results[0]}
        return means | {"examples": float(len(self.task.test))}

    def _own_layers(self, versions: Mapping[int, int]) -> list[State]:
        """Return the states whose layers the model is completed with: none where all of it is shared."""
        layout = self.task.layout()
        is_shared = layout.shared == layout.size
        is_shared &= layout.shared_buffers == sum(part.size for part in layout.buffers)
        if is_shared:
            return [State({})]
        return [self._kept(client, versions.get(client, NEVER)) for client in self.own]

    def _tested(self, evaluator: Evaluator, message: Message, kept: State) -> dict[str, float]:
        policy = "running" if LOCAL_BUFFERS in kept else evaluator.statistics
        parts = []
        for first, count in even_chunks(len(self.task.test), self.task.test_batch):
            self._pulse()
            evaluator.show(message.w, message.vectors, kept)
            key_global_generators(key(self.settings.seed, "site test", first))
            parts.append(evaluator.totals(self.task.test, first, count, policy))
        values = metric_values(self.task.metrics, add_up(parts))
        return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}

    def deliver(self, message: Message, round: int, versions: Mapping[int, int], folder: Path) -> list[Path]:
        """Write the model as tensors by the names that it has in torch; where layers stay at clients, one for each."""
        evaluator = Evaluator(self.task, self.settings)
        files: list[Path] = []
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number, kept in enumerate(self._own_layers(versions)):
            evaluator.show(message.w, message.vectors, kept)
            tensors = {name: tensor.detach().clone() for name, tensor in evaluator.oracle.model.state_dict().items()}
            suffix = f"-client-{self.own[number]}" if len(kept) else ""
            path = folder / f"{self.assignment.run}{suffix}.safetensors"
            replace_file(path, pack(tensors, self._about(round)))
            files.append(path)
        return files

    def _about(self, round: int) -> dict[str, str]:
        recipe = self.assignment.model
        return {"run": self.assignment.run, "round": str(round), "model": recipe.name, "classes": str(recipe.classes)}


def decoded_versions(facts: Mapping[str, object], own: Sequence[int]) -> dict[int, int]:
    """Return the versions that a request names for the site's clients."""
    given = facts.get("versions")
    if not isinstance(given, dict):
        return {}
    return {client: int(given[str(client)]) for client in own if isinstance(given.get(str(client)), int)}
