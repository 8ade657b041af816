"""Models of one's own by import path, options, facts, and weights to start from."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.models import build
from flatfed.named_code import USER

NETS = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, classes, in_channels, image_size, width=8):
        inputs = in_channels * image_size**2
        super().__init__(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes))

class Outer:
    class Inner(nn.Linear):
        def __init__(self, num_classes, in_channels):
            super().__init__(in_channels, num_classes)

class Words(nn.Embedding):
    def __init__(self, classes, vocabulary):
        super().__init__(vocabulary, classes)

def loose(classes, **more):
    made = nn.Linear(3, classes)
    made.more = more
    return made

class Needs(nn.Linear):
    def __init__(self, classes, hidden, depth):
        super().__init__(classes, hidden)

def number(classes):
    return classes

constant = 7
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with networks, to be imported."""
    (tmp_path / "own_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield "own_nets"
    monkeypatch.delitem(__import__("sys").modules, "own_nets", raising=False)


def test_a_class_by_its_path_is_given_the_facts(nets: str) -> None:
    made = build(f"{nets}:Net", 10, 1, 8)
    assert made(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert made[1].out_features == 8
    assert build(f"{nets}:Words", 3, vocabulary=20, length=5).weight.shape == (20, 3)


def test_its_seed_decides_its_weights(nets: str) -> None:
    first, again, other = (build(f"{nets}:Net", 10, 1, 8, seed=seed)[1].weight for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_num_classes_is_the_number_of_classes(nets: str) -> None:
    assert build(f"{nets}:Outer.Inner", 10, 3, 8).weight.shape == (10, 3)


def test_options(nets: str) -> None:
    assert build(f"{nets}:Net", 10, 1, 8, options={"width": 5})[1].out_features == 5
    assert build(f"{nets}:loose", 10, 1, 8, options={"depth": 5}).more == {"depth": 5}
    with pytest.raises(ConfigError, match=r"unknown option of the model 'widht'; did you mean 'width'.*takes width"):
        build(f"{nets}:Net", 10, 1, 8, options={"widht": 5})
    with pytest.raises(ConfigError, match=r"cnn: unknown option of the model 'width' \(cnn takes no options\)"):
        build("cnn", 10, 1, 16, options={"width": 5})
    with pytest.raises(ConfigError, match="unknown option of the model 'classes'"):  # facts are the data's to say
        build("resnet18-gn", 10, 3, options={"classes": 5})


def test_missing_facts(nets: str) -> None:
    with pytest.raises(ConfigError, match=r"Words needs vocabulary, but the data has only classes, im"):
        build(f"{nets}:Words", 10, 1, 8)
    with pytest.raises(
        ConfigError, match="Net needs in_channels, image_size, but the data has only classes, length, vo"
    ):
        build(f"{nets}:Net", 10, vocabulary=20, length=5)
    with pytest.raises(ConfigError, match="cnn: image_size must be at least 1, not 0"):
        build("cnn", 10, 3, 0)


def test_an_option_without_a_default_must_be_set(nets: str) -> None:
    with pytest.raises(ConfigError, match=r"own_nets:Needs needs the options hidden, depth, which have no default"):
        build(f"{nets}:Needs", 10, 1, 8)
    with pytest.raises(
        ConfigError, match=r"needs the options depth, which have no default: model\.depth=VALUE \(the data gives"
    ):
        build(f"{nets}:Needs", 10, 1, 8, options={"hidden": 3})
    assert build(f"{nets}:Needs", 10, 1, 8, options={"hidden": 3, "depth": 1}).out_features == 3


def test_a_module_that_is_not_found_says_where_to_start(nets: str, tmp_path: Path) -> None:
    start = r"; start in the folder that holds it \(where the run was started\), or put that folder into PYTHONPATH$"
    for name in ("nowhere_nets", "nowhere.nets", f"{nets}.deeper"):
        with pytest.raises(ConfigError, match=f"No module named .*{start}"):
            build(f"{name}:Net", 10, 1, 8)
    (tmp_path / "needy_nets.py").write_text("import another_module\n")
    with pytest.raises(ConfigError, match="No module named 'another_module'") as caught:
        build("needy_nets:Net", 10, 1, 8)
    assert "PYTHONPATH" not in str(caught.value)


def test_what_is_no_model(nets: str) -> None:
    with pytest.raises(ConfigError, match=r"the model own_nets:Nett cannot be imported: .*Nett"):
        build(f"{nets}:Nett", 10, 1, 8)
    with pytest.raises(ConfigError, match=r"the model nowhere.nets:Net cannot be imported: No module named 'nowhere'"):
        build("nowhere.nets:Net", 10, 1, 8)
    with pytest.raises(ConfigError, match="the model :Net cannot be imported"):
        build(":Net", 10, 1, 8)
    with pytest.raises(ConfigError, match="the model own_nets:constant is a int, not a class or function"):
        build(f"{nets}:constant", 10, 1, 8)
    with pytest.raises(ConfigError, match=r"own_nets:number makes a int, not a torch.nn.Module"):
        build(f"{nets}:number", 10, 1, 8)


def test_an_own_model_in_a_task(nets: str, tmp_path: Path) -> None:
    recipe = TaskRecipe("digits", clients=20, model=f"{nets}:Net", model_options={"width": 6})
    task = recipe.build()
    assert task.model[1].out_features == 6
    again = TaskRecipe.from_dict(recipe.to_dict(), USER).build()
    assert torch.equal(again.model[1].weight, task.model[1].weight)
    run = ff.train(task, ff.make("fedsam"), rounds=1, sampling=2, lr=0.1, workers=0)
    assert run.history[-1]["test_accuracy"] > 0
    safetensors.torch.save_file(run.model().state_dict(), tmp_path / "w.safetensors")
    warm = TaskRecipe.from_dict({**recipe.to_dict(), "weights": str(tmp_path / "w.safetensors")}, USER).build()
    assert torch.equal(warm.model[1].weight, run.model()[1].weight)


def saved(path: Path, model: nn.Module) -> Path:
    safetensors.torch.save_file(model.state_dict(), path)
    return path


@pytest.mark.parametrize(("id", "options"), [("cnn-small-bn", {}), ("wrn-28-4", {"norm": "batch"})])
def test_weights_to_start_from(tmp_path: Path, id: str, options: dict[str, object]) -> None:
    model = build(id, 4, 1, 8, seed=1, options=options)
    model(torch.randn(4, 1, 8, 8))  # moves BatchNorm's statistics
    path = saved(tmp_path / "w.safetensors", model)
    loaded = build(id, 4, 1, 8, seed=2, options=options, weights=path).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in model.state_dict().items())


def test_weights_are_cast_to_the_model_s_type(tmp_path: Path) -> None:
    model = build("logreg", 4, 1, 2, seed=1)
    path = saved(tmp_path / "w.safetensors", model.double())
    assert build("logreg", 4, 1, 2, weights=path).head.weight.dtype == torch.float32


def refused(path: Path, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        build("mlp", 4, 1, 4, weights=path)
    assert str(path) in str(caught.value)


def test_missing_weights(tmp_path: Path) -> None:
    refused(tmp_path / "none.safetensors", "the weights .* are missing")
    refused(tmp_path, "the weights .* are a folder, not a safetensors file$")
    (tmp_path / "config.json").write_text("{}")  # what a run directory has
    refused(tmp_path, r"are a folder.*save_file\(ff.load_run\(.*\).model\(\).state_dict\(\), \"w.safetensors\"\)$")


def test_damaged_weights(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", build("mlp", 4, 1, 4))
    content = path.read_bytes()
    for damaged in (b"", content[:6], content[:60], content[:-10], b"\xff" * 64, content + b"more"):
        path.write_bytes(damaged)
        refused(path, "the weights .* cannot be read: it is not a whole safetensors file")


@pytest.mark.parametrize("as_archive", [True, False])
def test_files_of_torch_save_are_named_with_how_to_convert_them(tmp_path: Path, as_archive: bool) -> None:
    path = tmp_path / "w.pt"
    torch.save(build("mlp", 4, 1, 4).state_dict(), path, _use_new_zipfile_serialization=as_archive)
    refused(path, "cannot be read: it is not a safetensors file but one of torch.save; convert it with safetensors.to")


def test_weights_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = saved(tmp_path / "w.safetensors", build("mlp", 4, 1, 4))
    monkeypatch.setattr(safetensors.torch, "load_file", denied)
    monkeypatch.setattr(Path, "open", denied)
    refused(path, "cannot be read: Permission denied$")


def test_weights_of_another_shape(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", build("mlp", 5, 1, 4))
    refused(path, r"do not fit the model: their head.\w+ has shape \(5.*, the model's \(4")


def test_weights_of_another_model(tmp_path: Path) -> None:
    refused(saved(tmp_path / "w.safetensors", build("logreg", 4, 1, 4)), "they lack hidden.bias, hidden.weight$")
    state = {**build("mlp", 4, 1, 4).state_dict(), "extra": torch.zeros(1)}
    safetensors.torch.save_file(state, tmp_path / "x.safetensors")
    refused(tmp_path / "x.safetensors", "they hold extra, which the model does not have")
    path = saved(tmp_path / "c.safetensors", build("cnn-small", 4, 1, 8))
    refused(path, r"they hold conv1.bias, conv1.weight, conv2.bias, conv2.weight, which the model does not have")


def test_refused_weights_leave_nothing_half_loaded(tmp_path: Path) -> None:
    from flatfed.models.weights import load_weights

    model = build("mlp", 4, 1, 4, seed=0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ConfigError):
        load_weights(model, saved(tmp_path / "w.safetensors", build("mlp", 5, 1, 4, seed=1)))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        (
            "broken_making",
            "def net(classes):\n    raise RuntimeError('no room')\n",
            r"cannot be made: no room \(.*line 2\)",
        ),
        ("broken_import", "x = 1\nx / 0\n", r"cannot be imported: division by zero \(.*line 2\)"),
        ("broken_syntax", "def net(:\n", "cannot be imported: invalid syntax"),
    ],
)
def test_errors_in_a_users_file_name_the_place(
    name: str, body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=words):
        build(f"{name}:net", 10, 1, 8)
