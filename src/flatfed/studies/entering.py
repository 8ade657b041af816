"""Entering a study in its folder: what is there already and still matches goes on; what does not is refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.settings import defaults
from flatfed.core.errors import PARAMETER, ConfigError, FlatfedError
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.experiments.tasks.recipe import usual_recipe
from flatfed.runs.directory import is_run
from flatfed.studies.cells import TUNING, Cell, Resolver, description, differences
from flatfed.studies.drawing.figure import Figure
from flatfed.studies.folder import FILE, StudyFolder
from flatfed.studies.packing.unpack import refuse_packed
from flatfed.studies.parts import Reporting, Selection
from flatfed.studies.study import Study

Changes = dict[str, tuple[Any, Any]]
ROUNDS = "settings.rounds"
SHOWN = 5
"""How many cells that do not match are listed."""


def content_of(study: Study) -> dict[str, Any]:
    """Return a study, ready for JSON."""
    content = asdict(study)
    # Where it was read decides nothing.
    del content["file"], content["lines"]
    return content


def recorded_study(folder: StudyFolder) -> Study:
    """Return the study that a folder holds."""
    record = folder.record()
    if "study" not in record:
        raise ConfigError(f"{folder.path} is not the folder of a study")
    refuse_packed(folder.path, record)
    try:
        return _study_of(record["study"])
    except FlatfedError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{folder.path / FILE} does not hold a study as this version of flatfed writes it "
            f"({type(error).__name__}: {error}); run the study's file again"
        ) from None


def _study_of(recorded: dict[str, Any]) -> Study:
    content = dict(recorded)
    select = content.pop("select")
    report = dict(content.pop("report"))
    report["figures"] = {name: Figure.recorded(figure) for name, figure in report.get("figures", {}).items()}
    grid = {variant: _tuples(searched) for variant, searched in content.pop("grid").items()}
    tune = {
        variant: {name: _tuples(range) for name, range in space.items()}
        for variant, space in content.pop("tune", {}).items()
    }
    parts: dict[str, Any] = {"grid": grid, "tune": tune, **_tuples(content)}
    return Study(select=Selection(**_tuples(select)), report=_known(Reporting(**_tuples(report))), **parts)


def _known(report: Reporting) -> Reporting:
    """Return what is reported without a published table that there is not: earlier versions took any text for one."""
    try:
        report.published_values()
    except ConfigError:
        return replace(report, published="")
    return report


def _tuples(content: dict[str, Any]) -> dict[str, Any]:
    """Return entries with tuples where JSON has lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def enter(
    study: Study, folder: StudyFolder, resolver: Resolver, cells: Sequence[Cell], command: str = "", file: str = ""
) -> list[str]:
    """Write what is studied into the folder, and return remarks; a cell that began as something else is an error.

    `command` and `file` say where it comes from.
    """
    _refuse_taken(folder)
    _refuse_impossible(resolver, cells)
    mismatches: dict[Cell, Changes] = {}
    for cell in cells:
        changed = changes(folder, resolver, cell)
        if changed and is_run(folder.run_of(cell)):
            if not is_extended(changed, resolver, cell):
                mismatches[cell] = changed
        elif changed and folder.standing(cell).state == "failed":
            # Why it failed may have been mended.
            folder.retry(cell)
    if mismatches:
        raise ConfigError(mismatch_message(mismatches, folder), parameter="out")
    folder.write_record({"study": content_of(study), "command": command, "file": file})
    return _remarks(study, folder, cells)


def _remarks(study: Study, folder: StudyFolder, cells: Sequence[Cell]) -> list[str]:
    """Return what is to be said of runs that are there and are not of the study."""
    known = {str(cell.path) for cell in cells}
    reported = [cell for cell in cells if not cell.chooses]
    if len(reported) < len(list(study.columns())) * len(study.seeds):
        # What is not chosen yet may be there already.
        return []
    # Trials of `study tune` are no cells of the study, and lie in a folder of their own.
    gone = [path for path in folder.begun_paths() if path not in known and Path(path).parts[0] != TUNING]
    if not gone:
        return []
    return [f"{len(gone)} runs of before are not part of the study any more, such as {gone[0]}; they stay there"]


def _refuse_impossible(resolver: Resolver, cells: Sequence[Cell]) -> None:
    """Refuse a study of which nothing can be trained; a single cell that cannot be is a result like others."""
    columns = {(cell.setting, cell.variant): cell for cell in reversed(cells)}
    first: ConfigError | None = None
    for cell in columns.values():
        try:
            resolver.comparison(cell)
        except ConfigError as error:
            first = first or error.within(cell.name)
        else:
            return
    if first is not None:
        raise first


def changes(folder: StudyFolder, resolver: Resolver, cell: Cell) -> Changes:
    """Return in what a cell differs from what it began as: nothing where it has not begun, or cannot be made."""
    before = folder.begun_as(cell)
    if before is None:
        return {}
    try:
        now = description(resolver.comparison(cell))
        return differences(filled(before, now), now)
    except ConfigError:
        # Its process will say it.
        return {}


def filled(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a cell began as, with what earlier versions did not write: it was as it is where nothing is said."""
    usual = {"settings": defaults(), "task": usual_recipe()}
    filled = dict(before)
    for part, values in usual.items():
        later = {name: values.get(name) for name in now[part] if name not in before[part]}
        filled[part] = {**before[part], **later}
    filled["methods"] = [_of_today(entry) for entry in before["methods"]]
    return filled


def _of_today(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a method as this version writes it: parameters that came later have their defaults."""
    families: dict[str, Registry[Any]] = {"algorithm": Algorithm.registry, "average": Average.registry}
    try:
        today = {part: of.from_dict(method[part]).to_dict() if method[part] else None for part, of in families.items()}
    except ConfigError:  # of another version, so that it is another method
        return dict(method)
    plain: dict[str, Any] = json.loads(json.dumps(today))
    return plain


def _refuse_taken(folder: StudyFolder) -> None:
    """Refuse a folder that holds something else."""
    path = folder.path
    if not path.exists():
        return
    # Another process may be about to write the record: what is hidden is on its way there.
    visible = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")} if path.is_dir() else {""}
    if visible and FILE not in visible:
        raise ConfigError(f"{path} exists and is not a study; choose another {PARAMETER}", parameter="out")
    refuse_packed(path, folder.record())


def is_extended(changed: Changes, resolver: Resolver, cell: Cell) -> bool:
    """Say whether a cell is the same as before, perhaps with more rounds."""
    if not changed:
        return True
    if set(changed) != {ROUNDS}:
        return False
    before, now = changed[ROUNDS]
    # A weight average is laid out over the planned rounds.
    return bool(now > before) and resolver.comparison(cell).methods[0].average is None


def mismatch_message(mismatches: dict[Cell, Changes], folder: StudyFolder) -> str:
    """Return what is said of cells that began as something else."""
    lines = []
    for cell, changed in list(mismatches.items())[:SHOWN]:
        words = ", ".join(f"{name} was {old!r} and is {new!r}" for name, (old, new) in changed.items())
        lines.append(f"  {cell.name}: {words}")
    if len(mismatches) > SHOWN:
        lines.append(f"  and {len(mismatches) - SHOWN} more")
    quoted = shlex.quote(str(folder.path))
    return (
        f"{len(mismatches)} cells of {folder.path} began as something else:\n"
        + "\n".join(lines)
        + f"\ngive what has changed a name of its own, remove these runs from {quoted}, or choose another {PARAMETER}"
    )
