"""The pictures of a study: which runs are on each, and which are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.runs.directory import RunDirectory
from flatfed.studies.cells import Cell
from flatfed.studies.drawing.figure import CLASSES, Figure, picture_name

if TYPE_CHECKING:
    from flatfed.studies.run_study import RunningStudy

FORMAT = 1
"""Counts changes of what is drawn: pictures of another number are drawn again."""


@dataclass(frozen=True)
class Picture:
    """One picture of a figure: a setting, with the runs that are on it.

    Attributes:
        name: of its files.
        figure: what it draws.
        setting: the one that it shows.
        cells: its runs; of a distribution of classes any one of the setting.
    """

    name: str
    figure: Figure
    setting: str
    cells: tuple[Cell, ...]

    @property
    def variants(self) -> list[str]:
        """What its runs are called."""
        return [cell.variant for cell in self.cells]

    @property
    def title(self) -> str:
        """What stands above it: the setting and, where nothing else says it, the method and the seed."""
        alone = self.variants if len(self.cells) == 1 else []
        seed = [f"seed {self.cells[0].seed}"] if self.figure.seeds else []
        return ", ".join(filter(None, (*alone, self.setting, *seed)))

    def made_from(self, running: RunningStudy) -> dict[str, Any]:
        """Return all that decides what is on it, ready for JSON: where that is the same, so is the picture."""
        key = {
            "format": FORMAT,
            "draw": self.figure.draw,
            "options": dict(self.figure.values),
            "setting": self.setting,
        }
        if self.figure.draw == CLASSES:
            recipe = running.resolver.comparison(self.cells[0]).recipe.to_dict()
            # Where the data lie decides nothing.
            del recipe["data_dir"]
            return {**key, "recipe": {**recipe, "seed": self.cells[0].seed}}
        return {**key, "runs": [[cell.variant, *_identity(running, cell)] for cell in self.cells]}


def _identity(running: RunningStudy, cell: Cell) -> tuple[str, int]:
    """Return what tells a run from all others, and how far it is: it may be made longer."""
    directory = RunDirectory.open(running.folder.run_of(cell))
    return str(directory.config["run"]), max(directory.checkpoints.rounds(), default=0)


@dataclass
class PicturePlan:
    """What is drawn, and what is said of runs that are not."""

    pictures: list[Picture] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def plan_pictures(running: RunningStudy) -> PicturePlan:
    """Return the pictures of a study's figures, of the seeds that each names or else of the first that is reported."""
    plan = PicturePlan()
    for name, figure in running.study.report.figures.items():
        for setting in figure.settings or running.study.settings:
            for seed in figure.seeds or (None,):
                _plan_pictures_of(running, name, figure, setting, seed, plan)
    return plan


def _plan_pictures_of(
    running: RunningStudy, name: str, figure: Figure, setting: str, named: int | None, plan: PicturePlan
) -> None:
    """Add the pictures of a figure for a setting and a seed; without one that is named, for the first."""
    seed = running.study.seeds[0] if named is None else named
    if figure.draw == CLASSES:
        cell = _first_cell(running, setting, seed)
        plan.pictures.append(Picture(picture_name(name, setting, seed=named), figure, setting, (cell,)))
        return
    reported = _reported(running, seed)
    own = running.study.methods_in(setting)
    chosen = [variant for variant in figure.methods or own if variant in own]
    shown = [([variant], variant) for variant in chosen] if figure.is_of_one_run else [(list(chosen), "")]
    for variants, alone in shown:
        whole = picture_name(name, setting, alone, named)
        _add(plan, whole, figure, setting, _finished(running, reported, setting, variants, whole, plan))


def _first_cell(running: RunningStudy, setting: str, seed: int) -> Cell:
    study = running.study
    variant = study.methods_in(setting)[0]
    return Cell(setting, variant, seed, study.points(variant)[0])


def _reported(running: RunningStudy, seed: int) -> dict[tuple[str, str], Cell]:
    """Return the cells of a seed, as far as their parameters are chosen."""
    cells = [cell for cell in running.cells() if not cell.chooses and cell.seed == seed]
    return {(cell.setting, cell.variant): cell for cell in cells}


def _add(plan: PicturePlan, name: str, figure: Figure, setting: str, cells: Sequence[Cell]) -> None:
    """Add a picture, or say that there are too few runs for it."""
    least, _, words = figure.runs
    if len(cells) < least:
        plan.remarks.append(f"{name}: not drawn, it takes {words} and {len(cells)} finished")
        return
    plan.pictures.append(Picture(name, figure, setting, tuple(cells)))


def _finished(
    running: RunningStudy,
    reported: dict[tuple[str, str], Cell],
    setting: str,
    variants: Sequence[str],
    name: str,
    plan: PicturePlan,
) -> list[Cell]:
    """Return the runs that finished; the others are left out with a remark."""
    cells = []
    for variant, cell, state in _standings(running, reported, setting, variants):
        if cell is not None and state == "finished":
            cells.append(cell)
        else:
            plan.remarks.append(f"{name}: {variant} is left out, its run is {state}")
    return cells


def _standings(
    running: RunningStudy, reported: dict[tuple[str, str], Cell], setting: str, variants: Sequence[str]
) -> Iterator[tuple[str, Cell | None, str]]:
    """Yield for each variant its cell, and how it stands."""
    for variant in variants:
        cell = reported.get((setting, variant))
        if cell is None:
            yield variant, None, "waiting for its parameters"
        else:
            yield variant, cell, running.folder.standing(cell).state
