"""Comparisons: several methods and seeds on one task, each a run directory of its own, resumable as a whole."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from flatfed.algorithms.spelling import Method, parse_method
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import CheckpointError, ConfigError, EngineError, FlatfedError
from flatfed.core.round.sampling import Sampler
from flatfed.experiments.measuring.laboratory import laboratory
from flatfed.experiments.running.loading import moved
from flatfed.experiments.running.plan import Plan
from flatfed.experiments.running.play import play
from flatfed.experiments.running.resume import resume
from flatfed.experiments.running.run import Run
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.flatness.monitor import Monitor
from flatfed.reports.tables.extras import Extras
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.files import read_json, write_json
from flatfed.runs.history import Row
from flatfed.runs.metrics import describe_metrics, primary_of

FILE = "comparison.json"
RENEWED = ("watch", "flatness", "report", "checkpoint_every", "keep_checkpoints")
"""What the same command may ask for anew: it decides no result."""


@dataclass(frozen=True)
class Flatness:
    """What `--flatness` measures of every finished run: on at most so many training examples."""

    samples: int | None
    measurements: ClassVar[str] = "lambda_ratio,lpf"


@dataclass(frozen=True)
class Comparison:
    """What is compared: methods and seeds on one recipe, under one set of settings."""

    recipe: TaskRecipe
    methods: list[Method]
    seeds: list[int]
    settings: Settings
    sampler: Sampler
    workers: int | str = "auto"
    command: str = ""
    watch: tuple[Monitor, ...] = ()
    flatness: Flatness | None = None
    extras: Extras = field(default_factory=Extras)
    checkpoint_every: int | None = None
    keep_checkpoints: tuple[int, ...] = ()

    def check_extras(self) -> None:
        """Refuse what its table cannot show: methods that are not compared, targets that the metric cannot have."""
        self.extras.check_methods([method.spelling for method in self.methods])
        about = describe_metrics(self.recipe.build())
        self.extras.check_metric(primary_of([], about))

    def runs(self, out: Path) -> Iterator[tuple[Path, Callable[[], Plan]]]:
        """Yield each run's directory and what makes its plan: method by method, seed by seed."""
        for method in self.methods:
            for seed in self.seeds:
                yield run_path(out, method.spelling, seed), functools.partial(self._plan, method, seed)

    def _plan(self, method: Method, seed: int) -> Plan:
        recipe = replace(self.recipe, seed=seed)
        task = recipe.build()
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
        )

    def plan_of(self, method: Method) -> Plan:
        """Return the plan of a method with the first seed."""
        return self._plan(method, self.seeds[0])

    @property
    def title(self) -> str:
        """What is compared, in a line."""
        return describe_setting(self.recipe, self.settings, self.sampler)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison, ready for JSON; all but `about` decides the results."""
        methods = [
            {"spelling": m.spelling, "algorithm": m.algorithm.to_dict(), "average": m.average and m.average.to_dict()}
            for m in self.methods
        ]
        return {
            "format": 1,
            "task": self.recipe.to_dict(),
            "methods": methods,
            "seeds": self.seeds,
            "settings": {k: v for k, v in self.settings.to_dict().items() if k not in ("id", "seed")},
            "sampler": self.sampler.to_dict(),
            "about": {
                "workers": self.workers,
                "command": self.command,
                "watch": [monitor.to_dict() for monitor in self.watch],
                "flatness": None if self.flatness is None else {"samples": self.flatness.samples},
                "report": self.extras.to_dict() if self.extras != Extras() else None,
                "checkpoint_every": self.checkpoint_every,
                "keep_checkpoints": list(self.keep_checkpoints),
            },
        }


def compare(
    comparison: Comparison,
    out: Path,
    on_start: Callable[[Path, int], None] = lambda path, done: None,
    on_round: Callable[[Row], None] | None = None,
    say: Callable[[str], None] = lambda text: None,
    on_begin: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Run what is not finished yet and return all run directories.

    A run that diverges, stops or fails is recorded as such and the others go on. `on_begin` is called before the first
    one, when nothing was refused.
    """
    for path, plan in comparison.runs(out):
        if not is_run(path):
            plan().check()
    _claim(comparison, out)
    on_begin()
    paths = []
    for path, plan in comparison.runs(out):
        paths.append(path)
        try:
            done = len(RunDirectory.open(path).history().rows) if is_run(path) else 0
            on_start(path, done)
            if not is_run(path):
                _tell(path, play(plan(), path, on_round), say)
            elif RunDirectory.open(path).status()["status"] not in ("finished", "diverged"):
                place, workers = comparison.recipe.data_dir, comparison.workers
                _tell(path, resume(path, data_dir=place, workers=workers, on_round=on_round, say=say), say)
        except (EngineError, CheckpointError) as error:
            say(f"{path}: {error}")
    return [path for path in paths if _readable(path)]


def measure_flatness(
    flatness: Flatness,
    paths: list[Path],
    workers: int | str,
    on_run: Callable[[str, int, int], None] = lambda name, done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Measure every run that came to its end; one that cannot be measured is told of, and the others go on."""
    finished = [path for path in paths if RunDirectory.open(path).status()["status"] == "finished"]
    for number, path in enumerate(finished):
        on_run(f"flatness of {'/'.join(path.parts[-2:])}", number, len(finished))
        try:
            with laboratory(path, samples=flatness.samples, workers=workers, say=say) as lab:
                lab.measure(flatness.measurements)
        except FlatfedError as error:
            say(f"{path}: its flatness could not be measured: {error}")


def _tell(path: Path, run: Run, say: Callable[[str], None]) -> None:
    if run.reason:
        say(f"{path}: {run.status}: {run.reason}")


def _readable(path: Path) -> bool:
    try:
        RunDirectory.open(path).summary()
    except FlatfedError:
        return False
    return True


def describe_setting(recipe: TaskRecipe, settings: Settings, sampler: Sampler, pooled: bool = False) -> str:
    """Say in a line what was trained on: data, division, participation, rounds."""
    given = {name: value for name, value in recipe.partition.items() if name != "id" and value != ""}
    rule = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in given.items()
    )
    division = f"{recipe.partition['id']} partition" + (f" with {rule}" if rule else "")
    clients = f"{recipe.clients} clients" if recipe.clients is not None else f"{len(recipe.parts())} clients"
    if pooled:
        return f"{recipe.dataset}: all examples of {clients} ({division}) in one place, {settings.rounds} rounds"
    cohort = sampler.to_dict()
    part = f"{cohort['count']} a round" if "count" in cohort else f"each with probability {cohort['p']:g} a round"
    return f"{recipe.dataset}: {division}, {clients}, {part}, {settings.rounds} rounds"


def run_path(out: Path, spelling: str, seed: int) -> Path:
    """Return where a method's run with a seed lies."""
    return out / spelling / f"seed-{seed}"


def is_comparison(path: Path) -> bool:
    """Say whether a directory holds a comparison."""
    return (path / FILE).is_file()


def load_comparison(path: Path, workers: int | str | None = None, data_dir: str | Path | None = None) -> Comparison:
    """Read back what a directory compares, perhaps on data that lie elsewhere now."""
    data = read_json(path / FILE)
    try:
        methods = [_method(entry) for entry in data["methods"]]
        return Comparison(
            TaskRecipe.from_dict(data["task"] if data_dir is None else moved(data["task"], data_dir)),
            methods,
            data["seeds"],
            Settings(**data["settings"]),
            Sampler.registry.from_dict(data["sampler"]),
            data["about"]["workers"] if workers is None else workers,
            data["about"]["command"],
            tuple(Monitor.from_dict(entry) for entry in data["about"].get("watch", ())),
            Flatness(**flatness) if (flatness := data["about"].get("flatness")) else None,
            Extras.from_dict(data["about"].get("report") or {}),
            data["about"].get("checkpoint_every"),
            tuple(data["about"].get("keep_checkpoints", ())),
        )
    except (KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(f"{path / FILE} is not a comparison: {error}") from None


def runs_in(path: Path) -> list[Path]:
    """Return the run directories that a path stands for: itself, or those of a comparison."""
    if is_comparison(path):
        comparison = load_comparison(path)
        every = [run_path(path, m.spelling, s) for m in comparison.methods for s in comparison.seeds]
        return [p for p in every if is_run(p)]
    return [RunDirectory.open(path).path]


def runs_to_do(path: Path) -> int:
    """Return how many runs of a comparison have not begun; none if the path is a single run."""
    if not is_comparison(path):
        return 0
    comparison = load_comparison(path)
    return len(comparison.methods) * len(comparison.seeds) - len(runs_in(path))


def _method(entry: dict[str, Any]) -> Method:
    plain = parse_method(entry["spelling"])
    average = entry["average"]
    return Method(
        entry["spelling"],
        type(plain.algorithm).registry.from_dict(entry["algorithm"]),
        type(plain.average).registry.from_dict(average) if plain.average and average else None,
    )


def _claim(comparison: Comparison, out: Path) -> None:
    """Enter the comparison in its directory, or check that the one there is the same."""
    if is_comparison(out):
        here, there = comparison.to_dict(), read_json(out / FILE)
        place = here["task"]["data_dir"]  # where the data lie does not decide the results
        now = load_comparison(out, data_dir=place).to_dict()  # with what older versions did not write
        if here | {"about": None} != now | {"about": None}:
            raise ConfigError(f"{out} holds another comparison; choose another --out, or `flatfed resume {out}`")
        asked = {name: value for name, value in here["about"].items() if name in RENEWED and value}
        now["about"] = there["about"] | asked  # so that resuming measures and reports the same
        if now != there:
            write_json(out / FILE, now)
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not a comparison; choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be created: {error.strerror}") from None
    write_json(out / FILE, comparison.to_dict())
