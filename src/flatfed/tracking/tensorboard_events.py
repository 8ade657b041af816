"""TensorBoard: files of events, one folder per run. Each call writes whole events or none."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from flatfed.core.errors import ConfigError
from flatfed.runs.records.files import naming
from flatfed.tracking.subject import Point, TrackedRun
from flatfed.tracking.tracker import Remote, Tracker

FOLDER = "tensorboard"


class TensorBoard(Tracker, id="tensorboard"):
    """Events for TensorBoard.

    Args:
        folder: where they go, a folder for each run; None is `tensorboard` in the directory of the run, or of its
            comparison, where the folders of all runs lie side by side and share their charts.
        patience: seconds that the end of a run waits for it without progress.
    """

    package: ClassVar[str] = "tensorboard"

    folder: str | None = None

    def begin(self, subject: TrackedRun, remote: str | None) -> Remote:
        """Open the folder of a run."""
        folder = self._folder(subject)
        folder.mkdir(parents=True, exist_ok=True)
        events = TensorBoardRun(folder)
        if remote is None:
            events.describe(subject)
        return events

    def _folder(self, subject: TrackedRun) -> Path:
        group = subject.path if subject.is_group else subject.group
        name = "report" if subject.is_group else subject.name
        if self.folder is None:
            return subject.path / FOLDER if group is None else group / FOLDER / name
        root = Path(self.folder).expanduser().absolute()
        return root / name if group is None else root / group.name / name

    def check(self) -> None:
        """Refuse a folder that is none."""
        super().check()
        if self.folder is not None and Path(self.folder).expanduser().is_file():
            raise ConfigError(f"the folder of the tracker tensorboard, {self.folder}, is a file; name a folder")


class TensorBoardRun:
    """One run's folder of events."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2

        self._event: Callable[..., Any] = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self.id, self._folder = str(folder), folder
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}.flatfed"
        self._file, self._is_begun = folder / name, False

    def describe(self, subject: TrackedRun) -> None:
        """Write the parameters: as a table, and for the tab that compares them."""
        from tensorboard.plugins.hparams import summary_v2

        at = subject.began / 1000
        lines = [f"| `{name}` | {value} |" for name, value in {**subject.tags, **subject.parameters}.items()]
        self._write([self._text("parameters", "\n".join(["| name | value |", "|---|---|", *lines]), at)])
        plain = {name: _plain(value) for name, value in subject.parameters.items() if value is not None}
        if plain:
            hparams = summary_v2.hparams_pb(plain, start_time_secs=at)
            self._write(
                [self._event(wall_time=at, step=0, summary=self._summary.FromString(hparams.SerializeToString()))]
            )

    def reached(self) -> int:
        """Return the largest step of the events that are there."""
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        files = [file for file in self._folder.glob("events.out.tfevents.*") if file.stat().st_size]
        return max((event.step for file in files for event in EventFileLoader(str(file)).Load()), default=0)

    def points(self, points: Sequence[Point]) -> None:
        """Write a scalar for each number, also those that are not finite: charts show them as such."""
        self._write(self._scalars(point) for point in points)

    def _scalars(self, point: Point) -> Any:
        values = [self._summary.Value(tag=_grouped(name), simple_value=value) for name, value in point.values.items()]
        return self._event(wall_time=point.milliseconds / 1000, step=point.step, summary=self._summary(value=values))

    def measurement(self, point: Point) -> None:
        """Write what was measured of a model."""
        self.points([point])

    def file(self, path: Path, name: str) -> None:
        """Write a figure as an image and a report as text; other files lie beside the run already."""
        if path.suffix == ".png":
            image = self._summary.Image(encoded_image_string=path.read_bytes())
            value = self._summary.Value(tag=name, image=image)
            self._write([self._event(wall_time=time.time(), step=0, summary=self._summary(value=[value]))])
        elif path.suffix == ".md":
            self._write([self._text(name, path.read_text(encoding="utf-8"), time.time())])

    def end(self, status: str, reason: str) -> None:
        """Write how it ended."""
        self._write([self._text("status", f"{status}: {reason}" if reason else status, time.time())])

    def close(self) -> None:
        """Leave it: nothing is open between two calls."""

    def _text(self, tag: str, text: str, at: float) -> Any:
        from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

        shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
        tensor = tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING, string_val=[text.encode("utf-8")], tensor_shape=shape
        )
        plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
        metadata = summary_pb2.SummaryMetadata(plugin_data=plugin)
        value = self._summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)
        return self._event(wall_time=at, step=0, summary=self._summary(value=[value]))

    def _write(self, events: Iterable[Any]) -> None:
        """Add events to the file, all or none: half an event would end the file for its readers."""
        from tensorboard.summary.writer.record_writer import RecordWriter

        buffer = io.BytesIO()
        records = RecordWriter(buffer)
        if not self._is_begun:
            records.write(self._event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        for event in events:
            records.write(event.SerializeToString())
        _append(self._file, buffer.getvalue())
        self._is_begun = True


def _append(path: Path, data: bytes) -> None:
    """Add bytes to the end of a file; where not all of them fit, the file stays as it was."""
    with naming(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) or 0 :]
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fileno(), before)
            raise


def _grouped(name: str) -> str:
    """Return a number's name with the heading that it has in TensorBoard: `test/accuracy`."""
    if "/" in name:
        return name
    first, _, rest = name.partition("_")
    return f"{first}/{rest}" if rest and first in ("test", "train", "bytes", "global", "validation") else name


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
