"""How each kind of figure is drawn of runs: the code of the command of the same name, with the names of the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.engines.choice import Workers
from flatfed.experiments.measuring.corruption_request import corruptions_named
from flatfed.experiments.measuring.feature_maps import map_clients, map_features
from flatfed.experiments.measuring.flatness import measure_runs
from flatfed.experiments.measuring.landscapes import View, landscape
from flatfed.experiments.measuring.progress import OnStep, Say, nobody
from flatfed.experiments.measuring.protocols import asked_for
from flatfed.experiments.measuring.robustness import robustness_of_methods
from flatfed.experiments.measuring.saved_runs import SavedRun, open_all
from flatfed.experiments.spelling.kinds import at_most
from flatfed.experiments.spelling.measured import severities_of
from flatfed.experiments.tasks.division import division_of
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.flatness.drawable import Embedding
from flatfed.reports import flatness_figures
from flatfed.reports import landscape as landscape_figures
from flatfed.reports.class_distribution import draw_class_distribution
from flatfed.reports.figures.drawing.writing import PictureFiles
from flatfed.reports.figures.embedding import draw_embeddings
from flatfed.reports.robustness.methods import draw_runs, left_out
from flatfed.studies.drawing.figure import CLASSES


@dataclass(frozen=True)
class Drawing:
    """What it takes to draw a picture.

    Attributes:
        options: of the figure, all of them.
        title: what stands above, where the figure says nothing else.
        setting: the one that is shown.
        recipe: of the setting's task, with the seed of the runs.
        runs: their directories.
        called: what each is called.
        pictures: where the files go.
        workers: worker processes; results do not depend on them.
        trust: import the code that runs name, wherever it comes from.
        show: hears how far it is.
        say: hears remarks.
    """

    options: Mapping[str, Any]
    title: str
    setting: str
    recipe: TaskRecipe
    runs: Sequence[Path]
    called: Sequence[str]
    pictures: PictureFiles
    workers: Workers | None = None
    trust: bool = False
    show: OnStep = nobody
    say: Say = nobody

    @property
    def files(self) -> list[Path]:
        """The files of the main picture."""
        return self.pictures.of(self.pictures.name)

    def opened(self, keeps_tasks: bool = False) -> list[SavedRun]:
        """Open the runs."""
        return open_all(self.runs, keeps_tasks, self.trust)


@dataclass(frozen=True)
class Drawn:
    """The files of a picture, and the numbers on it, ready for JSON."""

    files: Sequence[Path]
    data: Any = field(repr=False)


def draw_landscape(drawing: Drawing) -> Drawn:
    """Evaluate a landscape and draw it."""
    view = View.of(drawing.options)
    scene = landscape(
        drawing.runs,
        view,
        workers=drawing.workers,
        data_dir=drawing.recipe.data_dir,
        trust=drawing.trust,
        on_point=drawing.show,
        say=drawing.say,
        called=drawing.called,
    )
    title = drawing.options["title"] or drawing.title
    files = landscape_figures.draw(view.kind, scene.grids, scene.lines, drawing.pictures, title, scene.about)
    return Drawn(files, scene.to_dict())


def draw_flatness(drawing: Drawing) -> Drawn:
    """Measure runs and draw what can be drawn of it."""
    options, asked = drawing.options, asked_for(drawing.options)
    measured = measure_runs(
        drawing.opened(),
        asked.measurements,
        data=asked.data,
        samples=at_most(options["samples"]),
        seed=options["seed"],
        weights=options["weights"],
        space=options["space"],
        data_dir=drawing.recipe.data_dir,
        workers=drawing.workers,
        on_step=drawing.show,
        say=drawing.say,
        opened=asked.opened,
        called=drawing.called,
    )
    files = flatness_figures.draw(measured, drawing.pictures, drawing.title)
    if not files:
        drawing.say(f"{drawing.pictures.name}: nothing that was measured can be drawn; measure spectrum, say")
    return Drawn(files, [run.to_dict() for run in measured])


def draw_embedding(drawing: Drawing) -> Drawn:
    """Map the features that models have of test examples, and draw the maps."""
    maps: list[Embedding] = []
    for number, (run, name) in enumerate(zip(drawing.opened(), drawing.called, strict=True)):
        drawing.show(name, number, len(drawing.runs))
        maps += _maps(drawing, run, name)
    draw_embeddings(maps, drawing.files, drawing.title)
    return Drawn(drawing.files, [_plain(map) for map in maps])


def _maps(drawing: Drawing, run: SavedRun, name: str) -> list[Embedding]:
    options, data_dir = drawing.options, drawing.recipe.data_dir
    if options["clients"] is None:
        return map_features([run], options["seed"], data_dir, weights=options["weights"], called=[name])
    return map_clients([run], options["clients"], options["seed"], data_dir, called=[name])


def _plain(map: Embedding) -> dict[str, Any]:
    return {
        "label": map.label,
        "places": map.places.tolist(),
        "classes": map.classes.tolist(),
        "models": list(map.models),
        "whose": map.whose.tolist(),
        "note": map.note,
    }


def draw_robustness(drawing: Drawing) -> Drawn:
    """Test models on corrupted images and draw how they do."""
    options = drawing.options
    methods = robustness_of_methods(
        list(drawing.runs),
        severities=severities_of(options["severity"]),
        names=corruptions_named(options["corruptions"]),
        data_dir=drawing.recipe.data_dir,
        workers=drawing.workers,
        trust=drawing.trust,
        on_corruption=drawing.show,
        say=drawing.say,
        called=drawing.called,
    )
    for remark in left_out(methods):
        drawing.say(f"{drawing.pictures.name}: {remark}")
    draw_runs(methods, drawing.files, drawing.setting)
    data = [{**run.to_dict(), "method": method.label} for method in methods for run in method.runs]
    return Drawn(drawing.files, data)


def draw_classes(drawing: Drawing) -> Drawn:
    """Draw how many samples of each class each client holds."""
    division = division_of(drawing.recipe)
    draw_class_distribution(division.table, drawing.files, division.title)
    return Drawn(drawing.files, {**division.report, "table": division.table.tolist()})


DRAWERS: Mapping[str, Callable[[Drawing], Drawn]] = {
    "landscape": draw_landscape,
    "flatness": draw_flatness,
    "embedding": draw_embedding,
    "robustness": draw_robustness,
    CLASSES: draw_classes,
}
"""What draws each kind of figure."""
