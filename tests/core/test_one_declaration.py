"""A training setting is declared once: signature, documentation, option and record come from the declaration."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import flatfed as ff
from cli.command import SMALL, flatfed
from core.bench import task
from flatfed.core.configuration.settings import Settings, about_settings, defaults, required_settings
from flatfed.runs.directory import RunDirectory

NAMES = list(about_settings())
WITH_OPTION = [name for name, about in about_settings().items() if about.group]


def test_the_signature_of_train_has_every_setting_with_its_default() -> None:
    parameters = inspect.signature(ff.train).parameters
    assert {name: parameters[name].default for name in defaults()} == defaults()
    assert all(parameters[name].default is inspect.Parameter.empty for name in required_settings())
    assert required_settings() == ["rounds", "lr"]


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_of_train_tells_of_it(name: str) -> None:
    first = about_settings()[name].text.split()[0]
    assert f"{name}: {first}" in (ff.train.__doc__ or "")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_help_has_its_option_and_its_words(command: str) -> None:
    text = "".join(flatfed(command, "--help").out.split())  # lines are broken at spaces, and after hyphens
    for name in WITH_OPTION:
        about = about_settings()[name]
        assert f"--{name.replace('_', '-')}" in text
        assert "".join(about.text.replace("{none}", f"`{about.none}`").split()) in text


def test_the_record_of_a_run_has_all_of_them(tmp_path: Any) -> None:
    assert flatfed("run", "digits", "fedavg", *SMALL, "--out", tmp_path / "run").code == 0
    assert list(RunDirectory.open(tmp_path / "run").config["settings"]) == NAMES


@pytest.mark.parametrize(("old", "today"), Settings.renamed.items())
def test_earlier_names_are_taken_in_python(old: str, today: str) -> None:
    value = {"evaluate_every": 1, "evaluate_last": 1, "vectorised": False}[today]
    given = {"rounds": 2, "sampling": 2, "lr": 0.1, "workers": 0}
    assert ff.train(task(), "fedavg", **given, **{old: value})._federation.settings == (
        ff.train(task(), "fedavg", **given, **{today: value})._federation.settings
    )
    with pytest.raises(ff.ConfigError, match=f"{today} is given twice"):
        ff.train(task(), "fedavg", **given, **{old: value, today: value})


def test_what_must_be_given_is_asked_for() -> None:
    with pytest.raises(TypeError, match=r"train\(\) needs lr"):
        ff.train(task(), "fedavg", rounds=1, sampling=1)


def test_an_unknown_one_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ff.ConfigError, match="local_epochs"):
        ff.train(task(), "fedavg", rounds=1, sampling=1, lr=0.1, local_epoch=2)
