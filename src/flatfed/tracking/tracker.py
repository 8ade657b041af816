"""A tracker: where a run is sent while it trains. A family of configurations, one class for each kind.

    class TensorBoard(Tracker, id="tensorboard"): ...

It is chosen by its id (`--track mlflow`, `ff.train(track="mlflow")`), with parameters (`mlflow(experiment=flat)`), or
by a configuration (`track=ff.MLflow(experiment="flat")`). Nothing of a run depends on it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import flatfed.tracking
from flatfed.core.configuration.checking import Positive
from flatfed.core.configuration.config import Config, build, parameters
from flatfed.core.configuration.grammar import parse_call, split
from flatfed.core.configuration.registry import Registry, import_all
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.tracking.subject import Point, TrackedRun

NONE = "none"
"""The word for no tracker."""


class Remote(Protocol):
    """A run as a tracker has it; every call returns when what it was given is there, or raises."""

    id: str
    """What finds it again."""

    def reached(self) -> int:
        """Return how many rounds it has already."""

    def points(self, points: Sequence[Point]) -> None:
        """Add the numbers of rounds, in their order."""

    def measurement(self, point: Point) -> None:
        """Add what was measured of the model after a round."""

    def file(self, path: Path, name: str) -> None:
        """Add a file: a figure, a report, the final model."""

    def end(self, status: str, reason: str) -> None:
        """Say how the run ended; nothing follows, unless it is resumed."""

    def close(self) -> None:
        """Let it go, ended or not; a run that goes on takes it up again."""


class Tracker(Config):
    """Family of trackers: where runs are sent.

    Each is begun, fed and ended in a process of its own: it may take long, fail or hang there. `patience` is for how
    many seconds the end of a run waits for a tracker that makes no progress.
    """

    registry: ClassVar[Registry[Tracker]] = Registry("tracker")

    package: ClassVar[str] = ""
    """What it needs beside flatfed; the extra has the same name as the tracker."""

    patience: Positive = field(default=60.0, kw_only=True)

    def begin(self, subject: TrackedRun, remote: str | None) -> Remote:
        """Begin a run there, or take up the one that was begun before as `remote`."""
        raise NotImplementedError

    def begin_group(self, subject: TrackedRun) -> str:
        """Begin what holds the runs of a comparison or a study together, and return what finds it again."""
        return subject.name

    def check(self) -> None:
        """Refuse what cannot be used, before anything is trained."""
        if self.package and importlib.util.find_spec(self.package) is None:
            raise ConfigError(
                f"the tracker {self.id} needs the package {self.package}; install it with: "
                f"pip install 'flatfed[{self.id}]'"
            )
        if type(self).__module__ == "__main__":
            raise ConfigError(f"the tracker {type(self).__name__} must stand in a module, as a process imports it")

    @property
    def place(self) -> dict[str, Any]:
        """What says where runs go: a run that goes on elsewhere is sent there from its first round."""
        place = {name: value for name, value in self.to_dict().items() if name != "patience"}
        if place.get("folder"):
            # Whoever resumes the run may do so from another directory.
            place["folder"] = str(Path(place["folder"]).expanduser().absolute())
        return place


Track = str | Tracker | Mapping[str, Any] | Sequence[Any] | None
"""What people write: ids, with parameters in brackets; configurations; several of them."""


def trackers() -> Registry[Tracker]:
    """Return every tracker by id."""
    import_all(flatfed.tracking.__name__, flatfed.tracking.__path__, "tracker")
    return Tracker.registry


def chosen(track: Track) -> tuple[Tracker, ...]:
    """Return the trackers that are asked for, each once; `none` is no tracker."""
    found = {tracker.id: tracker for tracker in _each(track)}
    return tuple(found.values())


def _each(track: Track) -> Iterable[Tracker]:
    if track is None or track == NONE:
        return
    if isinstance(track, Tracker):
        yield track
    elif isinstance(track, str):
        for text in split(track, ","):
            yield _spelled(text)
    elif isinstance(track, Mapping):
        yield from _listed(track)
    elif isinstance(track, Sequence):
        for entry in track:
            yield from _each(entry)
    else:
        raise ConfigError(
            f"{PARAMETER} must name trackers, such as mlflow, or be one, such as ff.MLflow(), not {track!r:.60}",
            parameter="track",
        )


def _spelled(text: str) -> Tracker:
    """Return the tracker of `mlflow` or `mlflow(uri=http://127.0.0.1:5000)`."""
    call = parse_call(text)
    if call is None:
        raise ConfigError(f"{PARAMETER} must be like mlflow or mlflow(experiment=flat), not {text!r:.60}", "track")
    cls = trackers().find(call.name)
    given = call.by_name(list(parameters(cls)))
    return build(cls, {name: parse_value(value) for name, value in given.items()})


def _listed(entries: Mapping[str, Any]) -> Iterable[Tracker]:
    """Yield the trackers of a file: `mlflow: {experiment: flat}`, or of a record, with their ids among the rest."""
    if "id" in entries:
        yield trackers().from_dict(entries)
        return
    for id, values in entries.items():
        yield build(trackers().find(str(id)), values or {})


def check_trackers(track: Iterable[Tracker], has_directory: bool) -> None:
    """Refuse trackers that cannot be used; they read a run directory."""
    for tracker in track:
        if not has_directory:
            raise ConfigError(f"the tracker {tracker.id} reads what a run writes; name a run directory with out=...")
        tracker.check()


def refuse_secret(uri: str | None, instead: str) -> None:
    """Refuse an address with a password or a key in it, which would be kept in records and seen in commands."""
    if uri is None:
        return
    parts = urlsplit(uri)
    has_key = bool(parts.query) and parts.scheme.startswith("http")
    if parts.password is not None or has_key or (parts.username and parts.scheme.startswith("http")):
        raise ConfigError(
            f"{PARAMETER} must not hold a name, a password or a key, as it is kept with the run; {instead}",
            parameter="uri",
        )
