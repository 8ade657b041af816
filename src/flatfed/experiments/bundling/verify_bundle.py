"""`verify`: replay stretches of a bundled run, and compare bits with its history and its checkpoints."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from flatfed import __version__
from flatfed.core.errors import ConfigError
from flatfed.core.method.engine import Engine
from flatfed.core.model.devices import single_thread
from flatfed.core.round.federation import Federation
from flatfed.core.task.task import Task
from flatfed.engines.choice import Workers, start_engine
from flatfed.experiments.bundling.archive import unpack_archive
from flatfed.experiments.bundling.comparing_bits import TROUBLE, Difference, row_difference, state_difference
from flatfed.experiments.bundling.stretches import Stretch, chosen_stretches, ranges
from flatfed.experiments.planning.outside_parts import code_changes
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import with_data
from flatfed.experiments.tasks.recipe import TENSORS, task_of
from flatfed.runs.checkpoints import Loaded, restore
from flatfed.runs.directory import CODE, REPLACES, RunDirectory
from flatfed.runs.environment import changes_since, read_environment

ROUNDS = 10
"""How many rounds the first and the random stretch have."""

Outcome = Literal["verified", "differs", "versions differ"]
OnRound = Callable[[int, int], None]


@dataclass
class Verification:
    """What a replay came to.

    Attributes:
        rounds: of the whole run.
        stretches: what was replayed, or was to be.
        seed: what chose the random stretch.
        replayed: rounds, from 0, whose rows were the same.
        compared: rounds after which every tensor of the checkpoint was the same.
        difference: the first, where there is one.
        versions: what of versions and machine is another than when the run was made.
        notes: what else a reader should know.
    """

    rounds: int
    stretches: list[Stretch]
    seed: int
    replayed: set[int] = field(default_factory=set)
    compared: set[int] = field(default_factory=set)
    difference: Difference | None = None
    versions: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """Return what came of it; with other versions, other bits say nothing about the run."""
        if self.difference is None:
            return "verified"
        return "versions differ" if self.versions else "differs"

    @property
    def verified_rounds(self) -> str:
        """The rounds that were replayed to the same bits, as people read them."""
        return ranges(sorted(self.replayed))

    @property
    def other_rounds(self) -> str:
        """The rounds that were not."""
        return ranges(sorted({*range(self.rounds)} - self.replayed))

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        return {
            "outcome": self.outcome,
            "rounds": self.rounds,
            "verified_rounds": self.verified_rounds,
            "other_rounds": self.other_rounds,
            "checkpoints": sorted(self.compared),
            "stretches": [{"kind": one.kind, "start": one.start, "end": one.end} for one in self.stretches],
            "seed": self.seed,
            "difference": None if self.difference is None else vars(self.difference),
            "versions": self.versions,
            "notes": self.notes,
        }


def verify(
    path: str | Path,
    *,
    rounds: int | None = ROUNDS,
    seed: int | None = None,
    task: Task | None = None,
    trust: bool = False,
    data_dir: str | Path | None = None,
    workers: Workers = "auto",
    on_round: OnRound = lambda done, total: None,
) -> Verification:
    """Replay the first, one random and the last stretch of a bundled run, and say whether bits are the same.

    Args:
        path: the bundle.
        rounds: of the first and the random stretch; None replays the whole run.
        seed: chooses the random stretch; by default another each time.
        task: needed only where the run was made from objects that no file can describe.
        trust: import the code that the run names, wherever it comes from: only for a bundle of somebody you trust.
        data_dir: where the data sets lie, if not where they lay on the machine that made the bundle.
        workers: worker processes; results do not depend on it.
        on_round: called with how many rounds are replayed, of how many.
    """
    if rounds is not None and rounds < 1:
        raise ConfigError(f"rounds must be at least 1, not {rounds}")
    with TemporaryDirectory(prefix="flatfed-verify-") as folder:
        unpack_archive(Path(path), Path(folder))
        # Nothing that the record says of files of code counts: a stranger may have packed them beside the bundle.
        directory = RunDirectory.open(Path(folder), trust).with_config(**{CODE: {}})
        _refuse_unplayable(Path(path), directory, task)
        return _verified(with_data(directory, data_dir), rounds, seed, task, workers, on_round)


def _refuse_unplayable(path: Path, directory: RunDirectory, task: Task | None) -> None:
    recipe = directory.config["task"]
    if task is None and recipe["kind"] == "tensors" and not (directory.path / TENSORS).exists():
        raise ConfigError(f"{path} holds no examples: its run was made from tensors; ask for one made --with-data")
    if task is None and recipe["kind"] == "memory":
        raise ConfigError(f"{path}: its task lived only in memory; verify it from Python: verify(path, task=task)")


def _verified(
    directory: RunDirectory,
    rounds: int | None,
    seed: int | None,
    task: Task | None,
    workers: Workers,
    on_round: OnRound,
) -> Verification:
    seed = secrets.randbelow(2**32) if seed is None else seed
    checkpoints = directory.checkpoints.rounds()
    chosen = chosen_stretches(len(directory.rows), checkpoints, rounds, seed)
    plan = _plan(directory, task or task_of(directory, remembered=False))
    result = Verification(len(directory.rows), chosen, seed, versions=_versions(directory, plan))
    _note_missing(result, checkpoints, rounds)
    total = sum(one.end - one.start for one in chosen)
    with single_thread(), closing(start_engine(plan.task, plan.algorithm, plan.settings, workers)) as engine:
        replay = _Replay(directory, plan, engine, result, lambda: on_round(replay.done, total))
        for stretch in chosen:
            if result.difference is None:
                replay.play(stretch)
    if result.difference is not None:
        _note_trouble(directory, result)
    return result


def _plan(directory: RunDirectory, task: Task) -> Plan:
    plan = Plan.from_config(directory.config, task, None, directory.named_by)
    if not plan.task.holds_examples:
        raise ConfigError("the run was trained at sites that keep their examples; only they can play its rounds again")
    # Monitors change nothing of a run, and may take longer than it.
    return replace(plan, watch=(), workers=0)


class _Replay:
    """Plays stretches again, and compares."""

    def __init__(
        self, directory: RunDirectory, plan: Plan, engine: Engine, result: Verification, tell: Callable[[], None]
    ) -> None:
        self._directory, self._plan, self._engine, self._result, self._tell = directory, plan, engine, result, tell
        self._rows = {row["round"]: row for row in directory.rows}
        self._checkpoints = set(directory.checkpoints.rounds())
        self.done = 0

    def play(self, stretch: Stretch) -> None:
        """Play a stretch until it ends or differs."""
        federation = self._plan.federation(self._engine)
        # Rows and state must agree after every round, to be compared.
        federation.settles = lambda round: True
        if stretch.start:
            loaded = self._loaded(stretch.start)
            restore(federation, loaded.round, loaded.tensors, loaded.states)
            self._take_rows_before(federation, loaded.round)
        elif 0 in self._checkpoints and self._differs(state_difference(self._loaded(0), federation)):
            return
        if stretch.start == stretch.end:
            return
        for row in federation.rounds():
            if self._differs(row_difference(self._rows[row["round"]], row)):
                return
            played = row["round"] + 1
            # A round in which the run ended left no state to compare.
            if played in self._checkpoints and federation.round == played:
                if self._differs(state_difference(self._loaded(played), federation)):
                    return
                self._result.compared.add(played)
            self._result.replayed.add(row["round"])
            self.done += 1
            self._tell()
            if played >= stretch.end:
                return

    def _take_rows_before(self, federation: Federation, round: int) -> None:
        """Let what follows from the rows, such as a lowered learning rate, be where it was."""
        if federation.steering is not None:
            federation.steering.take_all(row for number, row in self._rows.items() if number < round)

    def _loaded(self, round: int) -> Loaded:
        return self._directory.checkpoints.load(round, self._directory.check_config_mark)

    def _differs(self, difference: Difference | None) -> bool:
        self._result.difference = difference
        return difference is not None


def _versions(directory: RunDirectory, plan: Plan) -> str:
    """Return what is another here than where the run was made, of what may decide bits."""
    made = (read_environment(directory.path).get("packages") or {}).get("flatfed")
    own = f"flatfed {made}, now {__version__}" if made not in (None, __version__) else ""
    return "; ".join(filter(None, [own, changes_since(directory.path), code_changes(directory, plan)]))


def _note_missing(result: Verification, checkpoints: list[int], rounds: int | None) -> None:
    kinds = {stretch.kind for stretch in result.stretches}
    if "first" in kinds and "random" not in kinds:
        result.notes.append(
            "no random stretch: the run kept no checkpoint between its beginning and its last two "
            "(--keep-checkpoints keeps some while it trains)"
        )
    if not checkpoints:
        result.notes.append("the bundle holds no checkpoint: only rows of the history were compared")


def _note_trouble(directory: RunDirectory, result: Verification) -> None:
    """Say what may explain a difference."""
    assert result.difference is not None
    row = next((row for row in directory.rows if row["round"] == result.difference.round - 1), {})
    if any(name in row for name in TROUBLE):
        result.notes.append("in that round updates were rejected; one that came too late may be in time here")
    if directory.config.get(REPLACES):
        result.notes.append("the run's record was replaced while it trained (more rounds, or data that moved)")
