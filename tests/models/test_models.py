"""Models: sizes, shapes, keyed initialisation."""

from __future__ import annotations

import itertools
import pickle
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.data import load
from flatfed.models import build, catalogue, models, networks
from models.samples import OF_IMAGES, examples, facts, made, parameters


@pytest.mark.parametrize(
    ("id", "classes", "in_channels", "image_size", "count"),
    [
        ("cnn", 10, 3, 32, 797_962),
        ("cnn-quarter", 10, 3, 32, 51_274),
        ("cnn-eighth", 10, 3, 32, 13_290),
        ("cnn-patches", 10, 3, 32, 36_346),
        ("cnn", 100, 3, 32, 815_332),
        ("cnn-small", 10, 1, 8, 13_706),
        ("mlp", 10, 1, 8, 64 * 128 + 128 + 128 * 10 + 10),
        ("logreg", 10, 1, 8, 650),
    ],
)
def test_numbers_of_parameters(id: str, classes: int, in_channels: int, image_size: int, count: int) -> None:
    assert parameters(build(id, classes, in_channels, image_size, seed=0)) == count


@pytest.mark.parametrize("id", OF_IMAGES)
@pytest.mark.parametrize(("in_channels", "image_size"), [(1, 28), (3, 32), (2, 17)])
def test_outputs_are_one_number_per_class(id: str, in_channels: int, image_size: int) -> None:
    model = build(id, 7, in_channels, image_size, seed=0)
    images = torch.zeros(4, in_channels, image_size, image_size)
    assert model(images).shape == (4, 7)
    assert model(images.contiguous(memory_format=torch.channels_last)).shape == (4, 7)


@pytest.mark.parametrize("id", models())
def test_the_seed_alone_decides_the_weights(id: str) -> None:
    torch.manual_seed(1)
    first = build(id, 10, seed=5, **facts(id, 1)).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again, other = (build(id, 10, seed=seed, **facts(id, 1)).state_dict() for seed in (5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    drawn = [name for name in first if "norm" not in name]  # normalisation starts from ones and zeros
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


@pytest.mark.parametrize("id", models())
def test_models_travel_to_workers(id: str) -> None:
    model, inputs = made(id).eval(), examples(id, 3)[0]
    assert torch.equal(pickle.loads(pickle.dumps(model))(inputs), model(inputs))


def papers_cnn(model: nn.Module, x: Tensor) -> Tensor:
    """The CNN as the papers write it, with ReLU before max-pool."""
    w = dict(model.named_parameters())
    for name in ("conv1", "conv2"):
        x = F.max_pool2d(F.relu(F.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"])), 2)
    x = x.flatten(1)
    for name in ("hidden1", "hidden2"):
        x = F.relu(F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"]))
    return F.linear(x, w["head.weight"], w["head.bias"])


def test_relu_and_max_pool_commute() -> None:
    model = build("cnn", 10, 3, 32, seed=0)
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model(images), papers_cnn(model, images))


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="unknown model 'cnn-smal'; did you mean 'cnn-small'"):
        build("cnn-smal", 10, 1, 8, seed=0)
    with pytest.raises(ConfigError, match="cnn needs images of at least 16x16 pixels, not 8x8; try 'cnn-small'"):
        build("cnn", 10, 1, 8, seed=0)
    with pytest.raises(ConfigError, match="cnn-small needs images of at least 4x4 pixels, not 3x3; try 'mlp'"):
        build("cnn-small", 10, 1, 3, seed=0)
    with pytest.raises(ConfigError, match="mlp: classes must be at least 1, not 0"):
        build("mlp", 0, 1, 8, seed=0)


def test_the_smallest_image_of_the_cnn_is_as_the_error_says() -> None:
    assert build("cnn", 10, 1, 16, seed=0)(torch.zeros(1, 1, 16, 16)).shape == (1, 10)
    with pytest.raises(ConfigError, match="16x16"):
        build("cnn", 10, 1, 15, seed=0)


def test_a_new_model_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "constant.py").write_text(
        "from torch import nn\n"
        "from flatfed.models.catalogue import model\n"
        "@model('constant')\n"
        "def constant(classes, in_channels, image_size):\n"
        "    'Says nothing.'\n"
        "    return nn.Identity()\n"
    )
    models()
    monkeypatch.setattr(networks, "__path__", [*networks.__path__, str(tmp_path)])
    monkeypatch.setattr(catalogue, "_builders", dict(catalogue._builders))
    monkeypatch.delitem(sys.modules, "flatfed.models.networks.constant", raising=False)
    catalogue._discover.cache_clear()
    assert models()["constant"] == "Says nothing."
    assert isinstance(build("constant", 1, 1, 1, seed=0), nn.Identity)


def test_an_id_is_taken_once() -> None:
    models()
    with pytest.raises(ConfigError, match=r"'cnn' is taken by flatfed.models.networks.cnn.cnn"):
        catalogue.model("cnn")(lambda classes, in_channels, image_size: nn.Identity())


def test_the_default_model_learns_the_digits() -> None:
    pool = load("digits")
    model = build(pool.default_model, pool.classes, **pool.facts, seed=0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        for batch in torch.randperm(len(pool.train.targets), generator=generator).split(50):
            optimiser.zero_grad()
            inputs = pool.prepare(pool.train.inputs[batch])
            F.cross_entropy(model(inputs), pool.train.targets[batch]).backward()
            optimiser.step()
    right = model(pool.prepare(pool.test.inputs)).argmax(dim=1) == pool.test.targets
    assert float(right.float().mean()) > 0.9


def layers(model: nn.Module) -> list[tuple[int, int]]:
    """Return the linear layers, each with the numbers of its inputs and outputs."""
    return [(part.in_features, part.out_features) for part in model.modules() if isinstance(part, nn.Linear)]


@pytest.mark.parametrize(
    ("hidden", "widths"),
    [(128, [128]), (16, [16]), ("16", [16]), ("64,32", [64, 32]), (" 8 , 4,2 ", [8, 4, 2]), ([5, 6], [5, 6])],
)
def test_hidden_layers_of_the_perceptron(hidden: object, widths: list[int]) -> None:
    model = build("mlp", 3, in_features=7, options={"hidden": hidden})
    sizes = [7, *widths, 3]
    assert layers(model) == list(itertools.pairwise(sizes))
    assert model(torch.zeros(2, 7)).shape == (2, 3)


@pytest.mark.parametrize("hidden", ["", 0, -4, "64,", "64;32", 1.5, "wide", [], True, "9" * 40])
def test_hidden_layers_that_there_cannot_be(hidden: object) -> None:
    with pytest.raises(ConfigError, match=r"mlp: model\.hidden must be a width or a list of widths such as 64,32"):
        build("mlp", 3, in_features=7, options={"hidden": hidden})


def test_the_first_hidden_layer_has_the_name_that_it_always_had() -> None:
    assert list(build("mlp", 3, 1, 8).state_dict()) == ["hidden.weight", "hidden.bias", "head.weight", "head.bias"]
    deeper = build("mlp", 3, 1, 8, options={"hidden": "4,4"})
    assert [name for name, _ in deeper.named_children()] == ["flatten", "hidden", "relu", "hidden2", "relu2", "head"]


@pytest.mark.parametrize("id", ["mlp", "logreg"])
def test_features_of_an_image_are_its_pixels(id: str) -> None:
    image, table = build(id, 3, 2, 5, seed=4), build(id, 3, in_features=50, seed=4)
    assert all(torch.equal(value, table.state_dict()[name]) for name, value in image.state_dict().items())
    with pytest.raises(ConfigError, match=f"{id} needs in_features, but the data has only classes, length, vocabulary"):
        build(id, 3, vocabulary=9, length=2)
    with pytest.raises(ConfigError, match="cnn needs in_channels, image_size, but the data has only classes, in_feat"):
        build("cnn", 3, in_features=50)
