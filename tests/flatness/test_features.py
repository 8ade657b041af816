"""Penultimate features against what goes into the last layer, computed without hooks; and maps of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.core.round.probe import last_round
from flatfed.experiments.measuring.feature_maps import MAPPED, map_clients, map_features
from flatfed.flatness.drawable import Embedding
from flatfed.flatness.features import LEAST, embedding, features, joint_embedding
from flatfed.flatness.surface import Surface
from flatfed.models.networks.cnn_small import cnn_small
from flatfed.models.networks.textcnn import textcnn

pytest.importorskip("sklearn")

COUNT, CLASSES = 26, 3


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def images(count: int = COUNT) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 1, 8, 8, generator=generator), torch.arange(count) % CLASSES


def texts() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 15, (COUNT, 7), generator=generator), torch.arange(COUNT) % CLASSES


def surface(model: nn.Module, data: tuple[Tensor, Tensor], **given: Any) -> Surface:
    return ff.laboratory(ff.Task(model, [data], **{"test": data, "test_batch": 4} | given)).surface


def found_in(made: Surface) -> Tensor:
    actual = made.stretches(features)
    assert torch.equal(actual["classes"], torch.arange(COUNT) % CLASSES)
    return actual["features"]


@torch.no_grad()
def test_a_convolutional_network() -> None:
    model, data = seeded(lambda: cnn_small(CLASSES, 1, 8)), images()
    x = data[0]
    x = model.get_submodule("pool1")(model.get_submodule("conv1")(x)).relu()
    x = model.get_submodule("pool2")(model.get_submodule("conv2")(x)).relu()
    x = model.get_submodule("hidden")(x.flatten(1)).relu()
    assert x.shape == (COUNT, 64)
    torch.testing.assert_close(found_in(surface(model, data)), x)


@torch.no_grad()
def test_a_network_for_texts_with_dropout() -> None:
    model, (tokens, classes) = seeded(lambda: textcnn(CLASSES, 15, 7, dropout=0.5)), texts()
    embedded = model.get_parameter("embedding.weight")[tokens].transpose(1, 2).unsqueeze(2)
    highest = []
    for number in range(3):
        weight, bias = (model.get_parameter(f"filters.{number}.{name}") for name in ("weight", "bias"))
        highest.append(nn.functional.conv2d(embedded, weight, bias).amax(dim=(2, 3)))
    expected = torch.cat(highest, dim=1).relu()
    torch.testing.assert_close(found_in(surface(model, (tokens, classes))), expected)


@pytest.mark.parametrize("stats", ["running", "batch-stats"])
def test_statistics_are_those_of_evaluation(stats: str) -> None:
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)))
    data = images()
    task = ff.Task(model, [data], test=data, test_batch=COUNT)
    settings: dict[str, Any] = {"rounds": 1, "sampling": 1, "lr": 0.0001, "workers": 0, "eval_stats": stats}
    run = ff.train(task, ff.make("fedavg"), **settings)
    with torch.no_grad():
        expected = run.model().train(stats == "batch-stats")[:3](data[0])
    torch.testing.assert_close(found_in(ff.laboratory(run).surface), expected)


@torch.no_grad()
def test_inputs_are_prepared_and_a_linear_model_has_its_inputs() -> None:
    model, data = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))), images()
    made = surface(model, data, prepare=half)
    torch.testing.assert_close(found_in(made), data[0].flatten(1) / 2)


def half(inputs: Tensor) -> Tensor:
    return inputs / 2


class Scaled(nn.Module):
    """A network whose last layer is called by the name of its argument, and whose output is scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = 3 * self.head(input=torch.tanh(self.body(x.flatten(1))))
        return scores


@torch.no_grad()
def test_a_last_layer_that_is_called_by_name() -> None:
    model, data = seeded(Scaled), images()
    expected = torch.tanh(model.get_submodule("body")(data[0].flatten(1)))
    torch.testing.assert_close(found_in(surface(model, data)), expected)


def test_nothing_is_left_on_the_model() -> None:
    model = seeded(lambda: cnn_small(CLASSES, 1, 8))
    made = surface(model, images())
    before, loss = {n: t.clone() for n, t in model.state_dict().items()}, made.loss()
    made.stretches(features)
    assert made.loss() == loss
    assert all(not module._forward_pre_hooks for module in model.modules())
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def test_a_map_has_a_place_and_a_class_for_each_example_and_is_the_same_again() -> None:
    made = surface(seeded(lambda: cnn_small(CLASSES, 1, 8)), images())
    first, again, other = (embedding(made, "fedavg", seed) for seed in (0, 0, 1))
    assert first.places.shape == (COUNT, 2) and np.isfinite(first.places).all()
    assert first.classes.tolist() == [k % CLASSES for k in range(COUNT)]
    assert (first.label, first.note) == ("fedavg", "training data of all clients, all 26 examples")
    assert np.array_equal(first.places, again.places)
    assert other.places.shape == first.places.shape


def test_one_map_of_the_features_of_several_models() -> None:
    made = surface(seeded(lambda: cnn_small(CLASSES, 1, 8)), images())
    surfaces = {"global model": made, "client 1": made.at(1.5 * made.w), "client 4": made.at(-made.w)}
    first, again = (joint_embedding(surfaces, "fedavg", 0, ("a", "b", "c")) for _ in range(2))
    assert first.places.shape == (3 * COUNT, 2) and np.array_equal(first.places, again.places)
    assert first.whose.tolist() == [k for k in range(3) for _ in range(COUNT)]
    assert first.classes.tolist() == [k % CLASSES for k in range(COUNT)] * 3
    assert (first.models, first.class_names) == (("global model", "client 1", "client 4"), ("a", "b", "c"))
    assert first.note == "training data of all clients, all 26 examples, under 3 models together; seed 0 of t-SNE"


def test_the_maps_of_runs_hold_the_local_models_of_the_last_round(tmp_path: Path, monkeypatch: Any) -> None:
    data = images()
    task = ff.Task(seeded(lambda: cnn_small(CLASSES, 1, 8)), [data] * 4, test=data)
    ff.train(task, ff.make("fedavg"), rounds=3, sampling=3, lr=0.3, workers=0, out=tmp_path / "run", average=ff.WIMA())
    seen: list[dict[str, Surface]] = []
    monkeypatch.setattr(
        "flatfed.experiments.measuring.feature_maps.joint_embedding", lambda actual, *_: seen.append(actual)
    )
    map_clients([tmp_path / "run"], 2)
    run = ff.load_run(tmp_path / "run")
    took = sorted(run.history[-1]["clients"])
    [surfaces] = seen
    assert list(surfaces) == ["global model", f"client {took[0]}", f"client {took[1]}"]
    assert torch.equal(surfaces["global model"].w, run._federation.server.w)
    with ff.laboratory(tmp_path / "run") as lab:
        assert lab.federation is not None
        models = {model.client: model.w for model in last_round(lab.federation).models}
    assert all(torch.equal(surfaces[f"client {k}"].w, models[k]) for k in took[:2])
    assert all(one.sample.most == MAPPED // 3 for one in surfaces.values()), "3,000 points at most"


@pytest.mark.parametrize("count", [1, 2, LEAST - 1])
def test_too_few_examples(count: int) -> None:
    with pytest.raises(ConfigError, match=f"at least {LEAST} examples, not {count}"):
        embedding(surface(seeded(lambda: cnn_small(CLASSES, 1, 8)), images(count)), "few")


def test_just_enough_examples() -> None:
    actual = embedding(surface(seeded(lambda: cnn_small(CLASSES, 1, 8)), images(LEAST)), "enough")
    assert actual.places.shape == (LEAST, 2)


@pytest.mark.parametrize("kind", ["numbers", "masks", "rows"])
def test_examples_without_a_class(kind: str) -> None:
    x, _ = images()
    if kind == "masks":
        model: nn.Module = nn.Conv2d(1, CLASSES, 1)
        task = ff.Task(model, [(x, torch.zeros(COUNT, 8, 8, dtype=torch.int64))])
    else:
        targets = torch.randn(COUNT) if kind == "numbers" else torch.randn(COUNT, 1)
        task = ff.Task(nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), [(x, targets)], loss=squared)
    with pytest.raises(ConfigError, match="these examples have none"):
        embedding(ff.laboratory(task).surface, "no classes")


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.squeeze(1) - targets.reshape(-1)).square().mean()


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, plain = surface(seeded(lambda: cnn_small(CLASSES, 1, 8)), images()), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "sklearn" else plain(name))
    with pytest.raises(ConfigError, match=r"needs scikit-learn; pip install 'flatfed\[plots\]'"):
        embedding(made, "fedavg")


# --- maps of runs -------------------------------------------------------------------------------------------


def trained(path: Path, method: str = "fedavg", **given: Any) -> ff.Run:
    data = images()
    task = ff.Task(seeded(lambda: cnn_small(CLASSES, 1, 8)), [data, data], test=data)
    return ff.train(task, ff.make(method), rounds=3, sampling=1, lr=0.3, workers=0, out=path, **given)


def test_maps_of_several_runs(tmp_path: Path) -> None:
    for method in ("fedavg", "fedsam"):
        trained(tmp_path / method, method)
    paths = [tmp_path / "fedavg", tmp_path / "fedsam"]
    maps = map_features(paths)
    assert [one.label for one in maps] == ["fedavg", "fedsam"]
    assert all(one.note == "test set, all 26 examples" for one in maps)
    for path, one in zip(paths, maps, strict=True):
        expected = embedding(ff.laboratory(path, data="test").surface, "", 0)
        assert np.array_equal(one.places, expected.places)
    assert same(maps, map_features(paths))


def same(a: list[Embedding], b: list[Embedding]) -> bool:
    return all(np.array_equal(one.places, other.places) for one, other in zip(a, b, strict=True))


def test_a_run_without_a_test_set(tmp_path: Path) -> None:
    task = ff.Task(seeded(lambda: cnn_small(CLASSES, 1, 8)), [images()])
    ff.train(task, ff.make("fedavg"), rounds=1, sampling=1, lr=0.1, workers=0, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="test"):
        map_features([tmp_path / "run"])
