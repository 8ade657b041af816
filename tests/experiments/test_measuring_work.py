"""What a command on one run does once: read its records, build its task, copy its model."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import SMALL, flatfed
from flatfed import models
from flatfed.core.task.task import Task

BUILDS, COPIES = "models built", "models copied"

ENGINE_AND_START = 2
"""Copies of a model: the one of this process, and the one that the state before round 0 is read from."""


class Work:
    """Counts the files of a run that are read, and the models that are built and copied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.is_on = True
        self._count_calls(monkeypatch, models, "build", BUILDS)
        self._count_calls(monkeypatch, Task, "fresh_model", COPIES)
        sys.addaudithook(self._hear)  # there is no way to take it out again

    def _count_calls(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, label: str) -> None:
        plain: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.counts[label] += 1
            return plain(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on or event != "open" or not isinstance(arguments[0], str | Path):
            return
        path, mode, flags = arguments
        # Files of a run are opened by `os.open`, which has flags and no mode.
        reads = mode in ("r", "rb") if mode is not None else flags & os.O_ACCMODE == os.O_RDONLY
        if reads:
            self.counts[Path(path).name] += 1

    def of(self, *command: Any) -> Counter[str]:
        """Return what a command does."""
        self.counts.clear()
        outcome = flatfed(*command, "--workers", 0)
        assert outcome.code == 0, outcome.err
        return Counter(self.counts)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    counting = Work(monkeypatch)
    yield counting
    counting.is_on = False


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("work") / "run"
    assert flatfed("run", "digits", "fedavg", *SMALL, "--per-round", 3, "--out", path).code == 0
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def once(counts: Counter[str], *names: str) -> bool:
    return all(counts[name] == 1 for name in names)


def test_a_landscape(run: Path, work: Work) -> None:
    counts = work.of("landscape", run, "--points", 3)
    assert once(counts, "config.json", "status.json", "checkpoint.json", BUILDS)
    assert counts["history.jsonl"] == 0
    assert counts[COPIES] == ENGINE_AND_START


def test_the_landscapes_of_every_client(run: Path, work: Work) -> None:
    """The state before the last round takes another checkpoint, the cohort from the history, and another copy."""
    counts = work.of("landscape", run, "--kind", "client", "--client", "all", "--points", 3)
    assert once(counts, "config.json", "status.json", "history.jsonl", BUILDS)
    assert counts[COPIES] == ENGINE_AND_START + 1


def test_several_measurements(run: Path, work: Work) -> None:
    counts = work.of("flatness", run, "--measure", "loss,parameter_norm,sharpness")
    assert once(counts, "config.json", "status.json", "history.jsonl", "checkpoint.json", BUILDS)
    assert counts[COPIES] == ENGINE_AND_START
    again = work.of("flatness", run, "--measure", "loss,parameter_norm,sharpness")
    assert once(again, "results.json"), "what is kept is read for all measurements together"


def test_measurements_of_clients_of_the_last_round(run: Path, work: Work) -> None:
    counts = work.of("flatness", run, "--measure", "client_divergence,client_lambda(most=3),client_accuracy")
    assert once(counts, "config.json", "status.json", BUILDS)
    assert counts["history.jsonl"] <= 2, "for the table, and for who took part"
    assert counts[COPIES] == ENGINE_AND_START + 2, "the state before the last round, and one trial of products for all"


def test_an_evaluation(run: Path, work: Work) -> None:
    """One model serves the test sets and the clients."""
    counts = work.of("evaluate", run)
    assert once(counts, "config.json", "status.json", "history.jsonl", "checkpoint.json", BUILDS)
    assert counts[COPIES] == ENGINE_AND_START


def test_maps_beside_measurements(run: Path, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("flatfed.experiments.measuring.feature_maps.MAPPED", 60)
    pytest.importorskip("sklearn")
    figures = ("--figures", tmp_path / "figures", "--tsne", "--tsne-clients", 2)
    counts = work.of("flatness", run, "--measure", "loss", *figures)
    assert once(counts, "config.json", BUILDS)
