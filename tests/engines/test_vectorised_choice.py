"""When clients go in lockstep: chosen, forced, refused, and recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from cli.command import flatfed, refused
from engines.vectorised import examples, network, normed, play, recorded, same, small
from flatfed.core.configuration.settings import Settings
from flatfed.core.model import vectorising as batching
from flatfed.core.round.federation import TIMES
from flatfed.core.round.sampling import Uniform
from flatfed.experiments.planning.plan import Plan
from flatfed.runs.history import read_rows
from records import rewrite


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rounds may go in lockstep too, so that small tests can choose it by themselves."""
    monkeypatch.setattr(batching, "FEWEST_CLIENTS", 1)


# --- the choice and its record ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "asked", "expected"),
    [
        (network, True, True),
        (network, False, False),
        (network, None, True),
        (normed, False, False),
        (normed, None, False),
    ],
)
def test_the_record_says_what_was_done(
    model: Callable[[], nn.Module], asked: bool | None, expected: bool, tmp_path: Path, groups: list[int]
) -> None:
    # A batch of one has no statistics, so the client of one example is left out.
    changes = {"rounds": 1, "sampling": ff.Replay([[0, 2, 4]])}
    run = play(small(model=model()), ff.make("fedavg"), vectorised=asked, out=tmp_path / "run", **changes)
    assert recorded(tmp_path / "run") is expected
    assert groups == ([3] if expected else [])
    assert run.status == "finished"


def test_the_choice_is_what_forcing_it_gives() -> None:
    same(play(vectorised=None), play(vectorised=True))
    unsuitable = small(model=normed(), clients=examples((8, 6, 7)))
    changes = {"sampling": 3, "method": ff.make("fedavg"), "batch_size": 4, "rounds": 2}
    same(play(unsuitable, vectorised=None, **changes), play(unsuitable, vectorised=False, **changes))


@pytest.mark.parametrize("workers", [0, 1, 2, "auto"])
def test_the_choice_does_not_depend_on_workers_threads_or_the_callers_generator(workers: int | str) -> None:
    threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            with torch.random.fork_rng():
                torch.manual_seed(number)
                chosen = [planned(model(), workers) for model in (network, normed)]
            assert chosen == [True, False]
    finally:
        torch.set_num_threads(threads)


def planned(model: nn.Module, workers: int | str) -> bool | None:
    settings = Settings(rounds=1, lr=0.1, batch_size=4)
    return Plan(small(model=model), ff.make("fedavg"), settings, Uniform(3), workers=workers).settings.vectorised


@pytest.mark.parametrize("workers", [0, 2])
def test_forcing_it_on_a_task_that_does_not_allow_it_is_an_error_with_the_reason(workers: int, tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match="BatchNorm"):
        play(small(model=normed()), workers=workers, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [1, "yes", 0.0])
def test_it_is_true_or_false(value: Any) -> None:
    with pytest.raises(ff.ConfigError, match="vectorised"):
        play(vectorised=value)


def test_a_run_from_before_there_was_a_choice_goes_on_client_by_client(tmp_path: Path, groups: list[int]) -> None:
    changes = {"sampling": 4, "vectorised": False}
    play(rounds=2, out=tmp_path / "run", **changes)
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    assert config["settings"].pop("vectorised") is False
    rewrite(file, config)
    elsewhere = shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    resumed = ff.resume(elsewhere, 4)
    assert groups == [], "it went in lockstep"
    same(resumed, play(rounds=4, **changes))
    assert recorded(elsewhere) is False


SMALL = ("--rounds", "2", "--clients", "9", "--per-round", "5", "--workers", "0", "--evaluate-every", "1")


@pytest.fixture
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cli(*options: object, model: str = "logreg", out: str = "out") -> Any:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--model", model, *options, "--out", out)
    assert outcome.code == 0, outcome.err
    return recorded(Path(out))


@pytest.mark.usefixtures("_apart")
def test_the_command_line_chooses_and_can_be_told() -> None:
    assert cli(out="chosen") is True
    assert cli("--vectorised", out="with") is True
    assert cli("--no-vectorised", out="without") is False
    assert cli(model="cnn-small-bn", out="unsuitable") is False
    assert cli("--workers", "2", out="workers") is True
    rows = {name: read_rows(Path(name, "history.jsonl")) for name in ("chosen", "with", "workers")}
    told = {name: [row | dict.fromkeys(TIMES) for row in each] for name, each in rows.items()}
    assert told["chosen"] == told["with"] == told["workers"]


@pytest.mark.usefixtures("_apart")
@pytest.mark.parametrize("word", ["true", "false"])
def test_a_file_can_tell_it_and_the_command_line_wins(word: str) -> None:
    Path("options.yaml").write_text(f"vectorised: {word}\n")
    assert cli("--config", "options.yaml", out="file") is (word == "true")
    other = "--no-vectorised" if word == "true" else "--vectorised"
    assert cli("--config", "options.yaml", other, out="line") is (word != "true")


@pytest.mark.usefixtures("_apart")
def test_the_command_line_refuses_what_cannot_be() -> None:
    options = (*SMALL, "--model", "cnn-small-bn", "--vectorised", "--out", "out")
    refused(flatfed("run", "digits", "fedavg", *options), "vectorised", "BatchNorm")
    refused(flatfed("compare", "digits", "fedavg", "fedsam", *options), "vectorised", "BatchNorm")
    assert not Path("out").exists()
