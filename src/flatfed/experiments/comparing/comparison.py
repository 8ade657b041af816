"""A comparison: several methods and seeds on one task, and the directory that holds their runs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from flatfed.algorithms.spelling import Method, parse_method
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError
from flatfed.core.round.sampling import Sampler
from flatfed.core.task.task import Task
from flatfed.data.partition import Partitioner
from flatfed.engines.choice import Workers, describe_workers, recorded_workers
from flatfed.experiments.comparing.finding import runs_below
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import title_of
from flatfed.experiments.running.run import moved
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.flatness.monitor import Monitor
from flatfed.named_code import USER, NamedBy
from flatfed.outside.origins import ORIGINS, enter_recorded, origins_of
from flatfed.reports.tables.extras import Extras
from flatfed.runs.described.import_paths import files_of, named_files
from flatfed.runs.directory import CODE, COMPARED, is_comparison, is_run, recorded_files, require_run
from flatfed.runs.metrics import describe_metrics, primary_of
from flatfed.runs.records.earlier_versions import config_of_today
from flatfed.runs.records.files import FORMAT, is_writable, read_json, write_json
from flatfed.runs.records.structure import COMPARISON, check
from flatfed.tracking.tracker import Tracker

RENEWED = ("watch", "flatness", "report", "checkpoint_every", "keep_checkpoints", CODE, ORIGINS)
"""What the same command may ask for anew: it decides no result."""


@dataclass(frozen=True)
class Flatness:
    """What is measured of every finished run: on at most `samples` training examples, None for all."""

    samples: int | None
    measurements: ClassVar[str] = "lambda_ratio,lpf"

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {"samples": self.samples}


@dataclass(frozen=True)
class Comparison:
    """What is compared: methods and seeds on one recipe, under one set of settings."""

    recipe: TaskRecipe
    methods: list[Method]
    seeds: list[int]
    settings: Settings
    sampler: Sampler
    workers: Workers = "auto"
    command: str = ""
    watch: tuple[Monitor, ...] = ()
    flatness: Flatness | None = None
    extras: Extras = field(default_factory=Extras)
    checkpoint_every: int | None = None
    keep_checkpoints: tuple[int, ...] = ()
    by: NamedBy = USER
    """Who named the model; it is no part of what is compared."""
    track: tuple[Tracker, ...] | None = None
    """Where its runs are sent; None is as before, which the records of what was sent say."""

    def check_extras(self) -> None:
        """Refuse what its table cannot show: methods that are not compared, targets that the metric cannot have."""
        self.extras.check_methods([method.spelling for method in self.methods])
        about = describe_metrics(self.recipe.build(self.by))
        self.extras.check_metric(primary_of([], about))

    def runs(self, out: Path) -> Iterator[tuple[Path, Callable[[], Plan]]]:
        """Yield each run's directory and what makes its plan: method by method, seed by seed."""
        # What makes the plan, not the plan: a run that is finished may need no data any more.
        for method, seed in itertools.product(self.methods, self.seeds):
            yield run_path(out, method.spelling, seed), functools.partial(self._plan, method, seed)

    def _plan(self, method: Method, seed: int, task: Task | None = None) -> Plan:
        recipe = replace(self.recipe, seed=seed)
        if task is None:
            task = recipe.build(self.by)
        return Plan(
            task,
            method.algorithm,
            self.settings.replace(seed=seed),
            self.sampler,
            method.average,
            self.workers,
            self.checkpoint_every,
            task_recipe=recipe.resolved(task.population).to_dict(),
            watch=self.watch,
            keep_checkpoints=self.keep_checkpoints,
            named_by=recipe.by,
            track=self.track or (),
        )

    def plan_of(self, method: Method, task: Task | None = None) -> Plan:
        """Return the plan of a method with the first seed; its task may be at hand."""
        return self._plan(method, self.seeds[0], task)

    def config_of(self, method: Method, seed: int) -> dict[str, Any]:
        """Return what the record of a run would say of what was asked for, without building anything."""
        return {
            "run": "",
            "method": method.spelling,
            "algorithm": method.algorithm.to_dict(),
            "average": method.average and method.average.to_dict(),
            "sampler": self.sampler.to_dict(),
            "settings": _without(self.settings.replace(seed=seed).to_dict(), "id"),
            **describe_workers(self.workers),
            "task": replace(self.recipe, seed=seed).to_dict(),
        }

    @property
    def title(self) -> str:
        """What is compared, in a line."""
        return title_of(self.recipe, self.settings, self.sampler)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison, ready for JSON; all but `about` decides the results."""
        return {
            "format": FORMAT,
            "task": self.recipe.to_dict(),
            "methods": [_described(method) for method in self.methods],
            "seeds": self.seeds,
            # The seed is each run's own, from the list above.
            "settings": _without(self.settings.to_dict(), "id", "seed"),
            "sampler": self.sampler.to_dict(),
            "about": self._about(),
        }

    def _about(self) -> dict[str, Any]:
        """Return what decides no result."""
        return {
            **describe_workers(self.workers),
            "command": self.command,
            "watch": [monitor.to_dict() for monitor in self.watch],
            "flatness": self.flatness and self.flatness.to_dict(),
            "report": self._report(),
            "checkpoint_every": self.checkpoint_every,
            "keep_checkpoints": list(self.keep_checkpoints),
            **self._code(),
        }

    def _code(self) -> dict[str, Any]:
        """Return the modules that it names, with their files, and where its methods and the sampler come from."""
        recipe = self.recipe.to_dict()
        parts = [part for method in self.methods for part in (method.algorithm, method.average)]
        configs = [*parts, self.sampler, self.settings, Partitioner.registry.from_dict(self.recipe.partition)]
        origins = origins_of([*configs, *(monitor.measurement for monitor in self.watch)])
        files = named_files(recipe) | files_of(sorted({origin["module"] for origin in origins}))
        return {CODE: files, ORIGINS: origins} if origins else {CODE: files}

    def _report(self) -> dict[str, Any] | None:
        if self.extras == Extras():
            return None
        return self.extras.to_dict()


def _described(method: Method) -> dict[str, Any]:
    return {
        "spelling": method.spelling,
        "algorithm": method.algorithm.to_dict(),
        "average": method.average and method.average.to_dict(),
    }


def _without(entries: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name not in names}


def run_path(out: Path, spelling: str, seed: int) -> Path:
    """Return where a method's run with a seed lies."""
    return out / spelling / f"seed-{seed}"


def load_comparison(
    path: Path, workers: Workers | None = None, data_dir: str | Path | None = None, trust: bool = False
) -> Comparison:
    """Read back what a directory compares, perhaps on data that lie elsewhere now.

    With `trust` the code that it names may be imported, wherever it comes from.
    """
    comparison = _loaded(path, _checked(path, read_json(path / COMPARED)), data_dir, trust)
    if workers is None:
        return comparison
    return replace(comparison, workers=workers)


def _checked(path: Path, written: dict[str, Any]) -> dict[str, Any]:
    """Return what is written of a comparison in today's words, or refuse it."""
    record = config_of_today(written)
    check(path / COMPARED, record, COMPARISON)
    return record


def _comparison_of(path: Path, record: dict[str, Any], data_dir: str | Path | None, by: NamedBy) -> Comparison:
    try:
        return _from_record(record, data_dir, by)
    except (KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{path / COMPARED} is not a comparison: {error}") from None


def _from_record(record: dict[str, Any], data_dir: str | Path | None, by: NamedBy) -> Comparison:
    """Undo `Comparison.to_dict`; earlier versions wrote less about it."""
    methods = [_method(entry) for entry in record["methods"]]
    about = record["about"]
    return Comparison(
        _recipe(record["task"], data_dir, by),
        methods,
        record["seeds"],
        Settings(**record["settings"]),
        Sampler.registry.from_dict(record["sampler"]),
        recorded_workers(about),
        about["command"],
        tuple(map(Monitor.from_dict, about.get("watch", ()))),
        _flatness(about.get("flatness")),
        Extras.from_dict(about.get("report") or {}),
        about.get("checkpoint_every"),
        tuple(about.get("keep_checkpoints", ())),
        by,
    )


def _recipe(record: dict[str, Any], data_dir: str | Path | None, by: NamedBy) -> TaskRecipe:
    if data_dir is not None:
        record = moved(record, data_dir)
    return TaskRecipe.from_dict(record, by)


def _flatness(record: dict[str, Any] | None) -> Flatness | None:
    if not record:
        return None
    return Flatness(**record)


def _method(record: dict[str, Any]) -> Method:
    # The spelling names the classes; their settings stand in the record.
    named = parse_method(record["spelling"])
    algorithm = type(named.algorithm).registry.from_dict(record["algorithm"])
    if named.average is None or not record["average"]:
        return Method(record["spelling"], algorithm)
    average = type(named.average).registry.from_dict(record["average"])
    return Method(record["spelling"], algorithm, average)


def _loaded(path: Path, record: dict[str, Any], data_dir: str | Path | None = None, trust: bool = False) -> Comparison:
    """Return the comparison that a record describes, with the parts that it names."""
    by = NamedBy(path / COMPARED, trust, path, recorded_files(record["about"]))
    enter_recorded(record["about"], by)
    return _comparison_of(path, record, data_dir, by)


def names_outside_parts(path: Path) -> bool:
    """Say whether a comparison has parts from outside, which would have to be imported to make it again."""
    return bool(_checked(path, read_json(path / COMPARED))["about"].get(ORIGINS))


def runs_in(path: Path) -> list[Path]:
    """Return the run directories that a path stands for: itself, or those of a comparison that have begun."""
    return list(filter(is_run, planned_runs(path)))


def planned_runs(path: Path) -> list[Path]:
    """Return the run directories that a path stands for: itself, a comparison's, begun or not, or those below it."""
    if is_comparison(path):
        record = _checked(path, read_json(path / COMPARED))
        if not record["about"].get(ORIGINS):
            return [run for run, _ in _loaded(path, record).runs(path)]
        # From the record alone: to look at runs imports no code of theirs.
        pairs = itertools.product(record["methods"], record["seeds"])
        return [run_path(path, method["spelling"], seed) for method, seed in pairs]
    below = [] if is_run(path) else runs_below(path)
    if below:
        return below
    require_run(path)
    return [path]


def claim(comparison: Comparison, out: Path) -> None:
    """Enter the comparison in its directory, or check that the one there is the same."""
    if is_comparison(out):
        _refuse_unwritable(out)
        _renew(comparison, out)
        return
    if not _is_free(out):
        raise ConfigError(f"{out} exists and is not a comparison; choose another {PARAMETER}", parameter="out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be created: {error.strerror}", parameter="out") from None
    write_json(out / COMPARED, comparison.to_dict())


def _refuse_unwritable(out: Path) -> None:
    """Refuse to go on where the report could not be written: now, because training takes long."""
    if not is_writable(out):
        raise ConfigError(
            f"{out} cannot be written, and runs and report go there; go on with a copy, or get the right to write"
        )


def _is_free(out: Path) -> bool:
    """Say whether a comparison may begin here: nothing is there, or an empty directory."""
    if not out.exists():
        return True
    return out.is_dir() and not any(out.iterdir())


def _renew(comparison: Comparison, out: Path) -> None:
    """Check that a directory holds the same comparison, or a part of it, and note what is asked of it anew."""
    # Read now, also where the comparison itself comes from this file: another command may have renewed it meanwhile.
    asked, written = comparison.to_dict(), read_json(out / COMPARED)
    # Where the data lie does not decide the results; and what earlier versions did not write is filled in.
    recorded = _comparison_of(out, _checked(out, written), asked["task"]["data_dir"], comparison.by).to_dict()
    difference = _other_than_grown(recorded, asked)
    if difference:
        raise ConfigError(f"{out} holds another comparison: {difference}; choose another {PARAMETER}", parameter="out")
    # So that resuming measures and reports the same.
    grown = asked | {"about": written["about"] | _renewed(asked["about"])}
    if grown != written:
        write_json(out / COMPARED, grown)


def _other_than_grown(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return in what two comparisons differ besides methods, seeds and rounds that have come; empty if in nothing."""
    for part in ("task", "sampler"):
        # The seed is each run's own.
        before, now = _without(recorded[part], "seed"), _without(asked[part], "seed")
        if before != now:
            return f"its {_differing(before, now)}"
    before, now = (_without(each["settings"], "cohort_memory") for each in (recorded, asked))  # it decides no result
    if _without(before, "rounds") != _without(now, "rounds"):
        return f"its {_differing(before, now)}"
    if now["rounds"] < before["rounds"]:
        return f"it has {before['rounds']} rounds, which is more than {now['rounds']}"
    return _lost(recorded, asked) or _laid_out(recorded, asked)


def _differing(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return the first entry in which two records differ, with its values."""
    for name in {**recorded, **asked}:
        before, now = recorded.get(name), asked.get(name)
        if isinstance(before, dict) and isinstance(now, dict) and before != now:
            return f"{name}: {_differing(before, now)}"
        if before != now:
            return f"{name} is {before!r:.60}, not {now!r:.60}"
    return ""


def _lost(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return which method or seed of before is not asked for, or is another now."""
    methods = {method["spelling"]: method for method in asked["methods"]}
    for method in recorded["methods"]:
        name = method["spelling"]
        if name not in methods:
            return f"it compares {name} too; name it"
        if methods[name] != method:
            return f"{name} has other parameters there"
    for seed in recorded["seeds"]:
        if seed not in asked["seeds"]:
            return f"it has seed {seed} too; name it"
    return ""


def _laid_out(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return which method cannot have more rounds than it was planned with."""
    if recorded["settings"]["rounds"] == asked["settings"]["rounds"]:
        return ""
    for method in recorded["methods"]:
        if method["average"]:
            return f"{method['spelling']} averages over the planned rounds, so it cannot be made longer"
    return ""


def _renewed(about: dict[str, Any]) -> dict[str, Any]:
    # What is not asked for this time stays as it was asked for before.
    return {name: about[name] for name in RENEWED if about.get(name)}
