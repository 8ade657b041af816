"""Landscapes of clients' models: around one in several runs, through three, and through one and the global model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.method.server import Server
from flatfed.core.round.probe import ClientModel, Probe, last_round, probe
from flatfed.core.task.examples import Partition, targets_of
from flatfed.core.task.task import Task
from flatfed.experiments.measuring.laboratory import Laboratory
from flatfed.experiments.measuring.progress import OnCount
from flatfed.experiments.measuring.views import Landscape, View, keeping
from flatfed.flatness.drawable import Grid
from flatfed.flatness.landscape import scenes
from flatfed.flatness.sums import TRAIN, Sample, own
from flatfed.flatness.surface import Surface, surface_at

Models = dict[int, ClientModel]
OWN, EVERYONES = "own examples", "everyone's examples"
GLOBAL, BEFORE = "global model", "model before the round"
PLANE = "the plane through the global model after the last round, the client's model of it and the model before it"


def around_client(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    """Return the loss around a client's model in each run, over its own examples and over everyone's.

    Those of several runs are to be drawn together: its own loss on one panel, everyone's on another.
    """
    if len(labs) > 1:
        return Landscape(_around_in_several(labs, labels, view, on_point), [])
    with labs[0].started():  # one start of the workers serves the round and every client
        return Landscape(_around_in_one(labs[0], labels[0], view, on_point), [])


def _around_in_one(lab: Laboratory, label: str, view: View, on_point: OnCount) -> list[Grid]:
    cohort = _cohort(lab, view)
    grids: list[Grid] = []
    for client in _chosen([label], [cohort], view):
        sheet = f"client {client}" if view.client == "all" else ""
        pair = _two_losses(lab, label, cohort[client], view, on_point)
        grids += [replace(grid, label=grid.name, sheet=sheet, panel="") for grid in pair]
    return grids


def _around_in_several(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> list[Grid]:
    cohorts = [_cohort(lab, view) for lab in labs]
    clients = _chosen(labels, cohorts, view)
    _check_same_examples(labs, labels, clients)
    grids: list[Grid] = []
    for client in clients:
        pairs = [
            _two_losses(lab, label, cohort[client], view, on_point)
            for lab, label, cohort in zip(labs, labels, cohorts, strict=True)
        ]
        for panel in zip(*pairs, strict=True):
            grids += panel
    return grids


def _two_losses(lab: Laboratory, label: str, model: ClientModel, view: View, on_point: OnCount) -> list[Grid]:
    """Return the loss around one client's model, over its own examples and over everyone's."""
    name, grids = f"client {model.client}", []
    keep = keeping(lab, [lab], view, client=model.client, round=view.round)
    with lab.started():
        for part, sample in ((OWN, own(model.client)), (EVERYONES, lab.surface.sample)):
            surface = lab.surface.over(sample).at(lab.lift(model.w), model.buffers)
            tell = functools.partial(on_point, f"{label}, {name}, {part}")
            grid = scenes.around(surface, label, view.points, view.extent, view.seed, keep, tell, mark=name)
            grids.append(replace(grid, sheet=name, panel=part))
    return grids


def through_clients(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    """Return training loss and test error over the plane through three clients' models of the last round."""
    [lab], [label] = labs, labels
    _check_hold_examples(lab, view.clients or ())
    with lab.started():
        cohort = _last(lab)
        clients = _three(cohort, view)
        base = _global(lab)
        models = [_placed(f"client {client}", cohort[client], base, lab) for client in clients]
        average = scenes.PlacedModel(GLOBAL, base.w, base.buffers)
        keep, grids = keeping(lab, [lab], view, clients=list(clients), round="last"), []
        for surface in train_and_tests(lab):
            tell = functools.partial(on_point, f"plane, {surface.sample.of}")
            grid = scenes.through(surface, models, view.points, keep, tell, also=[average])
            note = f"{grid.note}; models of the last round, before they were averaged"
            grids.append(replace(grid, label=f"{label}, {surface.sample.of}", note=note))
    return Landscape(grids, [])


def _three(cohort: Models, view: View) -> Sequence[int]:
    """Return whose models the plane goes through: those that are asked for, or the first of the round."""
    clients = sorted(cohort)[:3] if view.clients is None else view.clients
    _check_took_part(cohort, clients)
    if len(clients) < 3:
        raise ConfigError(f"a plane goes through three clients' models, and the last round had {len(clients)}")
    return clients


def client_plane(labs: list[Laboratory], labels: list[str], view: View, on_point: OnCount) -> Landscape:
    """Return a client's loss and everyone's over one plane: the global model, the client's and the one before."""
    [lab], [label] = labs, labels
    _check_hold_examples(lab, view.named_client)
    with lab.started():
        cohort = _last(lab)
        client = _only(cohort, view)
        base, local = _global(lab), cohort[client]
        before = lab.run.past().federation.server
        models = [
            scenes.PlacedModel(GLOBAL, base.w, base.buffers),
            _placed(f"client {client}", local, base, lab),
            _placed(BEFORE, before, base, lab),
        ]
        keep, grids = keeping(lab, [lab], view, client=client, round="last"), []
        for part, sample in ((OWN, own(client)), (EVERYONES, lab.surface.sample)):
            # On its own examples a client has what it keeps for itself; everyone's loss is that of shared parts.
            extra = _kept_local(local, base) if part == OWN else {}
            placed = [model._replace(buffers={**model.buffers, **extra}) for model in models]
            tell = functools.partial(on_point, f"client {client}, {part}")
            grid = scenes.through(lab.surface.over(sample), placed, view.points, keep, tell, exact=True)
            grids.append(replace(grid, label=f"{label}, client {client}: {part}", note=f"{grid.note}; {PLANE}"))
    return Landscape(grids, [])


def _only(cohort: Models, view: View) -> int:
    """Return whose model the plane goes through: the one that is asked for, or the first of the round."""
    client = min(cohort) if view.client is None else int(view.client)
    _check_took_part(cohort, [client])
    return client


def train_and_tests(lab: Laboratory) -> list[Surface]:
    """Return the loss over the training examples and over the test set, where there is one."""
    task, sample = lab.surface.task, lab.surface.sample
    names = [TRAIN, *list(task.test_sets)[:1]]
    return [lab.surface.over(Sample(name, sample.most, sample.seed)) for name in names]


# --- whose models -------------------------------------------------------------------------------------------


def _cohort(lab: Laboratory, view: View) -> Models:
    """Return the models that are asked for of one run: of the last round, or those that the next would train."""
    _check_hold_examples(lab, view.named_client)
    with lab.started():
        if view.round == "last":
            return _last(lab)
        return _by_client(probe(lab.run, view.named_client or None))


def _last(lab: Laboratory) -> Models:
    return _by_client(last_round(lab.run))


def _by_client(trial: Probe) -> Models:
    return {model.client: model for model in trial.models}


def _chosen(labels: Sequence[str], cohorts: Sequence[Models], view: View) -> list[int]:
    """Return whose models are shown: clients that took part in the round of every run."""
    if view.named_client:
        for label, cohort in zip(labels, cohorts, strict=True):
            _check_took_part(cohort, view.named_client, f" of {label}" if len(labels) > 1 else "")
        return view.named_client
    # A panel shows one client in every run, so only those that took part in all can be shown.
    common = sorted(set.intersection(*map(set, cohorts)))
    if not common:
        raise ConfigError(
            f"no client took part in the {view.round} round of every run ({_by_run(labels, cohorts)}); take equal seeds"
        )
    return common if view.client == "all" else common[:1]


def _by_run(labels: Sequence[str], cohorts: Sequence[Models]) -> str:
    """Say who took part in each run."""
    return "; ".join(f"{label}: {_listed(cohort)}" for label, cohort in zip(labels, cohorts, strict=True))


def _check_same_examples(labs: Sequence[Laboratory], labels: Sequence[str], clients: Sequence[int]) -> None:
    """Refuse runs in which a client holds other examples than in the first: their losses cannot be compared."""
    first = labs[0].surface.task
    for label, lab in zip(labels[1:], labs[1:], strict=True):
        for client in clients:
            if not _same_examples(first, lab.surface.task, client):
                raise ConfigError(
                    f"client {client} of {label} holds other examples than client {client} of {labels[0]}; "
                    "train both with the same partition and seed"
                )


def _check_hold_examples(lab: Laboratory, clients: Sequence[int]) -> None:
    """Refuse clients that there are not, or that hold nothing, before any worker starts."""
    for client in clients:
        own(client).count(lab.surface.task)


def _check_took_part(cohort: Models, clients: Sequence[int], of: str = "") -> None:
    for client in clients:
        if client not in cohort:
            raise ConfigError(
                f"client {client} did not take part in the last round{of}; those that did are {_listed(cohort)}"
            )


def _listed(cohort: Models) -> str:
    return ", ".join(map(str, sorted(cohort)))


def _same_examples(first: Task, second: Task, client: int) -> bool:
    if isinstance(first.clients, Partition) and isinstance(second.clients, Partition):
        return torch.equal(first.clients.parts[client], second.clients.parts[client])
    return torch.equal(targets_of(first.examples(client)), targets_of(second.examples(client)))


def _global(lab: Laboratory) -> Surface:
    """Return the server's own model, which an average may differ from, with the statistics that go with it."""
    trained = surface_at(lab.run, lab.run.server.w.clone(), lab.surface.sample)
    return lab.surface.at(lab.lift(trained.w), trained.buffers)


def _placed(name: str, model: ClientModel | Server, base: Surface, lab: Laboratory) -> scenes.PlacedModel:
    """Return a model with the statistics that are shared, without what stays on a client."""
    return scenes.PlacedModel(name, lab.lift(model.w), {part: model.buffers[part] for part in base.buffers})


def _kept_local(model: ClientModel, base: Surface) -> dict[str, Tensor]:
    """Return the parts of a model that stay on its client."""
    return {name: part for name, part in model.buffers.items() if name not in base.buffers}
