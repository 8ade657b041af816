"""Several methods and seeds from a script: `ff.compare("cifar10", ["fedavg", "fedsam"], "runs/one", rounds=100)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.engines.choice import EngineConfig, Workers, chosen
from flatfed.experiments.comparing.compare import ComparisonOutcome
from flatfed.experiments.comparing.compare import compare as run_comparison
from flatfed.experiments.comparing.comparison import Comparison, run_path
from flatfed.experiments.comparing.comparison_from_options import comparison_of, first_task, flatness_from
from flatfed.experiments.comparing.side_by_side import Unfollowed
from flatfed.experiments.measuring.flatness import measure_flatness
from flatfed.experiments.running.run import Run, load_run, warned
from flatfed.experiments.scripting.tasks_by_name import NO_OPTIONS, options_of
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from flatfed.reports.tables.table import aggregates, markdown, records
from flatfed.reports.write import write_report
from flatfed.runs.history import Row

OnRow = Callable[[Path, Row], None]


@dataclass(frozen=True)
class Compared:
    """What came of a comparison: its runs, and the table of them."""

    comparison: Comparison = field(repr=False)
    path: Path
    outcome: ComparisonOutcome = field(repr=False)

    @cached_property
    def results(self) -> list[Result]:
        """Each method with its runs over seeds."""
        return collect(self.outcome.runs, warned)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each run: method, seed, metrics, costs and status."""
        return records(self.results)

    @property
    def methods(self) -> list[dict[str, Any]]:
        """A row for each method: means over seeds and their deviations."""
        return aggregates(self.results)

    @property
    def failed(self) -> dict[str, str]:
        """Runs that ended with an error, by their folder, and why; one that diverged is a result."""
        summaries = {run.path: run.summary for result in self.results for run in result.runs}
        reasons = {path: summary["reason"] for path, summary in summaries.items() if summary["status"] == "failed"}
        return {str(path): reason for path, reason in {**reasons, **self.outcome.unfinished}.items()}

    def table(self) -> str:
        """Return the table of methods as Markdown, with a line on what it shows."""
        return markdown(self.results)

    def run(self, method: str, seed: int | None = None) -> Run:
        """Return one of the runs, by default the one with the first seed."""
        spellings = [each.spelling for each in self.comparison.methods]
        if method not in spellings:
            raise ConfigError(f"{method!r:.60} was not compared; there are {', '.join(spellings)}")
        return load_run(run_path(self.path, method, self.comparison.seeds[0] if seed is None else seed))

    def save(self, folder: str | Path | None = None) -> list[Path]:
        """Write table, settings and curves, by default beside the runs, and return the files."""
        place = self.path if folder is None else Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        return write_report(self.results, place, self.comparison.title, self.comparison.command)

    def __str__(self) -> str:
        return self.table()


class _Rows(Unfollowed):
    """Follows a comparison for a script."""

    def __init__(self, on_row: OnRow) -> None:
        self.on_row = on_row

    def played(self, run: Path, row: Row) -> None:
        """Hand on a round."""
        self.on_row(run, row)


def compare(
    dataset: str,
    methods: Sequence[str],
    out: str | Path,
    *,
    seeds: Sequence[int] = (0,),
    data: Mapping[str, Any] = NO_OPTIONS,
    flatness: bool = False,
    jobs: int | None = None,
    workers: Workers | None = None,
    engine: str | EngineConfig | None = None,
    on_row: OnRow = lambda run, row: None,
    **options: Any,
) -> Compared:
    """Train each method with each seed, as `flatfed compare` does, and return the runs and their table.

    Called again, it goes on with what was interrupted; with more methods, seeds or rounds it trains what is new. A
    method that diverges or fails is a row of the table, and the others go on.

    Args:
        dataset: the data set, by its id or the import path of a function that loads it.
        methods: spellings such as `"fedavg"`, `"feddyn(alpha=0.1)+sam"`.
        out: the folder of the comparison, which `flatfed resume` and `flatfed show` take too.
        seeds: each method is trained with each.
        data: options of the data set: `{"path": "hospitals.csv", "target": "risk"}`.
        flatness: measure the flatness of every finished run and show it in the table.
        jobs: runs at once, each in a process of its own; None is by cores and memory, one after another where
            `workers` says how many processes each run has.
        workers: where clients run: processes for each run, 0 for this one; `"auto"` by default.
        engine: another engine, by its id or as an object.
        on_row: called with a run's folder and each history row.
        options: those of `flatfed compare` by their names there: `rounds`, `lr`, `clients`, `per_round`, `alpha`, ...;
            and `set`, what --set sets: `{"rho": 0.1, "fedgloss:beta": 100}`.
    """
    _check_names(dataset, methods, seeds)
    read = options_of(data, options)
    comparison = comparison_of(
        dataset,
        list(methods),
        list(seeds),
        read,
        workers=chosen(engine, "auto" if workers is None else workers),
        command=f"ff.compare({dataset!r}, {list(methods)!r}, ...)",
        flatness=flatness_from(read) if flatness else None,
    )
    first_task(comparison)
    comparison.check_extras()
    outcome = run_comparison(comparison, Path(out), _Rows(on_row), jobs=jobs)
    if comparison.flatness is not None:
        measure_flatness(comparison.flatness, outcome.directories, comparison.workers, lambda *_: None, warned)
    return Compared(comparison, Path(out), outcome)


def _check_names(dataset: str, methods: Sequence[str], seeds: Sequence[int]) -> None:
    """Refuse what is of another kind than it should be."""
    if not isinstance(dataset, str):
        raise ConfigError(f"dataset must be a data set's id or import path, not a {type(dataset).__name__}")
    if isinstance(methods, str) or not methods or not all(isinstance(method, str) for method in methods):
        raise ConfigError('methods must be a list of spellings such as ["fedavg", "feddyn+sam"]')
    if isinstance(seeds, str | int) or not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError("seeds must be different whole numbers, such as [0, 1, 2]")
