"""Which part of a model is its head, and weights that are loaded without it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.models import build, models
from flatfed.models.catalogue import _heads
from flatfed.models.heads import head_tensors
from models.samples import facts

OWN = """
from torch import nn

class Plain(nn.Sequential):
    def __init__(self, classes, width=8):
        super().__init__(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, classes))

class Named(nn.Module):
    head_names = ("first",)
    def __init__(self, classes):
        super().__init__()
        self.first, self.last = nn.Linear(3, classes), nn.Linear(3, 2)

class NamedByWord(Plain):
    head_names = "2"

class Misnamed(Plain):
    head_names = ("fc",)

class Numbered(Plain):
    head_names = (2,)

class Early(nn.Sequential):
    def __init__(self, classes):
        super().__init__(nn.Linear(3, classes), nn.Linear(classes, 2))

class Twice(nn.Sequential):
    def __init__(self, classes):
        super().__init__(nn.Linear(3, classes), nn.Linear(classes, classes))

class Pixels(nn.Sequential):
    def __init__(self, classes):
        super().__init__(nn.Conv2d(3, classes, 1))

class Tied(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.embedding, self.out = nn.Embedding(classes, 3), nn.Linear(3, classes, bias=False)
        self.out.weight = self.embedding.weight
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with networks of one's own."""
    (tmp_path / "headed_nets.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield "headed_nets"
    monkeypatch.delitem(__import__("sys").modules, "headed_nets", raising=False)


def saved(path: Path, model: nn.Module) -> Path:
    safetensors.torch.save_file(model.state_dict(), path)
    return path


@pytest.mark.parametrize("id", models())
def test_the_head_is_what_depends_on_the_classes(id: str) -> None:
    five, seven = (build(id, classes, **facts(id)) for classes in (5, 7))
    other = seven.state_dict()
    assert head_tensors(id, five, 5, _heads[id]) == {
        n for n, t in five.state_dict().items() if t.shape != other[n].shape
    }


@pytest.mark.parametrize("id", models())
def test_a_new_head_is_the_seed_s_and_the_rest_the_file_s(id: str, tmp_path: Path) -> None:
    start = build(id, 7, seed=1, **facts(id))
    path = saved(tmp_path / "w.safetensors", start)
    with pytest.raises(ConfigError, match=r"has shape \(7.*, the model's \(5.*\); new_head starts with a new head$"):
        build(id, 5, seed=2, weights=path, **facts(id))
    given, fresh = start.state_dict(), build(id, 5, seed=2, **facts(id))
    head = head_tensors(id, fresh, 5, _heads[id])
    for name, value in build(id, 5, seed=2, weights=path, new_head=True, **facts(id)).state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name] if name in head else given[name]), name


def test_a_head_of_the_same_shape_is_new_too(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", build("mlp", 4, 1, 4, seed=1))
    made = build("mlp", 4, 1, 4, seed=2, weights=path, new_head=True)
    assert torch.equal(made.head.weight, build("mlp", 4, 1, 4, seed=2).head.weight)
    assert torch.equal(made.hidden.weight, build("mlp", 4, 1, 4, seed=1).hidden.weight)


def test_a_file_without_a_head(tmp_path: Path) -> None:
    body = {n: t for n, t in build("mlp", 4, 1, 4, seed=1).state_dict().items() if not n.startswith("head")}
    safetensors.torch.save_file(body, tmp_path / "w.safetensors")
    with pytest.raises(ConfigError, match=r"they lack head.bias, head.weight; new_head starts with a new head$"):
        build("mlp", 4, 1, 4, weights=tmp_path / "w.safetensors")
    made = build("mlp", 4, 1, 4, seed=2, weights=tmp_path / "w.safetensors", new_head=True)
    assert torch.equal(made.head.weight, build("mlp", 4, 1, 4, seed=2).head.weight)


def test_what_differs_outside_of_the_head_is_refused_with_or_without_a_new_one(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", build("mlp", 5, 1, 6))
    for new_head in (False, True):
        with pytest.raises(ConfigError, match=r"their hidden.weight has shape \(128, 36\), the model's \(128, 16\)$"):
            build("mlp", 4, 1, 4, weights=path, new_head=new_head)
    path = saved(tmp_path / "w.safetensors", build("logreg", 4, 1, 4))
    with pytest.raises(ConfigError, match=r"they lack hidden.bias, hidden.weight$"):
        build("mlp", 4, 1, 4, weights=path, new_head=True)
    more = {**build("mlp", 4, 1, 4).state_dict(), "head.extra": torch.zeros(1)}
    safetensors.torch.save_file(more, tmp_path / "x.safetensors")
    with pytest.raises(ConfigError, match=r"they hold head.extra, which the model does not have$"):
        build("mlp", 4, 1, 4, weights=tmp_path / "x.safetensors", new_head=True)


def test_a_new_head_without_weights_means_nothing() -> None:
    with pytest.raises(ConfigError, match=r"new_head needs weights to start from"):
        build("mlp", 4, 1, 4, new_head=True)


# --- models of one's own ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "head"), [("Plain", "2"), ("Named", "first"), ("NamedByWord", "2")])
def test_own_models_say_it_or_have_a_last_linear_layer(own: str, name: str, head: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors", build(f"{own}:{name}", 7, seed=1))
    made = build(f"{own}:{name}", 5, seed=2, weights=path, new_head=True).state_dict()
    given, fresh = safetensors.torch.load_file(path), build(f"{own}:{name}", 5, seed=2).state_dict()
    for tensor, value in made.items():
        assert torch.equal(value, (fresh if tensor.startswith(f"{head}.") else given)[tensor]), tensor


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "Early",
            r"which part of headed_nets:Early is the head\? its last linear layer, 1, has 2 outputs for 5 classes",
        ),
        ("Twice", "0 and 1 have 5 outputs each; say so in the class: head_names = "),
        ("Pixels", "it holds no linear layer; say so in the class"),
        ("Misnamed", "headed_nets:Misnamed: unknown module of the head 'fc'; known: 0, 1, 2"),
        ("Numbered", r"head_names must name modules, such as \('fc',\), not \(2,\)"),
        ("Tied", "the head shares its weights with embedding.weight, so new_head cannot leave them out"),
    ],
)
def test_a_head_that_is_not_clear(own: str, name: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    state = {n: t.clone() for n, t in build(f"{own}:{name}", 7).state_dict().items()}
    safetensors.torch.save_file(state, path)
    with pytest.raises(ConfigError, match=words):
        build(f"{own}:{name}", 5, weights=path, new_head=True)
