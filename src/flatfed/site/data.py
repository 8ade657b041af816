"""A site's data, and the task that it makes of an assignment: its own clients have examples, others are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed import models
from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples, PartExamples
from flatfed.core.task.roster import Roster
from flatfed.core.task.task import Task
from flatfed.data.catalogue import load
from flatfed.data.directory import DataDirectory
from flatfed.data.partition import Partitioner
from flatfed.data.storage.pool import Pool
from flatfed.engines.sites.assignment import Assignment
from flatfed.experiments.tasks.recipe import task_over
from flatfed.named_code import USER
from flatfed.outside.named_parts import with_ids
from flatfed.site.config import Site


class NotAllowed(ConfigError):
    """Something that a server asks for and the site does not allow, or cannot do."""


@dataclass(frozen=True)
class SiteData:
    """What lies at a site: a pool of examples, and which of them each of its clients holds."""

    pool: Pool
    parts: Sequence[Tensor]

    @property
    def counts(self) -> list[int]:
        """The number of examples of each client."""
        return [len(part) for part in self.parts]

    @property
    def facts(self) -> dict[str, Any]:
        """What a server must know to build a model; no example, and no number of a class."""
        return {
            "classes": self.pool.classes,
            "facts": dict(self.pool.facts),
            "class_names": list(self.pool.class_names),
            "default_model": self.pool.default_model,
        }


def load_data(site: Site) -> SiteData:
    """Load a site's examples and divide them among its clients."""
    options = _with_paths(site)
    pool = load(site.config.data, site.config.data_dir, **options)
    if pool.is_estimated:
        raise ConfigError(
            f"{pool.name}: inputs would be scaled by this site's own rows, and another site's otherwise; give what all "
            "sites agreed on: data.preprocessing=FILE"
        )
    return SiteData(pool, [torch.as_tensor(np.asarray(part), dtype=torch.int64) for part in _parts(site, pool)])


def _with_paths(site: Site) -> dict[str, Any]:
    """Return the options of the data, files among them as seen from the site's folder."""
    options: dict[str, Any] = {}
    for name, value in site.data_options.items():
        is_here = isinstance(value, str) and value and (site.home / value).exists()
        options[name] = str(site.home / value) if is_here else value
    return options


def _parts(site: Site, pool: Pool) -> Sequence[Any]:
    if site.config.partition is None:
        if site.config.clients not in (None, 1):
            raise ConfigError("clients: name the partition too, such as iid, or leave clients out for one")
        return [np.arange(len(pool.train))]
    named = with_ids(site.config.partition, [Partitioner.registry], USER)
    partitioner = Partitioner.registry.make(named).within(DataDirectory(site.config.data_dir))
    groups = {name: np.asarray(numbers) for name, numbers in pool.groups.items()}
    return partitioner.divide(np.asarray(pool.labels), groups, site.config.clients, 0)


class SiteClients(Roster):
    """The clients of a whole federation as one site sees them: its own have examples."""

    def __init__(self, data: SiteData, own: range, counts: Sequence[int]) -> None:
        super().__init__(counts)
        self._own = {client: PartExamples(data.pool.train, part) for client, part in zip(own, data.parts, strict=True)}

    def _examples(self, client: int) -> Examples:
        if client in self._own:
            return self._own[client]
        return super()._examples(client)


def task_for(assignment: Assignment, site: Site, data: SiteData) -> Task:
    """Return the task of a run as this site trains it; what does not fit its data is refused."""
    own = assignment.clients_of(site.name)
    _check(assignment, site.name, own, data)
    recipe, pool = assignment.model, data.pool
    facts: dict[str, Any] = dict(pool.facts)
    model = models.build(recipe.name, pool.classes, seed=recipe.seed, options=recipe.options, **facts)
    clients = SiteClients(data, own, assignment.counts)
    return task_over(pool, model, clients, recipe.augment, recipe.local_layers, name=pool.name)


def _check(assignment: Assignment, name: str, own: range, data: SiteData) -> None:
    """Refuse an assignment that does not fit what lies here."""
    if not own:
        raise NotAllowed(f"the site {name} is not in this run")
    counts = [assignment.counts[client] for client in own]
    if counts != data.counts:
        raise NotAllowed(
            f"the run was begun when this site had {counts} examples, and now it has {data.counts}; put the data back, "
            "or begin a new run"
        )
    model = assignment.model
    if (model.classes, model.facts) != (data.pool.classes, dict(data.pool.facts)):
        raise NotAllowed(f"the run's model is for {model.classes} classes, {model.facts}; the data here are not")
