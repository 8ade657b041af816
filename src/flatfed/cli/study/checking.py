"""`flatfed study check`: what a study would train and take, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.cli.output.progress import StepProgress, clock
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError, FlatfedError, nearest

if TYPE_CHECKING:
    from flatfed.experiments.planning.plan import Plan
    from flatfed.studies.run_study import RunningStudy


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


def check_study(running: RunningStudy, jobs: int) -> Checked:
    """Try every variant in every setting, and add up what their cells take."""
    from flatfed.studies.cells import Cell, choosing_cells
    from flatfed.studies.estimate import Pace, estimate, measure

    study = running.study
    choosing = choosing_cells(study)
    checked = Checked(
        study.title, len(study.methods), len(study.settings), len(study.seeds), running.count, len(choosing), jobs
    )
    paces: dict[str, Pace] = {}
    columns = list(study.columns())
    with StepProgress("methods in settings", at_once=False) as progress:
        for number, (setting, variant) in enumerate(columns):
            progress.show(f"{variant}, {setting}" if setting else variant, number, len(columns))
            points = study.points(variant)
            cell = Cell(setting, variant, study.seeds[0], points[0])
            try:
                for point in points:
                    running.resolver.comparison(Cell(setting, variant, study.seeds[0], point))
                plan = running.resolver.plan(cell)
                plan.check()
                _check_metric(study.select.metric, plan)
            except FlatfedError as error:
                checked.mistakes.append(f"{cell.name}: {error}")
                continue
            if setting not in paces:
                paces[setting] = measure(plan)
            runs = len(study.seeds)
            if len(points) > 1:
                runs += len(points) * len(study.select.seeds)
            one = estimate(plan, paces[setting])
            checked.seconds += runs * one.seconds / jobs
            checked.disk += runs * one.disk
            checked.exchanged += runs * one.exchanged
    return checked


def _check_metric(name: str, plan: Plan) -> None:
    """Refuse to choose by a metric that a task does not have."""
    from flatfed.core.task.metrics import declared

    known = ["loss", *declared(plan.task.metrics)]
    if name and name not in known:
        raise ConfigError(f"select.metric: {nearest(name, known, 'metric')}")


def print_check(checked: Checked) -> None:
    """Print what was found."""
    if checked.title:
        echo(checked.title)
    shape = f"{checked.variants} methods x {checked.settings} settings x {checked.seeds} seeds"
    more = f", {checked.choosing} of them to choose parameters" if checked.choosing else ""
    echo(f"{checked.cells} cells: {shape}{more}")
    for mistake in checked.mistakes:
        echo(f"Error: {mistake}", err=True)
    if not checked.mistakes:
        echo(f"about {clock(checked.seconds)} with {checked.jobs} at once, by steps timed here")
        echo(f"about {_size(checked.disk)} on disk; {_size(checked.exchanged)} between clients and server")


def _size(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1000:.0f} kB"
