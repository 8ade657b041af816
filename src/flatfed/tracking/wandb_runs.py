"""Weights & Biases: a run for each run, a group for a comparison or a study; offline unless the user says otherwise."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from flatfed.tracking.subject import Point, TrackedRun
from flatfed.tracking.tracker import Remote, Tracker

QUIET = {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
NOT_IN_NAMES = re.compile(r"[^\w.-]", re.ASCII)


class WandB(Tracker, id="wandb"):
    """Runs for Weights & Biases.

    Args:
        project: the project that the runs belong to.
        mode: `"offline"` writes files for `wandb sync`; `"online"` sends; None is what WANDB_MODE says, otherwise
            offline.
        folder: where files go, in `wandb` there; None is what WANDB_DIR says, otherwise the working directory.
        patience: seconds that the end of a run waits for it without progress.
    """

    package: ClassVar[str] = "wandb"

    project: str = "flatfed"
    mode: Literal["offline", "online"] | None = None
    folder: str | None = None

    def begin(self, subject: TrackedRun, remote: str | None) -> Remote:
        """Begin a run, or take it up: the files of both have the same id, and `wandb sync` puts them together."""
        os.environ.update(QUIET)
        import wandb

        run = wandb.init(
            project=self.project,
            id=remote or secrets.token_hex(8),
            name=subject.name,
            group=subject.group_id,
            job_type="report" if subject.is_group else "run",
            config=dict(subject.parameters),
            tags=_tags(subject),
            mode=self.mode or _mode(),
            dir=self.folder,
            resume="allow" if remote else None,
            settings=_settings(wandb),
        )
        return WandBRun(wandb, run)

    def begin_group(self, subject: TrackedRun) -> str:
        """Return a name that no other comparison has."""
        return f"{subject.name}-{secrets.token_hex(3)}"


def _mode() -> Any:
    return os.environ.get("WANDB_MODE", "offline")


def _tags(subject: TrackedRun) -> list[str]:
    """Return the tags as W&B has them: words of at most 64 characters."""
    chosen = {name: subject.tags[name] for name in ("method", "dataset", "seed") if name in subject.tags}
    return [f"{name}:{value}"[:64] for name, value in chosen.items()]


def _settings(wandb: Any) -> Any:
    """Return what keeps it from looking at anything but what it is given."""
    return wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


class WandBRun:
    """One run at Weights & Biases."""

    def __init__(self, wandb: Any, run: Any) -> None:
        self._wandb, self._run = wandb, run
        self.id = str(run.id)
        self._is_finished = False

    def reached(self) -> int:
        """Return the last step that the server has; offline there is none to ask."""
        return int(self._run.step or 0)

    def points(self, points: Sequence[Point]) -> None:
        """Log the numbers; those that are not finite too, which charts leave out."""
        for point in points:
            at = {"_timestamp": point.milliseconds / 1000}
            self._run.log(dict(point.values) | at, step=point.step, commit=True)

    def measurement(self, point: Point) -> None:
        """Put what was measured of a model into the summary: the steps of rounds that are over are closed."""
        self._run.summary.update(dict(point.values))

    def file(self, path: Path, name: str) -> None:
        """Send a figure as an image, and any other file as an artifact."""
        if path.suffix == ".png":
            self._run.summary[name] = self._wandb.Image(str(path))
            return
        kind = "model" if path.suffix == ".safetensors" else "report"
        artifact = self._wandb.Artifact(f"{kind}-{self.id}-{NOT_IN_NAMES.sub('-', name)}", type=kind)
        artifact.add_file(str(path), name=name)
        self._run.log_artifact(artifact)

    def end(self, status: str, reason: str) -> None:
        """Say how it ended; when this returns, all of it is written."""
        self._run.summary["status"], self._run.summary["reason"] = status, reason
        self._run.finish(exit_code=0 if status == "finished" else 1)
        self._is_finished = True

    def close(self) -> None:
        """Let it go, and end the process that W&B has started."""
        if not self._is_finished:
            self._run.finish()
        self._wandb.teardown()
