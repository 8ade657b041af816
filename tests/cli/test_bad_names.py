"""Names that are not there, and settings that are not so: refused in one sentence that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import SMALL, Outcome, fingerprint, flatfed, refused

# Arguments, and what the sentence must hold: the offending name and the nearest valid one.
COMMANDS = [
    (["rnu", "digits", "fedavg"], ["'rnu'", "'run'"]),
    (["compair"], ["'compair'", "'compare'"]),
    (["nonsense"], ["'nonsense'", "bundle", "compare, dashboard, data, deploy, evaluate, export, flatness, landscape"]),
    (["-x"], ["-x"]),
    (["run"], ["DATASET"]),
    (["run", "digits"], ["ALGORITHM"]),
    (["run", "digits", "fedavg", "feddyn"], ["feddyn"]),
    (["run", "digits", "fedavg", "--ruonds", "3"], ["--ruonds", "--rounds"]),
    (["run", "digits", "fedavg", "--seeds", "0,1"], ["--seeds", "--seed"]),
    (["run", "digits", "fedavg", "--frobnicate"], ["--frobnicate"]),
    (["run", "digits", "fedavg", "--lr"], ["--lr"]),
    (["compare", "digits"], ["ALGORITHM"]),
    (["compare", "digits", "fedavg", "--seed", "1"], ["--seed", "--seeds"]),
    (["resume"], ["RUN"]),
    (["show"], ["RUN"]),
    (["list"], ["algorithms", "datasets", "models", "partitions"]),
    (["list", "nonsense"], ["nonsense", "algorithms", "partitions"]),
    (["list", "model"], ["'model'", "'models'"]),
    (["list", "models", "extra"], ["extra"]),
]
METHODS = [
    ("fedagv", ["'fedagv'", "'fedavg'"]),
    ("FedDyn", ["'FedDyn'", "'feddyn'"]),
    ("zzz", ["'zzz'", "fedavg, fedavgm"]),
    ("", ["''", "fedavg"]),
    ("+sam", ["fedavg"]),
    ("feddyn+", ["sam"]),
    ("feddyn+sma", ["'sma'", "'sam'"]),
    ("feddyn+SAM", ["'SAM'", "'sam'"]),
    ("feddyn+zzz", ["'zzz'", "asam, fsam, sam, sam-prev, sgd, swa"]),
    ("fedsam+sam", ["fedsam", "no client optimiser"]),
    ("fedgf+asam+swa", ["fedgf", "no client optimiser"]),
    ("feddyn+swa+sam", ["feddyn+swa+sam", "then"]),
    ("feddyn+sam+asam", ["feddyn+sam+asam", "once"]),
    ("feddyn+swa+swa", ["feddyn+swa+swa", "once"]),
    ("swa+feddyn", ["'swa'", "feddyn+swa"]),
    ("sam+feddyn", ["'sam'", "feddyn+sam"]),
    ("feddyn+fedsam", ["'fedsam'", "sam"]),
]
SETTINGS = [
    ("fedsam", "rho", ["--set", "name=value", "'rho'"]),
    ("fedsam", "=3", ["--set", "name=value", "'=3'"]),
    ("fedsam", "rho=", ["rho", "number"]),
    ("fedsam", "rho=abc", ["rho", "number", "'abc'"]),
    ("fedsam", "rho=true", ["rho", "number"]),
    ("fedsam", "rho=nan", ["rho", "number"]),
    ("fedsam", "rho=inf", ["rho", "number"]),
    ("fedsam", "rho=.inf", ["rho", "number"]),
    ("fedsam", "rho=[1", ["rho", "number"]),
    ("fedsam", "rho={a: 1}", ["rho", "number"]),
    ("fedsam", "rho=-1", ["rho", "at least 0", "-1"]),
    ("fedsam", "roh=1", ["'roh'", "'rho'"]),
    ("fedsam", "zzz=1", ["'zzz'", "rho"]),
    ("fedsam", "a.b=1", ["a.b", "client_opt.name"]),
    ("fedsam", "client_opt.rho=1", ["fedsam", "no client optimiser"]),
    ("fedavg", "client_opt.rho=1", ["sgd", "'rho'"]),
    ("fedavg", "client_opt=smas", ["'smas'", "'sam'"]),
    ("fedavg", "client_opt=3", ["client_opt", "3"]),
    ("fedavg+sam", "client_opt.roh=1", ["'roh'", "'rho'"]),
    ("fedavg+sam", "client_opt.rho=x", ["rho", "number"]),
    ("fedavg+sam", "client_opt=asam", ["fedavg+sam", "asam"]),
    ("fedavg", "average.cycle=5", ["fedavg", "average", "fedavg+swa"]),
    ("fedavg+swa", "average.cycel=5", ["'cycel'", "'cycle'"]),
    ("fedavg+swa", "average.cycle=0", ["cycle", "at least 1"]),
    ("fedavg+swa", "average.start=2", ["start", "at most 1"]),
    ("fedavg+swa", "average.mode=foo", ["mode", "'foo'", "'paper'"]),
    ("fedgloss", "admm=maybe", ["admm", "true or false", "'maybe'"]),
    ("fedgloss", "rho_warmup=1.5", ["rho_warmup", "whole number", "1.5"]),
    ("fedsmoo", "variant=Z", ["variant", "'A', 'B', 'C'", "'Z'"]),
    ("fedavg", "lr=1", ["'lr'", "server_lr"]),
    ("fedavg", "partition.alpha=x", ["alpha", "number", "'x'"]),
    ("fedavg", "partition.alhpa=1", ["'alhpa'", "'alpha'"]),
    ("fedavg", "fedsam:rho=1", ["fedsam"]),
]
SCOPED = [
    ("roh=1", ["'roh'", "'rho'"]),
    ("lr=1", ["'lr'", "server_lr"]),
    ("fedavg:rho=1", ["fedavg", "'rho'"]),
    ("fedsam:roh=1", ["fedsam", "'roh'", "'rho'"]),
    ("fedsma:rho=1", ["'fedsma'", "'fedsam'"]),
    ("fedgloss:rho_server=1", ["fedgloss"]),
    ("fedsam:partition.alpha=1", ["partition.alpha"]),
]


def train(*arguments: str) -> Outcome:
    return flatfed(*arguments, *SMALL, "--out", "out")


def test_no_command_is_the_front_page() -> None:
    outcome = flatfed()
    assert outcome.code in (0, 2)
    assert "Usage: flatfed" in outcome.out + outcome.err


@pytest.mark.parametrize(("arguments", "parts"), COMMANDS, ids=lambda value: " ".join(value))
def test_the_command_line_itself(arguments: list[str], parts: list[str]) -> None:
    refused(flatfed(*arguments), *parts)


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(("method", "parts"), METHODS, ids=[method or "nothing" for method, _ in METHODS])
def test_methods(command: str, method: str, parts: list[str], tmp_path: Path) -> None:
    refused(train(command, "digits", method), *parts)
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(("dataset", "parts"), [("digit", ["'digit'", "'digits'"]), ("zzz", ["'zzz'", "digits"])])
@pytest.mark.parametrize("command", ["run", "compare"])
def test_data_sets(command: str, dataset: str, parts: list[str]) -> None:
    refused(train(command, dataset, "fedavg"), "data set", *parts)


@pytest.mark.parametrize(
    ("option", "value", "parts"),
    [
        ("--model", "cn-small", ["model", "'cn-small'", "'cnn-small'"]),
        ("--model", "zzz", ["model", "'zzz'", "cnn, cnn-eighth, cnn-fourier, cnn-patches, cnn-quarter"]),
        ("--partition", "dirichle", ["partition", "'dirichle'", "'dirichlet'"]),
        ("--partition", "zzz", ["partition", "'zzz'", "iid"]),
        ("--weighting", "sample", ["--weighting", "'sample'", "'samples'"]),
        ("--dtype", "float16", ["--dtype", "'float16'", "'float32'"]),
    ],
)
def test_names_given_to_options(option: str, value: str, parts: list[str]) -> None:
    refused(flatfed("run", "digits", "fedavg", *SMALL, option, value, "--out", "out"), *parts)


@pytest.mark.parametrize(("method", "setting", "parts"), SETTINGS, ids=[f"{m} {s}" for m, s, _ in SETTINGS])
def test_settings_of_a_method(method: str, setting: str, parts: list[str], tmp_path: Path) -> None:
    refused(train("run", "digits", method, "--set", setting), *parts)
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(("setting", "parts"), SCOPED, ids=[setting for setting, _ in SCOPED])
def test_settings_of_several_methods(setting: str, parts: list[str]) -> None:
    outcome = train("compare", "digits", "fedavg", "fedsam", "--set", setting)
    refused(outcome, *parts)
    assert "?;" not in outcome.err


@pytest.mark.parametrize("methods", [["fedavg", "fedavg"], ["fedavg", "fedavg+sgd"], ["all", "fedavg"]])
def test_a_method_is_compared_once(methods: list[str]) -> None:
    refused(train("compare", "digits", *methods), "fedavg", "twice")


def test_a_name_in_an_empty_list_of_names() -> None:
    assert "known: " not in train("run", "digits", "fedavg", "--set", "client_opt.rho=1").err


def test_all_belongs_to_compare() -> None:
    refused(train("run", "digits", "all"), "'all'", "compare")
