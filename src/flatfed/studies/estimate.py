"""What a study would take: cells, time by a step that is really taken, bytes on disk and between clients and server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from flatfed.core.errors import ConfigError, FlatfedError, nearest
from flatfed.core.evaluation.evaluator import Evaluations, Evaluator
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.sampling import Bernoulli, Uniform
from flatfed.core.round.trainer import no_pulse
from flatfed.core.task.metrics import declared
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import costs
from flatfed.studies.cells import Cell, Resolver, choosing_cells
from flatfed.studies.mistakes import CellMistake, placed
from flatfed.studies.study import Study

Show = Callable[[str, int, int], object]
"""Shows how far something is: a text, and how many of how many are done."""

TRIES = 3
ROUNDS_PLAYED = 4
AFFORDABLE_SECONDS = 2.0
"""A method whose rounds would take longer than this to play is estimated by its steps."""
UNEVALUATED = 1_000_000
ROW_BYTES = 500
"""About what a row of a history takes."""
KEPT = 2
"""Checkpoints that are kept."""


@dataclass(frozen=True)
class Estimate:
    """What one cell takes, about."""

    seconds: float
    disk: int
    exchanged: int


@dataclass(frozen=True)
class Pace:
    """Seconds of a backprop on a batch, and of the evaluation of an example, measured on this machine."""

    backprop: float
    example: float


@dataclass
class Checked:
    """What was found."""

    title: str
    variants: int
    settings: int
    seeds: int
    cells: int
    choosing: int
    jobs: int
    seconds: float = 0.0
    disk: int = 0
    exchanged: int = 0
    mistakes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return dict(self.__dict__)


def check_study(resolver: Resolver, jobs: int, show: Show = lambda text, done, total: None) -> Checked:
    """Try every variant in every setting, and add up what their cells take."""
    study = resolver.study
    columns = list(study.columns())
    choosing = len(choosing_cells(study))
    cells = choosing + len(columns) * len(study.seeds)
    checked = Checked(study.title, len(study.methods), len(study.settings), len(study.seeds), cells, choosing, jobs)
    paces: dict[str, Pace] = {}
    mistakes: list[CellMistake] = []
    for number, (setting, variant) in enumerate(columns):
        show(f"{variant}, {setting}" if setting else variant, number, len(columns))
        points = study.points(variant)
        cell = Cell(setting, variant, study.seeds[0], points[0])
        try:
            for point in points:
                resolver.comparison(Cell(setting, variant, study.seeds[0], point))
            plan = resolver.plan(cell)
            plan.check()
            _check_metric(study.select.metric, plan)
        except FlatfedError as error:
            mistakes.append(CellMistake(setting, variant, str(error)))
            continue
        if setting not in paces:
            paces[setting] = measure(plan)
        runs = len(study.seeds) + _choosing_runs(study, variant, plan.settings.rounds)
        one = estimate(plan, paces[setting])
        checked.seconds += runs * (one.seconds + _seconds_to_begin(resolver, cell)) / jobs
        checked.disk += int(runs * one.disk)
        checked.exchanged += int(runs * one.exchanged)
    checked.mistakes += placed(study, mistakes)
    return checked


def _choosing_runs(study: Study, variant: str, rounds: int) -> float:
    """Return how many runs choose a variant's parameters in a setting; those with fewer rounds count for less."""
    if not study.is_searched(variant):
        return 0.0
    share = (study.select.rounds or rounds) / rounds
    return share * len(study.points(variant)) * len(study.select.seeds)


def _seconds_to_begin(resolver: Resolver, cell: Cell) -> float:
    """Return how long it takes to make what a cell trains, when its data are loaded."""
    begun = time.perf_counter()
    resolver.plan(cell).check()
    return time.perf_counter() - begun


def _check_metric(name: str, plan: Plan) -> None:
    """Refuse to choose by a metric that a task does not have."""
    known = ["loss", *declared(plan.task.metrics)]
    if name and name not in known:
        raise ConfigError(f"select.metric: {nearest(name, known, 'metric')}")


def measure(plan: Plan) -> Pace:
    """Take some steps of a task and evaluate a batch of its test set; the shortest of some tries counts."""
    task, settings = plan.task, plan.settings
    with single_thread(), preserved_global_state():
        evaluator = Evaluator(task, settings)
        oracle = evaluator.oracle
        largest = max(range(task.population), key=task.samples)
        examples = task.examples(largest)
        count = min(len(examples), settings.batch_size or len(examples))
        inputs, targets = examples.batch(torch.arange(count))
        batch = oracle.batch(inputs, targets)
        backprop = _shortest(lambda: oracle.gradient(*batch))
    return Pace(backprop, backprop / (3 * count))


def _shortest(work: Callable[[], object]) -> float:
    times = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def estimate(plan: Plan, pace: Pace) -> Estimate:
    """Return what a cell takes."""
    task, settings = plan.task, plan.settings
    counted = costs(plan.algorithm)
    clients = _clients_per_round(plan)
    mean_samples = sum(task.samples(client) for client in range(task.population)) / task.population
    batch = settings.batch_size or mean_samples
    steps = settings.local_epochs * max(1.0, -(-mean_samples // batch))
    backprops = clients * (steps * counted.backprops + counted.passes * mean_samples / batch)
    tests = sum(len(test) for test in task.test_sets.values())
    evaluations = sum(settings.evaluates(round) for round in range(settings.rounds))
    seconds = settings.rounds * backprops * pace.backprop + evaluations * tests * pace.example
    if (backprops * pace.backprop + tests * pace.example) * ROUNDS_PLAYED <= AFFORDABLE_SECONDS:
        round, evaluation = played(plan)
        seconds = settings.rounds * round + evaluations * evaluation
    vector = task.layout().shared * settings.torch_dtype.itemsize
    met = min(task.population, settings.rounds * clients)
    states = len(counted.server_state) + 1 + met * len(counted.client_state) / KEPT
    disk = settings.rounds * ROW_BYTES + KEPT * vector * states
    exchanged = settings.rounds * clients * (counted.down + counted.up) * vector
    return Estimate(seconds, int(disk), int(exchanged))


def played(plan: Plan) -> tuple[float, float]:
    """Play some rounds, and return the seconds of a round and of an evaluation.

    Where steps are short, most of a round is what stands around them: batches, messages, sums of vectors.
    """
    # Long enough that none of the rounds that are played is evaluated.
    settings = replace(plan.settings, rounds=UNEVALUATED, evaluate_every=UNEVALUATED, evaluate_last=1)
    tried = replace(plan, settings=settings)
    with single_thread(), preserved_global_state():
        engine = tried.engine(no_pulse)
        try:
            federation = tried.federation(engine)
            rounds = federation.rounds()
            # The first is left out: it allocates.
            next(rounds)
            round = _typical(lambda: next(rounds, None))
            models = federation.evaluated, federation.server.w
            evaluation = _typical(
                lambda: Evaluations(engine, plan.task, settings, *models, federation.server.buffers).metrics()
            )
        finally:
            engine.close()
    return round, evaluation


def _typical(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS_PLAYED - 1):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _clients_per_round(plan: Plan) -> float:
    sampler = plan.sampler
    if isinstance(sampler, Uniform):
        return sampler.count
    if isinstance(sampler, Bernoulli):
        return sampler.p * plan.task.population
    return plan.task.population
