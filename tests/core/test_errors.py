"""Errors that know which parameter they are about: Python and the command line each name it in their own words."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import flatfed as ff
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError, ConfigWarning
from flatfed.experiments.spelling.methods import parse_methods, parse_setting
from flatfed.runs.directory import refuse_taken


def test_a_message_names_the_parameter_in_any_words() -> None:
    error = ConfigError(f"{PARAMETER} must be at least 0; choose another {PARAMETER}", parameter="lr")
    assert str(error) == "lr must be at least 0; choose another lr"
    assert error.worded("--lr") == "--lr must be at least 0; choose another --lr"


def test_a_message_need_not_be_about_a_parameter() -> None:
    error = ConfigError("there are no clients")
    assert (str(error), error.parameter, error.worded("--x")) == ("there are no clients", "", "there are no clients")


@pytest.mark.parametrize("kind", [ConfigError, ConfigWarning])
def test_it_survives_the_way_to_another_process(kind: type[ConfigError]) -> None:
    error = pickle.loads(pickle.dumps(kind(f"{PARAMETER} is wrong", parameter="lr")))
    assert (str(error), error.parameter, error.worded("--lr")) == ("lr is wrong", "lr", "--lr is wrong")


def taken(path: Path) -> None:
    (path / "file").touch()
    refuse_taken(path)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda path: Settings(rounds=1, lr=-1), "lr"),
        (lambda path: Settings(rounds=1, lr="ramp(1)"), "lr"),
        (lambda path: ff.FedSAM(rho=-1), "fedsam: rho"),
        (lambda path: ff.Bernoulli(p=2), "bernoulli: p"),
        (lambda path: parse_setting("rho"), "settings"),
        (lambda path: parse_methods(["fedavg", "fedsam"], {"fedsma:rho": 1}), "fedsma:rho"),
        (lambda path: parse_methods(["fedavg"], {"a.b": 1}), "a.b"),
        (taken, "out"),
    ],
)
def test_what_is_refused_says_which_parameter_it_was(
    call: Callable[[Path], object], parameter: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        call(tmp_path)
    assert refused.value.parameter == parameter
    assert parameter in str(refused.value)
    assert "--" not in str(refused.value)
    assert f"--{parameter}" in refused.value.worded(f"--{parameter}")
