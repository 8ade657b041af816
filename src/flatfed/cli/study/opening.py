"""A study by the name that was typed: a file, or a table or figure of a paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.cli.output.streams import echo
from flatfed.core.errors import PARAMETER, ConfigError

if TYPE_CHECKING:
    from flatfed.studies.presets import Preset, Scale
    from flatfed.studies.run_study import RunningStudy
    from flatfed.studies.study import Study
    from flatfed.tracking.tracker import Track

ENDINGS = (".yaml", ".yml", ".json")
"""Of files: a name with one of these is never that of a preset."""
RECORD = "preset.json"


@dataclass(frozen=True)
class OpenedStudy:
    """A study in its folder, and where it comes from."""

    running: RunningStudy

    @property
    def file(self) -> str:
        """The file that describes it, or nothing."""
        file = self.running.study.file
        if file is None or not file.is_file():
            return ""
        return str(file.resolve())

    def tell(self) -> None:
        """Tell on standard error what is to be known before it runs."""

    def record(self) -> None:
        """Keep that in the study's folder."""


@dataclass(frozen=True)
class OpenedPreset(OpenedStudy):
    """A table or figure of a paper."""

    preset: Preset
    scale: Scale

    def tell(self) -> None:
        """Tell what differs from the paper, and what the paper does not state."""
        echo(self.preset.title(self.scale), err=True)
        differences = self.preset.differences(self.scale)
        if differences:
            echo(f"differs from the paper: {differences}", err=True)
        for sentence in self.preset.not_stated:
            echo(f"not stated: {sentence}", err=True)

    def record(self) -> None:
        """Write it beside the results."""
        from flatfed.runs.records.files import FORMAT, write_json

        write_json(self.running.folder.path / RECORD, {"format": FORMAT, **self.preset.record(self.scale)})


def opened_study(name: Path, scale: str | None, out: Path | None, trust: bool, track: Track = None) -> OpenedStudy:
    """Return the study of a file, or where there is no such file that of a paper's table or figure."""
    if name.suffix in ENDINGS or _is_there(name):
        return _of_file(name, scale, out, trust, track)
    from flatfed.studies.presets import find_preset, scale_named
    from flatfed.studies.run_study import RunningStudy

    preset, size = find_preset(str(name)), scale_named(scale)
    folder = out or Path("runs") / preset.folder(size)
    return OpenedPreset(RunningStudy(_tracked(preset.resolved(size), folder, track), folder), preset, size)


def _tracked(study: Study, folder: Path, track: Track) -> Study:
    """Return a study whose runs are sent to trackers: those that are asked for, or those of the folder."""
    from flatfed.tracking.record import recorded_trackers
    from flatfed.tracking.tracker import check_trackers, chosen

    trackers = chosen(study.options.get("track") if track is None else track)
    if track is None and not trackers:
        trackers = recorded_trackers(folder)
    check_trackers(trackers, has_directory=True)
    if not trackers:
        return study
    return replace(study, options={**study.options, "track": [tracker.to_dict() for tracker in trackers]})


def _is_there(name: Path) -> bool:
    """Say whether a name is that of a file; a folder may have the name of a preset whose study lies in it."""
    from flatfed.studies.presets import is_preset

    if name.is_dir():
        return not is_preset(str(name))
    return name.exists()


def _of_file(file: Path, scale: str | None, out: Path | None, trust: bool, track: Track) -> OpenedStudy:
    from flatfed.named_code import NamedBy
    from flatfed.studies.reading import read_study
    from flatfed.studies.run_study import RunningStudy

    if scale is not None:
        raise ConfigError(f"{PARAMETER} is of papers' tables such as fedgloss/table-3, not of a file", "scale")
    folder = out or Path("runs") / file.stem
    study = _tracked(read_study(file), folder, track)
    return OpenedStudy(RunningStudy(study, folder, NamedBy(file, trust)))
