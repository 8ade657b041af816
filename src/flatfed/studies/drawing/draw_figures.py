"""Drawing a study's figures: what is drawn already and unchanged stays, one picture that fails does not stop others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.engines.choice import Workers
from flatfed.reports.figures.drawing.style import require_matplotlib
from flatfed.reports.figures.drawing.writing import ENDINGS, PictureFiles
from flatfed.runs.records.files import BusyError, held, is_writable, replace_file
from flatfed.studies.drawing.drawers import DRAWERS, Drawing
from flatfed.studies.drawing.picture_plan import Picture, plan_pictures

if TYPE_CHECKING:
    from flatfed.studies.run_study import RunningStudy

FOLDER = "figures"


class Follower(Protocol):
    """Who follows the drawing."""

    def show(self, name: str, done: int, total: int | None) -> None:
        """Hear what is being done, and how far it is."""

    def say(self, text: str) -> None:
        """Hear a remark."""


@dataclass
class DrawnFigures:
    """What became of the pictures, by their names."""

    drawn: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def draw_figures(
    running: RunningStudy, follower: Follower, workers: Workers | None = None, again: bool = False
) -> DrawnFigures:
    """Draw the figures of a study from its finished runs, into `figures` of its folder.

    Args:
        running: the study in its folder.
        follower: hears how far it is.
        workers: worker processes; by default those of the runs.
        again: also draw what is there and unchanged.
    """
    result = DrawnFigures()
    if not running.study.report.figures:
        return result
    require_matplotlib()
    folder = running.folder.path / FOLDER
    if not is_writable(folder):
        raise ConfigError(f"{folder} cannot be written; get the right to write there")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with held(folder):
            _draw_all(_Artist(running, folder, follower, workers), again, result)
    except BusyError:
        follower.say(f"another process draws the figures in {folder}")
    return result


def undrawn(running: RunningStudy) -> list[str]:
    """Return the pictures that are not there yet, or are of something else, by their names."""
    folder = running.folder.path / FOLDER
    return [
        picture.name
        for picture in plan_pictures(running).pictures
        if not _is_there(folder, _record(folder, picture), _key(running, picture))
    ]


def drawn_record(running: RunningStudy, picture: Picture) -> Mapping[str, Any]:
    """Return what is recorded of a picture, its numbers among it; empty where it is not drawn, or of something else."""
    folder = running.folder.path / FOLDER
    record = _record(folder, picture)
    if not record or not _is_there(folder, record, _key(running, picture)):
        return {}
    return record


def _draw_all(artist: _Artist, again: bool, result: DrawnFigures) -> None:
    plan = plan_pictures(artist.running)
    for remark in plan.remarks:
        artist.follower.say(remark)
    for picture in plan.pictures:
        try:
            is_drawn = artist.draw(picture, again)
        except FlatfedError as error:
            artist.follower.say(f"{picture.name}: not drawn: {error}")
            result.failed.append(picture.name)
            continue
        (result.drawn if is_drawn else result.unchanged).append(picture.name)


@dataclass(frozen=True)
class _Artist:
    """Draws pictures of one study."""

    running: RunningStudy
    folder: Path
    follower: Follower
    workers: Workers | None

    def draw(self, picture: Picture, again: bool) -> bool:
        """Draw a picture, unless it is there and unchanged; say whether it was drawn."""
        key, before = _key(self.running, picture), _record(self.folder, picture)
        if not again and _is_there(self.folder, before, key):
            return False
        self.follower.show(picture.name, 0, None)
        drawn = DRAWERS[picture.figure.draw](self._drawing(picture))
        files = [file.name for file in drawn.files]
        content = {"made_from": key, "files": files, "methods": picture.variants, "data": drawn.data}
        self._remove_old(before, files, picture.name)
        # Last: a picture without it is drawn again.
        replace_file(_record_file(self.folder, picture), f"{json.dumps(content, ensure_ascii=False)}\n".encode())
        return True

    def _remove_old(self, record: Mapping[str, Any], files: list[str], name: str) -> None:
        """Remove files of the picture as it was before that it no longer has."""
        for old in set(_files(record)) - set(files):
            # The record may have been changed: nothing else is touched.
            if old.startswith(name) and Path(old).name == old:
                (self.folder / old).unlink(missing_ok=True)

    def _drawing(self, picture: Picture) -> Drawing:
        """Return what it takes to draw a picture."""
        running = self.running
        first = picture.cells[0]
        return Drawing(
            picture.figure.values,
            picture.title,
            picture.setting,
            replace(running.resolver.comparison(first).recipe, seed=first.seed),
            [running.folder.run_of(cell) for cell in picture.cells],
            picture.variants,
            PictureFiles(self.folder, picture.name, ENDINGS),
            self.workers,
            running.resolver.by.is_believed,
            partial(self._show, picture.name),
            self.follower.say,
        )

    def _show(self, picture: str, name: str, done: int, total: int | None) -> None:
        self.follower.show(f"{picture}: {name}", done, total)


def _key(running: RunningStudy, picture: Picture) -> Any:
    """Return what a picture is made from, as a file would hold it: to compare it with what one does."""
    return json.loads(json.dumps(picture.made_from(running)))


def _is_there(folder: Path, record: Mapping[str, Any], key: Any) -> bool:
    return record.get("made_from") == key and all((folder / name).exists() for name in _files(record))


def _record_file(folder: Path, picture: Picture) -> Path:
    return folder / f"{picture.name}.json"


def _record(folder: Path, picture: Picture) -> dict[str, Any]:
    """Return a picture's record; empty where there is none that can be read."""
    try:
        content = json.loads(_record_file(folder, picture).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _files(record: Mapping[str, Any]) -> list[str]:
    files = record.get("files")
    return [name for name in files if isinstance(name, str)] if isinstance(files, list) else []
