"""Short spellings in Python are those of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import flatfed as ff
from flatfed.algorithms.spelling import parse_method
from records import rewrite

SETTINGS = {"rounds": 4, "sampling": 2, "lr": 0.1, "batch_size": 4, "workers": 0}


def task() -> ff.Task:
    generator = torch.Generator().manual_seed(1)
    data = [(torch.randn(n, 4, generator=generator), torch.arange(n) % 3) for n in (5, 9, 7)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ff.Task(nn.Linear(4, 3), data, test=data[0])


def test_make_takes_a_client_optimiser_by_its_spelling() -> None:
    made = ff.make("fedgloss+sam", rho_server=0.15)
    assert made == ff.FedGloSS(rho_server=0.15, client_opt=ff.SAM())
    dotted = ff.make("fedgloss+sam", rho_server=0.15, **{"client_opt.rho": 0.1})
    assert dotted == ff.FedGloSS(rho_server=0.15, client_opt=ff.SAM(rho=0.1))
    assert ff.make("fedavg", client_opt="asam") == ff.make("fedavg", client_opt=ff.ASAM()) == ff.make("fedavg+asam")


@pytest.mark.parametrize(
    ("spelling", "parameters", "reason"),
    [
        ("fedavg+swa", {}, r"names an average.*ff\.train as text, or average=ff\.SWA"),
        ("fedgloss+sam+wima", {}, r"average=ff\.WIMA"),
        ("fedsam+sam", {}, "takes no client optimiser"),
        ("fedavg+sma", {}, "sam"),
        ("fedavgg", {}, "fedavg"),
        ("sam", {}, "'sam' is a client optimiser, not an algorithm"),
        ("fedavg+sam", {"client_opt": ff.ASAM()}, "give one of the two"),
        ("fedavg", {"average.cycle": 5}, "no average to set cycle of"),
        ("fedavg+sam", {"client_opt.roh": 0.1}, "rho"),
        ("fedavg", {"partition.alpha": 0.1}, "nothing called 'partition'"),
    ],
)
def test_what_make_cannot_make_is_refused_with_a_reason(spelling: str, parameters: dict, reason: str) -> None:
    with pytest.raises(ff.ConfigError, match=reason) as refused:
        ff.make(spelling, **parameters)
    assert "--set" not in str(refused.value)


def test_train_takes_a_spelling() -> None:
    spelt = ff.train(task(), "fedgloss+sam+wima", **SETTINGS)
    built = ff.train(task(), ff.make("fedgloss", client_opt=ff.SAM()), average=ff.WIMA(), **SETTINGS)
    assert torch.equal(spelt.vector, built.vector)
    assert torch.equal(spelt.eval_vector, built.eval_vector)
    assert not torch.equal(spelt.eval_vector, spelt.vector)
    with_average = ff.train(task(), "fedgloss+sam", average=ff.WIMA(), **SETTINGS)
    assert torch.equal(with_average.eval_vector, built.eval_vector)


def test_one_average_is_enough() -> None:
    with pytest.raises(ff.ConfigError, match="names an average"):
        ff.train(task(), "fedavg+swa", average=ff.WIMA(), **SETTINGS)
    with pytest.raises(ff.ConfigError, match=r"ff\.make"):
        ff.train(task(), 7, **SETTINGS)  # type: ignore[arg-type]


def test_a_spelt_run_is_recorded_as_the_method_it_names(tmp_path: Path) -> None:
    ff.train(task(), "fedavgm+asam+wima", **SETTINGS, out=tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["method"] == "fedavgm+asam+wima"
    assert config["algorithm"] == parse_method("fedavgm+asam+wima").algorithm.to_dict()
    assert config["average"] == ff.WIMA().to_dict()


NEW = {
    "fedgloss+asam": ({"server_lr"}, {"tensors"}),
    "fedsmoo": ({"server_lr", "regularise"}, set()),
    "fedwmsam": ({"server_lr", "reading"}, set()),
    "fedadam": ({"bias_correction"}, set()),
}


@pytest.mark.parametrize("method", NEW)
def test_a_run_from_before_these_parameters_were_there_goes_on(method: str, tmp_path: Path) -> None:
    whole = ff.train(task(), method, **SETTINGS)
    ff.train(task(), method, **SETTINGS | {"rounds": 2}, out=tmp_path / "run")
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    of_method, of_optimiser = NEW[method]
    for name in of_method:
        del config["algorithm"][name]
    for name in of_optimiser:
        del config["algorithm"]["client_opt"][name]
    if "dual" in config["algorithm"]:
        config["algorithm"]["dual"] = "paper"
    rewrite(file, config)
    assert torch.equal(ff.resume(tmp_path / "run", rounds=4, task=task()).vector, whole.vector)
