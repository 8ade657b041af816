"""Landscapes of clients' models: around one in several runs, through three, and through one and the global model."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.round.federation import Federation
from flatfed.core.round.probe import ClientModel, last_round, probe
from flatfed.core.task.examples import Partition, targets_of
from flatfed.core.task.task import Task
from flatfed.experiments.measuring.laboratory import Laboratory
from flatfed.experiments.measuring.views import Landscape, OnPoint, View, keeping
from flatfed.flatness.landscape import scenes
from flatfed.flatness.measurement import surface_at
from flatfed.flatness.results import Grid
from flatfed.flatness.sample import TRAIN, Sample, own
from flatfed.flatness.surface import Surface

Models = dict[int, ClientModel]
OWN, EVERYONES = "own examples", "everyone's examples"
GLOBAL, BEFORE = "global model", "model before the round"
PLANE = "the plane through the global model after the last round, the client's model of it and the model before it"


def around_client(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    """Return the loss around a client's model in each run, over its own examples and over everyone's.

    Those of several runs are to be drawn together: its own loss on one panel, everyone's on another.
    """
    cohorts = [_cohort(lab, view) for lab in labs]
    grids: list[Grid] = []
    for client in _chosen(labs, labels, cohorts, view):
        found = [
            _two_losses(lab, label, cohort[client], view, on_point)
            for lab, label, cohort in zip(labs, labels, cohorts, strict=True)
        ]
        if len(labs) == 1:
            sheet = f"client {client}" if view.client == "all" else ""
            grids += [replace(grid, label=grid.name, sheet=sheet, panel="") for grid in found[0]]
        else:
            grids += [pair[part] for part in (0, 1) for pair in found]
    return Landscape(grids, [])


def _two_losses(lab: Laboratory, label: str, model: ClientModel, view: View, on_point: OnPoint) -> list[Grid]:
    """Return the loss around one client's model, over its own examples and over everyone's."""
    name, grids = f"client {model.client}", []
    keep = keeping(lab, [lab], view, client=model.client, round=view.round)
    with lab.started():
        for part, sample in ((OWN, own(model.client)), (EVERYONES, lab.surface.sample)):
            surface = lab.surface.over(sample).at(model.w, model.buffers)
            tell = functools.partial(on_point, f"{label}, {name}, {part}")
            grid = scenes.around(surface, label, view.points, view.extent, view.seed, keep, tell, mark=name)
            grids.append(replace(grid, sheet=name, panel=part))
    return grids


def through_clients(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    """Return training loss and test error over the plane through three clients' models of the last round."""
    [lab], [label] = labs, labels
    for client in view.clients or ():
        own(client).count(lab.surface.task)
    with lab.started():
        federation = _federation(lab)
        cohort = _last(federation)
        clients = sorted(cohort)[:3] if view.clients is None else view.clients
        _require(cohort, clients, "")
        if len(clients) < 3:
            raise ConfigError(f"a plane goes through three clients' models, and the last round had {len(clients)}")
        base = _global(lab, federation)
        models = [(f"client {k}", cohort[k].w, _shared(cohort[k].buffers, base)) for k in clients]
        keep = keeping(lab, [lab], view, clients=list(clients), round="last")
        grids = []
        for surface in train_and_tests(lab):
            tell = functools.partial(on_point, f"plane, {surface.sample.of}")
            grid = scenes.through(surface, models, view.points, keep, tell, also=[(GLOBAL, base.w, base.buffers)])
            note = f"{grid.note}; models of the last round, before they were averaged"
            grids.append(replace(grid, label=f"{label}, {surface.sample.of}", note=note))
    return Landscape(grids, [])


def client_plane(labs: list[Laboratory], labels: list[str], view: View, on_point: OnPoint) -> Landscape:
    """Return a client's loss and everyone's over one plane: the global model, the client's and the one before."""
    [lab], [label] = labs, labels
    if isinstance(view.client, int):
        own(view.client).count(lab.surface.task)
    with lab.started():
        federation = _federation(lab)
        cohort = _last(federation)
        client = min(cohort) if view.client is None else int(view.client)
        _require(cohort, [client], "")
        local, before = cohort[client], federation.past().federation.server
        base = _global(lab, federation)
        kept = {name: part for name, part in local.buffers.items() if name not in base.buffers}
        keep = keeping(lab, [lab], view, client=client, round="last")
        grids = []
        for part, sample, more in ((OWN, own(client), kept), (EVERYONES, lab.surface.sample, {})):
            models: list[scenes.Model] = [
                (GLOBAL, base.w, {**base.buffers, **more}),
                (f"client {client}", local.w, {**_shared(local.buffers, base), **more}),
                (BEFORE, before.w, {**_shared(before.buffers, base), **more}),
            ]
            tell = functools.partial(on_point, f"client {client}, {part}")
            grid = scenes.through(lab.surface.over(sample), models, view.points, keep, tell, exact=True)
            grids.append(replace(grid, label=f"{label}, client {client}: {part}", note=f"{grid.note}; {PLANE}"))
    return Landscape(grids, [])


def train_and_tests(lab: Laboratory) -> list[Surface]:
    """Return the loss over the training examples and over the test set, where there is one."""
    task, sample = lab.surface.task, lab.surface.sample
    names = [TRAIN, *list(task.test_sets)[:1]]
    return [lab.surface.over(Sample(name, sample.most, sample.seed)) for name in names]


# --- whose models -------------------------------------------------------------------------------------------


def _cohort(lab: Laboratory, view: View) -> Models:
    """Return the models that are asked for of one run: of the last round, or those that the next would train."""
    if isinstance(view.client, int):
        own(view.client).count(lab.surface.task)
    with lab.started():
        federation = _federation(lab)
        if view.round == "last":
            return _last(federation)
        asked = [view.client] if isinstance(view.client, int) else None
        return {model.client: model for model in probe(federation, asked).models}


def _last(federation: Federation) -> Models:
    return {model.client: model for model in last_round(federation).models}


def _chosen(labs: Sequence[Laboratory], labels: Sequence[str], cohorts: Sequence[Models], view: View) -> Sequence[int]:
    """Return whose models are shown: clients that took part in the round of every run, with the same examples."""
    common = sorted(set.intersection(*(set(cohort) for cohort in cohorts)))
    if isinstance(view.client, int):
        for label, cohort in zip(labels, cohorts, strict=True):
            _require(cohort, [view.client], f" of {label}" if len(labs) > 1 else "")
        common = [view.client]
    if not common:
        took = "; ".join(f"{label}: {_listed(cohort)}" for label, cohort in zip(labels, cohorts, strict=True))
        raise ConfigError(f"no client took part in the {view.round} round of every run ({took}); take equal seeds")
    chosen = common if view.client == "all" else common[:1]
    for label, lab in zip(labels[1:], labs[1:], strict=True):
        for client in chosen:
            if not _same_examples(labs[0].surface.task, lab.surface.task, client):
                raise ConfigError(
                    f"client {client} of {label} holds other examples than client {client} of {labels[0]}; "
                    "train both with the same partition and seed"
                )
    return chosen


def _require(cohort: Models, clients: Sequence[int], of: str) -> None:
    for client in clients:
        if client not in cohort:
            raise ConfigError(
                f"client {client} did not take part in the last round{of}; those that did are {_listed(cohort)}"
            )


def _listed(cohort: Models) -> str:
    return ", ".join(map(str, sorted(cohort)))


def _same_examples(one: Task, other: Task, client: int) -> bool:
    if isinstance(one.clients, Partition) and isinstance(other.clients, Partition):
        return torch.equal(one.clients.parts[client], other.clients.parts[client])
    return torch.equal(targets_of(one.examples(client)), targets_of(other.examples(client)))


def _federation(lab: Laboratory) -> Federation:
    assert lab.federation is not None
    return lab.federation


def _global(lab: Laboratory, federation: Federation) -> Surface:
    """Return the server's own model, which an average may differ from, with the statistics that go with it."""
    return surface_at(federation, federation.server.w.clone(), lab.surface.sample)


def _shared(buffers: Mapping[str, Tensor], base: Surface) -> dict[str, Tensor]:
    """Return a model's statistics without what stays on a client."""
    return {name: buffers[name] for name in base.buffers}
