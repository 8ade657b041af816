"""The presets of the papers: every table and figure has one, each can be planned, and each runs on synthetic data."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from flatfed.algorithms.weight_averaging.swa import SWA
from flatfed.core.method.algorithm import Average
from flatfed.studies.cells import Cell, Resolver, description
from flatfed.studies.drawing.draw_figures import draw_figures
from flatfed.studies.presets import Preset, Scale, find_preset, paper_names, presets_of
from flatfed.studies.reporting import write_study_report
from flatfed.studies.reporting.measuring import measure_study
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.workers.working import play_cell
from studies.bench import Nobody
from studies.paper_items import COUNTS, SKETCHES, items_of

PRESETS = [preset for paper in paper_names() for preset in presets_of(paper).values()]
STUDIES = [preset.id for preset in PRESETS if not preset.nothing]
# Each draws all pictures of its report, kinds of which have tests of their own: a third; `make battery` takes all.
SMOKED = STUDIES if os.environ.get("FLATFED_BATTERY") else STUDIES[::3]
ITEMS = [f"{paper}/{item}" for paper in paper_names() for item in items_of(paper)]


def test_the_five_papers_have_46_tables_and_58_figures() -> None:
    assert sum(tables for tables, _ in COUNTS.values()) == 46
    assert sum(figures for _, figures in COUNTS.values()) == 58
    assert set(paper_names()) <= set(COUNTS)


@pytest.mark.parametrize("paper", paper_names())
def test_a_paper_has_its_items_and_no_others(paper: str) -> None:
    assert sorted(presets_of(paper)) == sorted(items_of(paper))


@pytest.mark.parametrize("id", ITEMS)
def test_an_item_is_a_study_or_says_why_there_is_none(id: str) -> None:
    preset = find_preset(id)
    assert preset.id == id and preset.shows and preset.source
    assert bool(preset.nothing) != bool(preset.study)
    if id in SKETCHES:
        assert preset.nothing


def columns(preset: Preset, scale: Scale) -> list[Cell]:
    """Return a cell of every method in the first setting, with every point of a grid, and of a method in every one."""
    study = preset.resolved(scale)
    first_setting, first_method = next(study.columns())
    return [
        Cell(setting, variant, study.seeds[0], point)
        for setting, variant in study.columns()
        if setting == first_setting or variant == first_method
        for point in study.points(variant)
    ]


@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize("id", STUDIES)
def test_the_cells_of_a_study_can_be_planned(id: str, scale: Scale) -> None:
    preset = find_preset(id)
    resolver = Resolver(preset.resolved(scale))
    for cell in columns(preset, scale):
        comparison = resolver.comparison(cell)
        assert comparison.settings.rounds == resolver.rounds(cell)
        _check_average(comparison.methods[0].average, comparison.settings.rounds)
        # The network's name and options too; its weights are not needed for that.
        recipe = comparison.recipe
        assert recipe.dataset != "synthetic"
        _check_names(recipe.dataset, dict(recipe.data_options), recipe.model, dict(recipe.model_options))


def _check_average(average: Average | None, rounds: int) -> None:
    """Refuse an average of fewer than two models: it would be the method without it."""
    if isinstance(average, SWA):
        captured = [round for round in range(average.first(rounds), rounds) if average.captures(round, rounds)]
        assert len(captured) >= 2


def _check_names(dataset: str, options: dict[str, object], model: str | None, model_options: dict[str, object]) -> None:
    """Refuse data sets, networks and options that there are not; no file is read for it."""
    from flatfed.data.catalogue import find
    from flatfed.models.catalogue import with_defaults

    source = find(dataset)
    assert set(options) <= set(source.options), f"{dataset} has no {set(options) - set(source.options)}"
    if model is not None:
        known = with_defaults(model, {})
        assert set(model_options) <= set(known), f"{model} has no {set(model_options) - set(known)}"


@pytest.mark.parametrize("id", STUDIES)
def test_what_small_changes_is_smaller_and_is_told(id: str) -> None:
    preset = find_preset(id)
    cells = {scale: columns(preset, scale) for scale in ("paper", "small")}
    rounds = {scale: max(Resolver(preset.resolved(scale)).rounds(cell) for cell in cells[scale]) for scale in cells}
    assert rounds["small"] <= rounds["paper"]
    if preset.content("small") | {"title": ""} != preset.content("paper") | {"title": ""}:
        assert preset.note


# --- smoke --------------------------------------------------------------------------------------------------------

TRAINED: dict[str, Path] = {}
"""Runs of earlier studies by what decides them: items of a paper have many in common."""


@pytest.mark.filterwarnings("ignore:.*divides updates by K")
@pytest.mark.parametrize("id", SMOKED)
def test_the_smoke_of_a_study_runs_to_its_report(id: str, tmp_path: Path) -> None:
    preset = find_preset(id)
    study = preset.resolved("smoke")
    running = RunningStudy(study, tmp_path / "out")
    assert set(study.methods) == set(preset.resolved("small").methods)
    assert 1 <= len(study.settings) <= 2 and study.seeds == (0,)
    assert {running.resolver.dataset(setting) for setting in study.settings} == {"synthetic"}
    assert "synthetic" in study.title
    running.enter()
    for cell in running.cells():
        assert running.resolver.rounds(cell) <= 3
        _train(running, cell)
    running.work(Nobody())
    states = {cell.name: running.folder.standing(cell) for cell in running.cells()}
    assert {standing.state for standing in states.values()} <= {"finished", "diverged"}, states
    remarks: list[str] = []
    measure_study(running, lambda *_: None, remarks.append)
    assert not remarks
    files = write_study_report(running.table(), running.folder.path, remarks.append)
    assert "synthetic" in (tmp_path / "out" / "table.json").read_text(encoding="utf-8")
    assert files
    pictures = draw_figures(running, Listener(remarks), workers=0)
    assert not pictures.failed, remarks
    assert bool(pictures.drawn) == bool(study.report.figures)


@dataclass
class Listener:
    """Keeps the remarks on pictures."""

    remarks: list[str]

    def show(self, name: str, done: int, total: int | None) -> None:
        """Leave progress alone."""

    def say(self, text: str) -> None:
        """Keep a remark."""
        self.remarks.append(text)


def _train(running: RunningStudy, cell: Cell) -> None:
    """Train a cell in this process, or take the run of an earlier study that is the same bit for bit."""
    decided = description(running.resolver.comparison(cell))
    digest = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()
    path = running.folder.run_of(cell)
    running.folder.note_begun(cell, decided)
    if digest in TRAINED:
        shutil.copytree(TRAINED[digest], path)
        return
    play_cell(running.resolver, running.folder, cell, lambda progress: None)
    TRAINED[digest] = path
