"""What sites measure of a model, and the model that they are given at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from flatfed import models
from flatfed.core.errors import ConfigError
from flatfed.experiments.federating.federate import federate
from sites.bench import (
    CLASSES,
    NAMES,
    SITE_OF,
    TEST,
    Direct,
    data_of,
    federated,
    run_name,
    services_in,
    state_on_disk,
    wanted,
)

NORMED: dict[str, Any] = {"model": "cnn-small-bn", "local_layers": "bn", "sampling": 5}


def empty(model: str = "logreg") -> nn.Module:
    return models.build(model, CLASSES, seed=0, **data_of("a").pool.facts)


def measured(model: nn.Module, name: str) -> dict[str, float]:
    """Measure a model on a site's test examples, by hand."""
    pool = data_of(name).pool
    inputs, targets = pool.test.batch(torch.arange(TEST))
    model.eval()
    with torch.no_grad():
        outputs = model(pool.prepare(inputs))
    right = (outputs.argmax(1) == targets).double().mean()
    return {"loss": float(functional.cross_entropy(outputs, targets)), "accuracy": float(right)}


def test_the_numbers_of_a_site_are_those_of_the_model_on_its_own_test_examples(home: Path) -> None:
    run = federated(services_in(home), "scaffold", home / "run")
    row = run.history[-1]
    expected = {name: measured(run.model(), name) for name in NAMES}
    for name in NAMES:
        assert row["sites"][name] == pytest.approx(expected[name] | {"examples": TEST}, rel=1e-6)
    means = {f"test_{key}": sum(expected[name][key] for name in NAMES) / 3 for key in ("loss", "accuracy")}
    assert {key: row[key] for key in means} == pytest.approx(means, rel=1e-6)


def test_the_delivered_model_is_the_runs(home: Path) -> None:
    run = federated(services_in(home), "fedavg+swa", home / "run")
    for name in NAMES:
        (file,) = (home / name / "state" / "models").iterdir()
        assert file.name == f"{run_name(run)}.safetensors"
        model = empty()
        model.load_state_dict(load_file(file))
        assert torch.equal(torch.cat([part.detach().flatten() for part in model.parameters()]), run.eval_vector)


def test_with_layers_that_stay_each_client_has_a_model_of_its_own(home: Path) -> None:
    run = federated(services_in(home), "fedavg", home / "run", **NORMED)
    found: dict[int, nn.Module] = {}
    for name in NAMES:
        clients = [client for client, site in SITE_OF.items() if site == name]
        files = sorted((home / name / "state" / "models").iterdir())
        assert [file.name for file in files] == [f"{run_name(run)}-client-{client}.safetensors" for client in clients]
        for client, file in zip(clients, files, strict=True):
            found[client] = empty("cnn-small-bn")
            found[client].load_state_dict(load_file(file))
    for client, model in found.items():
        kept = state_on_disk(run, client, home)["local_parameters"]
        own = torch.cat([p.detach().flatten() for n, p in model.named_parameters() if "norm" in n])
        assert sorted(own.tolist()) == sorted(kept.tolist())
        shared = torch.cat([p.detach().flatten() for n, p in model.named_parameters() if "norm" not in n])
        first = torch.cat([p.detach().flatten() for n, p in found[0].named_parameters() if "norm" not in n])
        assert torch.equal(shared, first)
    for name in NAMES:
        own = [measured(model, name) for client, model in found.items() if SITE_OF[client] == name]
        means = {key: sum(numbers[key] for numbers in own) / len(own) for key in own[0]}
        assert run.history[-1]["sites"][name] == pytest.approx(means | {"examples": TEST}, rel=1e-5)


def test_a_site_that_was_away_at_the_end_is_given_the_model_on_resume(home: Path) -> None:
    direct = services_in(home)
    said: list[str] = []

    class Leaving(Direct):
        """Site b leaves before the model is delivered."""

        def addresses(self) -> list[str]:
            from_here = super().addresses()
            return [name for name in from_here if name != "b" or len(rows) < 3]

    rows: list[Any] = []
    federate(wanted("fedavg", home / "run"), Leaving(direct.services), rows.append, said.append)
    assert "the final model is at a, c" in said
    assert "the final model is not at b: resume the run when they are there" in said
    assert not (home / "b" / "state" / "models").exists()
    said.clear()
    federate(wanted("fedavg", home / "run", resume=True), direct, None, said.append)
    assert "the final model is at a, b, c" in said
    files = [next((home / name / "state" / "models").iterdir()) for name in NAMES]
    loaded = [load_file(file)["head.weight"] for file in files]
    assert all(torch.equal(weight, loaded[0]) for weight in loaded)


def test_the_server_has_a_test_set_of_its_own(home: Path) -> None:
    with pytest.raises(ConfigError, match="other classes or sizes than the sites' data"):
        federated(services_in(home), "fedavg", home / "run", test_data="digits")


@pytest.mark.filterwarnings("default:.*selects on test data")
def test_a_federation_may_be_ended_by_what_its_sites_measure_and_keep_its_best(home: Path) -> None:
    rules: dict[str, Any] = {
        "stop_when": "test_loss<99",
        "monitor": "test_loss",
        "keep_best": True,
    }
    run = federated(services_in(home), "scaffold", home / "run", evaluate_every=1, **rules)
    assert run.status == "finished" and "after round 1 of 3: test_loss<99.0 was met" in run.reason
    assert run.best is not None and run.best.value == run.history[0]["test_loss"]


def test_a_server_without_examples_holds_none_out() -> None:
    server_app = pytest.importorskip("flatfed.flower.server_app")
    with pytest.raises(ConfigError, match="validation: the examples are at the sites"):
        server_app.wanted({"validation": 0.1})
