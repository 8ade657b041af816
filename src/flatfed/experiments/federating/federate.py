"""`federate`: call the roll, then train over the sites, with the same loop, records and resume as everywhere."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flatfed import models
from flatfed.algorithms.spelling import PARTS, parse_method
from flatfed.core.configuration.config import build
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import CheckpointError, ConfigError, FlatfedError
from flatfed.core.method.engine import listening
from flatfed.core.model.layout import Local
from flatfed.core.round.sampling import Sampler, Uniform
from flatfed.core.task.roster import Roster
from flatfed.core.task.task import Task
from flatfed.data.catalogue import load
from flatfed.engines.sites.assignment import ModelRecipe
from flatfed.engines.sites.config import AtSites
from flatfed.engines.sites.engine import Correspondence
from flatfed.engines.sites.evaluation import deliver
from flatfed.engines.sites.roll_call import Caller, Roll, call_roll
from flatfed.engines.sites.transport import Transport
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.play import OnRound, continue_play, play
from flatfed.experiments.running.resume import prepare
from flatfed.experiments.running.run import Run
from flatfed.experiments.spelling.outside_names import settings_with_ids
from flatfed.named_code import USER
from flatfed.outside.named_parts import with_ids
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.directory import CHECKPOINTS, RunDirectory, is_run
from flatfed.runs.fingerprints import arithmetic_fingerprint, code_fingerprint
from flatfed.runs.records.files import replace_file

FEDERATION, ROLL = "federation", "roll"
"""What a run keeps of its federation: the run's name at the sites, and who answered the roll call."""

STARTS = "starts"
"""A file of the run directory: how often it was resumed."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class FederatedRun:
    """What a federation is to do.

    Args:
        method: a spelling such as `fedgloss+sam`; parts of your own by import path, which sites must allow.
        settings: the training settings by name; `rounds` and `lr` at least.
        sites: the names of the sites that take part; all must answer the roll call.
        out: the run directory.
        sampling: clients per round; 0 is all of them.
        model: a model by name; None is the one that suits the data.
        model_options: its options.
        augment: True is the data set's own augmentation at the sites, a text names others.
        local_layers: what stays at the clients: `bn`, `bn-stats`.
        test_data: a data set whose test examples the server evaluates on; None is none.
        test_options: its options.
        resume: go on with the run in `out`, with its own method and settings.
        resume_rounds: a new total number of rounds for a run that is resumed; None keeps its own.
        trust: import the code that the run in `out` names, wherever it comes from, to resume it.
        accept_changed_code: resume although a part from outside flatfed is other code than when the run was made.
        roll_call_seconds: how long sites may take to answer the roll call.
        checkpoint_every: rounds between two checkpoints; None goes by the clock.
        exact: refuse sites whose arithmetic rounds otherwise than the server's.
    """

    method: str
    settings: Mapping[str, Any]
    sites: Sequence[str]
    out: Path
    sampling: int = 0
    model: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    augment: bool | str = False
    local_layers: str | None = None
    test_data: str | None = None
    test_options: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False
    resume_rounds: int | None = None
    trust: bool = False
    accept_changed_code: bool = False
    roll_call_seconds: float = 120.0
    checkpoint_every: int | None = None
    exact: bool = False


def federate(wanted: FederatedRun, transport: Transport, on_round: OnRound = None, say: Say = lambda text: None) -> Run:
    """Train over the sites, or go on with a run, and return it."""
    _check_out(wanted)
    with listening(say):
        if wanted.resume:
            return _go_on(wanted, transport, on_round, say)
        # Before anybody is called: what is wrong here needs no site to be found.
        spelled = parse_method(with_ids(wanted.method, PARTS, USER))
        settings = build(Settings, {**settings_with_ids(wanted.settings, USER), "vectorised": False})
        roll = _roll(wanted, transport, say)
        recipe = _recipe(wanted, roll, settings.seed)
        to = Correspondence(transport, secrets.token_hex(8), roll, recipe, code_fingerprint())
        to = replace(to, oldest=lambda: _oldest(wanted.out))
        task = _task(wanted, roll, recipe)
        sampler = _sampler(wanted.sampling, len(roll.counts))
        plan = Plan(task, spelled.algorithm, settings, sampler, spelled.average, AtSites(to), wanted.checkpoint_every)
        plan.check()
        about = {
            "title": f"{wanted.method} over {len(roll.sites)} sites",
            FEDERATION: to.run,
            ROLL: _record(roll, recipe),
        }
        return _delivered(to, play(plan, wanted.out, on_round, about))


def _check_out(wanted: FederatedRun) -> None:
    if wanted.resume and not is_run(wanted.out):
        raise ConfigError(f"there is no run in {wanted.out} to resume; leave resume out, or name its directory")
    if not wanted.resume and is_run(wanted.out):
        raise ConfigError(f"{wanted.out} holds a run already; resume it with resume=true, or name another out")


def _roll(wanted: FederatedRun, transport: Transport, say: Say) -> Roll:
    arithmetic = arithmetic_fingerprint()
    caller = Caller(wanted.sites, code_fingerprint(), arithmetic, wanted.roll_call_seconds, say)
    roll = call_roll(transport, caller)
    say(f"{len(roll.sites)} sites, {len(roll.counts)} clients, {sum(roll.counts):,} examples")
    say(f"results are those of a simulation {'to rounding' if roll.rounding else 'to the bit'}")
    for reason in roll.rounding:
        say(f"to rounding: {reason}")
    if roll.rounding and wanted.exact:
        raise FlatfedError(f"exact=true, but arithmetic differs: {'; '.join(roll.rounding)}")
    return roll


def _recipe(wanted: FederatedRun, roll: Roll, seed: int) -> ModelRecipe:
    data = roll.data
    facts = {str(name): int(value) for name, value in dict(data["facts"]).items()}
    return ModelRecipe(
        name=wanted.model or str(data["default_model"]),
        classes=int(data["classes"]),
        seed=seed,
        options=dict(wanted.model_options),
        facts=facts,
        local_layers=wanted.local_layers,
        augment=wanted.augment,
    )


def _task(wanted: FederatedRun, roll: Roll, recipe: ModelRecipe) -> Task:
    """Return what the server knows: the model, and how many examples each client holds."""
    facts: dict[str, Any] = dict(recipe.facts)
    model = models.build(recipe.name, recipe.classes, seed=recipe.seed, options=recipe.options, **facts)
    names = [str(name) for name in roll.data.get("class_names", [])]
    task = Task(model, Roster(roll.counts), local=recipe.local_layers or Local(), name="federation", class_names=names)
    if wanted.test_data is None:
        return task
    pool = load(wanted.test_data, **wanted.test_options)
    if (pool.classes, dict(pool.facts)) != (recipe.classes, recipe.facts):
        raise ConfigError(f"the server's test set {wanted.test_data} has other classes or sizes than the sites' data")
    return replace(task, test=pool.test, loss=pool.loss, metrics=pool.metrics, prepare=pool.prepare)


def _sampler(count: int, clients: int) -> Sampler:
    return Uniform(count or clients)


def _record(roll: Roll, recipe: ModelRecipe) -> str:
    return json.dumps(roll.to_dict() | {"model": recipe.__dict__})


def _oldest(out: Path) -> int:
    """Return the round of the oldest checkpoint: sites keep the states that it needs."""
    return min(Checkpoints(out / CHECKPOINTS, "").rounds(), default=0)


def _go_on(wanted: FederatedRun, transport: Transport, on_round: OnRound, say: Say) -> Run:
    """Go on with a run over the sites that it was begun with."""
    directory = RunDirectory.open(wanted.out, wanted.trust)
    about = directory.config.get("about", {})
    if FEDERATION not in about:
        raise ConfigError(f"{wanted.out} is no run of a federation; resume it with `flatfed resume`")
    begun = json.loads(about[ROLL])
    roll = _roll(wanted, transport, say)
    _check_same(begun, roll, wanted.out)
    recipe = ModelRecipe(**begun["model"])
    to = Correspondence(transport, about[FEDERATION], roll, recipe, code_fingerprint(), _next_start(wanted.out))
    to = replace(to, oldest=lambda: _oldest(wanted.out))
    plan, directory = prepare(
        wanted.out,
        wanted.resume_rounds,
        workers=AtSites(to),
        opened=directory,
        accept_changed_code=wanted.accept_changed_code,
    )
    return _delivered(to, continue_play(plan, directory, on_round, say))


def _delivered(to: Correspondence, run: Run) -> Run:
    """Give the final model to the sites; also that of a run that had come to its end before, as some may lack it."""
    if run.status == "finished":
        deliver(to, run._federation)
    return run


def _next_start(out: Path) -> int:
    """Return how often the run was resumed, this time included, and note it: sites tell new requests from old ones."""
    path = out / STARTS
    try:
        before = int(path.read_text())
    except FileNotFoundError:
        before = 0
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; write a larger number into it than before") from None
    replace_file(path, str(before + 1).encode())
    return before + 1


def _check_same(begun: Mapping[str, Any], roll: Roll, out: Path) -> None:
    """Refuse sites that are others, or have other numbers of examples, than when the run was begun."""
    before = [(site["site"], site["examples"]) for site in begun["sites"]]
    now = [(site.name, site.counts) for site in roll.sites]
    if before != now:
        raise FlatfedError(
            f"{out} was begun with {before}, and now the sites are {now}; put them back, or begin a new run"
        )
