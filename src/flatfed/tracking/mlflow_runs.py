"""MLflow: a run for each run, a parent run for a comparison or a study; on a server, in SQLite, or in files."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from flatfed.tracking.subject import ROUND, Point, TrackedRun
from flatfed.tracking.tracker import Remote, Tracker, refuse_secret

QUICK = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""What the environment says goes before. Whoever sends tries again by itself."""
STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "running": "RUNNING"}
"""MLflow's word; all others have failed."""
SQLITE = "sqlite:///"
METRICS, PARAMETERS = 1000, 100
"""The most that MLflow takes at once."""
LONGEST_NAME, LONGEST_VALUE = 250, 6000
NOT_IN_NAMES = re.compile(r"[^\w\-./ ]", re.ASCII)


class MLflow(Tracker, id="mlflow"):
    """Runs for MLflow.

    Args:
        uri: the tracking server `http://HOST:PORT`, or a store such as `sqlite:///mlflow.db`; None is what
            MLFLOW_TRACKING_URI says, otherwise MLflow's own.
        experiment: the experiment that the runs belong to, made if it is not there.
        patience: seconds that the end of a run waits for it without progress.
    """

    package: ClassVar[str] = "mlflow"

    uri: str | None = None
    experiment: str = "flatfed"

    def check(self) -> None:
        """Refuse a password in the address."""
        super().check()
        refuse_secret(
            self.uri, "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_URI, instead"
        )

    @property
    def place(self) -> dict[str, Any]:
        """Where runs go; a database in a file is known by its whole path."""
        uri = self.uri or ""
        if not uri.startswith(SQLITE) or uri.startswith(f"{SQLITE}/"):
            return super().place
        return super().place | {"uri": f"{SQLITE}{Path(uri.removeprefix(SQLITE)).absolute()}"}

    def begin(self, subject: TrackedRun, remote: str | None) -> Remote:
        """Begin a run, or take it up; that of a comparison is the parent of the others."""
        client = self._client()
        if subject.is_group:
            return MLflowRun(client, str(subject.group_id), subject)
        if remote is not None:
            client.update_run(remote, status="RUNNING")
            return MLflowRun(client, remote, subject)
        return MLflowRun(client, self._created(client, subject), subject)

    def begin_group(self, subject: TrackedRun) -> str:
        """Begin the parent run of a comparison or a study."""
        return self._created(self._client(), subject)

    def _created(self, client: Any, subject: TrackedRun) -> str:
        """Make a run with its tags and parameters."""
        tags = dict(subject.tags)
        if subject.group_id is not None:
            tags["mlflow.parentRunId"] = subject.group_id
        made = client.create_run(self._experiment(client), start_time=subject.began, tags=tags, run_name=subject.name)
        id = str(made.info.run_id)
        try:
            parameters = _parameters(subject.parameters)
            for first in range(0, len(parameters), PARAMETERS):
                client.log_batch(id, params=parameters[first : first + PARAMETERS])
        except Exception:
            # The next try makes another: this one must not stay as one that runs.
            with contextlib.suppress(Exception):
                client.delete_run(id)
            raise
        return id

    def _experiment(self, client: Any) -> str:
        """Return the id of the experiment; another process may make it at the same moment."""
        from mlflow.exceptions import MlflowException

        found = client.get_experiment_by_name(self.experiment)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(client.create_experiment(self.experiment))
        except MlflowException:
            return str(client.get_experiment_by_name(self.experiment).experiment_id)

    def _client(self) -> Any:
        for name, value in QUICK.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.uri)


class MLflowRun:
    """One run at MLflow."""

    def __init__(self, client: Any, id: str, subject: TrackedRun) -> None:
        self._client, self.id, self._subject = client, id, subject

    def reached(self) -> int:
        """Return the last round that is there: it is a metric itself."""
        return int(self._client.get_run(self.id).data.metrics.get(ROUND, 0))

    def points(self, points: Sequence[Point]) -> None:
        """Send all finite numbers; MLflow would take the others for the largest that there are."""
        for some in _in_batches(map(_metrics, points)):
            self._client.log_batch(self.id, metrics=some)
        odd = sorted({name for point in points for name, value in point.values.items() if not math.isfinite(value)})
        if odd:
            self._client.set_tag(self.id, "flatfed_not_finite", ", ".join(odd)[:LONGEST_VALUE])

    def measurement(self, point: Point) -> None:
        """Send what was measured of a model."""
        self.points([point])

    def file(self, path: Path, name: str) -> None:
        """Send a file as an artifact."""
        folder = str(Path(name).parent)
        self._client.log_artifact(self.id, str(path), None if folder == "." else folder)

    def end(self, status: str, reason: str) -> None:
        """Say how it ended: in MLflow's word, and in ours as tags."""
        for name, value in (("flatfed_status", status), ("flatfed_reason", reason)):
            if value:
                self._client.set_tag(self.id, name, value[:LONGEST_VALUE])
        self._client.set_terminated(self.id, STATUS.get(status, "FAILED"))

    def close(self) -> None:
        """Leave it: requests leave nothing open."""


def _parameters(values: Mapping[str, Any]) -> list[Any]:
    from mlflow.entities import Param

    return [Param(_name(name), str(value)[:LONGEST_VALUE]) for name, value in values.items()]


def _metrics(point: Point) -> list[Any]:
    """Return the numbers of a round, that of the round itself last: where it is, all are."""
    from mlflow.entities import Metric

    finite = {name: value for name, value in point.values.items() if math.isfinite(value)}
    ordered = sorted(finite.items(), key=lambda entry: entry[0] == ROUND)
    return [Metric(_name(name), value, point.milliseconds, point.step) for name, value in ordered]


def _in_batches(rows: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """Yield as many whole rows at once as MLflow takes; a row of more numbers than that is divided."""
    batch: list[Any] = []
    for row in rows:
        if batch and len(batch) + len(row) > METRICS:
            yield batch
            batch = []
        batch += row
        while len(batch) > METRICS:
            yield batch[:METRICS]
            batch = batch[METRICS:]
    if batch:
        yield batch


def _name(name: str) -> str:
    return NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME]
