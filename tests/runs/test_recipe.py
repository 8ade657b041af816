"""A run directory is enough: tasks made of tensors and importable modules come back to the same bits elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset, TensorDataset

import flatfed as ff
from engines.bench import exact
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.named_code import NamedBy
from flatfed.runs.described.import_paths import CannotDescribe, rebuild_callable
from flatfed.runs.described.modules import without_addresses
from flatfed.runs.described.tasks import describe_task, rebuild_task, tensor_bytes
from runs.bench import (
    POPULATION,
    Buffered,
    Recurrent,
    Repeated,
    Tied,
    digest,
    halved,
    in_new_process,
    jittered,
    small_run,
    small_task,
)

STRANGER = NamedBy(Path("config.json"), recorded={})
"""A file that may name nothing but what is in flatfed and torch."""


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return make()


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].requires_grad_(False)
    return model


def image_task(model: nn.Module) -> ff.Task:
    generator = torch.Generator().manual_seed(6)
    images = torch.randint(0, 256, (40, 2, 6, 6), generator=generator, dtype=torch.uint8)
    parts = [list(range(k, 40, POPULATION)) for k in range(POPULATION)]
    clients = ff.Partition(images, torch.arange(40) % 3, parts)
    return ff.Task(model=model, clients=clients, test=(images[:9], torch.arange(9) % 3), prepare=scaled)


def scaled(inputs: Tensor) -> Tensor:
    return inputs.float() / 255


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding="same", groups=2),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, bias=False),
        nn.GroupNorm(2, 6),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(6, 3),
    )


def transformer() -> nn.Module:
    return nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), nn.Linear(4, 3))


TASKS: dict[str, Callable[[], ff.Task]] = {
    "plain": small_task,
    "convolutions over a partition": lambda: image_task(seeded(convolutions)),
    "tied weights": lambda: small_task(model=seeded(Tied)),
    "one module under two names": lambda: small_task(model=seeded(Repeated)),
    "LSTM": lambda: small_task(model=seeded(Recurrent)),
    "frozen parameters": lambda: small_task(model=seeded(frozen)),
    "buffers and attributes": lambda: small_task(model=seeded(Buffered)),
    "attention": lambda: small_task(model=seeded(transformer)),
    "functions": lambda: small_task(prepare=halved, augment=jittered, loss=functional.cross_entropy, name="mine"),
    "no test": lambda: small_task(test=None),
    "local BatchNorm": lambda: small_task(local=ff.Local(types=(nn.BatchNorm1d,))),
    "local by name": lambda: small_task(local=ff.Local(names=("3.*",))),
    "evaluation mode": lambda: small_task(model=seeded(frozen).eval()),
    "transposed data": lambda: small_task(clients=[(torch.arange(32.0).view(4, 8).t(), torch.arange(8) % 3)] * 5),
    "data set of the catalogue": lambda: TaskRecipe("digits", clients=POPULATION, seed=1).build(),
}
SETTINGS = {"rounds": 2, "average": None}

RESUME = """
import json, sys
import flatfed as ff
from runs.bench import digest
found = {}
for path in sys.argv[1:]:
    try:
        found[path] = digest(ff.resume(path, 3))
    except Exception as error:
        found[path] = {"error": f"{type(error).__name__}: {error}"}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Two rounds here, the third in a process that has only the directories."""
    root = tmp_path_factory.mktemp("recipes")
    paths = {name: str(root / name.replace(" ", "-")) for name in TASKS}
    for name, path in paths.items():
        small_run(Path(path), TASKS[name](), **SETTINGS)
    done = in_new_process("-c", RESUME, *paths.values())
    assert done.returncode == 0, done.stderr
    actual = json.loads(done.stdout)
    return {name: actual[path] for name, path in paths.items()}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_comes_back_to_the_same_bits_in_another_process(name: str, elsewhere: dict[str, dict[str, Any]]) -> None:
    assert elsewhere[name] == digest(small_run(None, TASKS[name](), **(SETTINGS | {"rounds": 3})))


@pytest.mark.parametrize("name", TASKS)
def test_the_rebuilt_model_and_data_are_the_same(name: str, tmp_path: Path) -> None:
    task = TASKS[name]()
    recipe, tensors = describe_task(task)
    (tmp_path / "task.safetensors").write_bytes(tensor_bytes(tensors))
    again = rebuild_task(
        json.loads(json.dumps(recipe)), tmp_path / "task.safetensors", NamedBy(tmp_path / "config.json")
    )
    assert again.model is not task.model
    assert exact(dict(again.model.state_dict())) == exact(dict(task.model.state_dict()))
    shape = [(n, p.requires_grad, tuple(p.shape)) for n, p in task.model.named_parameters()]
    assert [(n, p.requires_grad, tuple(p.shape)) for n, p in again.model.named_parameters()] == shape
    assert [n for n, _ in again.model.named_modules()] == [n for n, _ in task.model.named_modules()]
    assert {m.training for m in again.model.modules()} == {m.training for m in task.model.modules()}
    assert again.population == task.population
    for client in range(task.population):
        everything = torch.arange(len(task.examples(client)))
        assert exact(again.examples(client).batch(everything)[0]) == exact(task.examples(client).batch(everything)[0])
        assert exact(again.examples(client).batch(everything)[1]) == exact(task.examples(client).batch(everything)[1])
    assert (again.name, again.local, again.test is None) == (task.name, task.local, task.test is None)


def test_describing_does_not_change_the_task() -> None:
    task = small_task(model=seeded(Tied))
    before = exact(dict(task.model.state_dict()))
    recipe, tensors = describe_task(task)
    for tensor in tensors.values():
        tensor.zero_()
    assert exact(dict(task.model.state_dict())) == before
    assert "pickle" not in json.dumps(recipe)


def with_addresses(model: dict[str, Any], known: dict[str, int]) -> dict[str, Any]:
    """Return a description as it used to be: parameters named by their addresses, each with a tensor of its own."""
    if "same" in model:
        return model
    parameters = {
        name: entry
        and entry | {"tensor": f"{model['path']}.{name}", "id": known.setdefault(entry["tensor"], len(known))}
        for name, entry in model["parameters"].items()
    }
    children = {name: child and with_addresses(child, known) for name, child in model["children"].items()}
    return model | {"parameters": parameters, "children": children}


@pytest.mark.parametrize("name", TASKS)
def test_an_older_description_with_addresses_is_read(name: str, tmp_path: Path) -> None:
    task = TASKS[name]()
    recipe, tensors = describe_task(task)
    places = dict(task.model.named_parameters(remove_duplicate=False))
    tensors |= {f"model.{place}": parameter.detach().clone() for place, parameter in places.items()}
    (tmp_path / "task.safetensors").write_bytes(tensor_bytes(tensors))
    old = recipe | {"model": with_addresses(recipe["model"], {})}
    again = rebuild_task(old, tmp_path / "task.safetensors", NamedBy(tmp_path / "config.json"))
    assert exact(dict(again.model.state_dict())) == exact(dict(task.model.state_dict()))
    assert [n for n, _ in again.model.named_parameters()] == [n for n, _ in task.model.named_parameters()]
    assert without_addresses(old["model"]) == recipe["model"]


def test_a_shared_parameter_is_reported_by_its_first_place_and_kept_once() -> None:
    recipe, tensors = describe_task(small_task(model=seeded(Tied)))
    decoder = recipe["model"]["children"]["decoder"]
    assert decoder["parameters"]["weight"] == {"tensor": "model.encoder.weight", "grad": True}
    assert "model.decoder.weight" not in tensors
    assert describe_task(small_task(model=seeded(Tied)))[0] == recipe


# What no file can describe.


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """A data set of a user."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.pairs = TensorDataset(inputs, targets)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.pairs[index]  # type: ignore[return-value]


def as_datasets(task: ff.Task) -> list[Pairs]:
    return [Pairs(*task.examples(k).batch(torch.arange(8))) for k in range(POPULATION)]


class WithHook(nn.Linear):
    """A module with a hook, which is code that lives in memory only."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.register_forward_hook(lambda module, args, output: output * 2)


class OwnMetrics:
    def measure(self, outputs: Any, targets: Tensor) -> dict[str, Tensor]:
        return {"sum": outputs.sum().double()}

    def summarise(self, totals: Any) -> dict[str, float]:
        return {"test_sum": float(totals["sum"])}


def locally_defined() -> nn.Module:
    class Local(nn.Linear):
        pass

    return Local(4, 3)


INDESCRIBABLE: dict[str, tuple[Callable[[], ff.Task], str]] = {
    "lambda loss": (lambda: small_task(loss=lambda o, t: functional.cross_entropy(o, t)), "lambda"),
    "data set": (lambda: small_task(clients=as_datasets(small_task())), "client/0 is a DatasetExamples"),
    "test data set": (lambda: small_task(test=as_datasets(small_task())[0]), "test is a DatasetExamples"),
    "class in a function": (lambda: small_task(model=seeded(locally_defined)), "cannot be imported by name"),
    "hook": (lambda: small_task(model=seeded(WithHook)), "has hooks"),
    "metrics": (lambda: small_task(metrics=OwnMetrics()), "metrics of its own"),
    "lambda augmentation": (lambda: small_task(augment=lambda x, g: x), "lambda"),
}


@pytest.mark.parametrize("name", INDESCRIBABLE)
def test_what_cannot_be_described_is_recorded_and_asked_for(name: str, tmp_path: Path) -> None:
    make, reason = INDESCRIBABLE[name]
    task = make()
    with pytest.raises(CannotDescribe):
        describe_task(task)
    small_run(tmp_path / "here", task, **SETTINGS)
    elsewhere = shutil.copytree(tmp_path / "here", tmp_path / "elsewhere")  # a place that this process does not know
    recipe = json.loads((elsewhere / "config.json").read_text())["task"]
    assert recipe["kind"] == "memory"
    assert reason in recipe["reason"]
    with pytest.raises(ff.ConfigError, match="task=task") as caught:
        ff.resume(elsewhere, 3)
    assert reason in str(caught.value)
    expected = digest(small_run(None, task, **(SETTINGS | {"rounds": 3})))
    assert digest(ff.resume(elsewhere, 3, task=make())) == expected
    assert digest(ff.resume(tmp_path / "here", 3)) == expected, "this process still has the task at hand"


MAIN = """
import sys
from pathlib import Path
from torch import nn
from runs.bench import seeded_main_run

class Mine(nn.Linear):
    pass

def my_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)

seeded_main_run(Path(sys.argv[1]) / "model", model=lambda: Mine(4, 3))
seeded_main_run(Path(sys.argv[1]) / "loss", loss=my_loss)
"""


def test_a_class_or_function_of_a_script_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(MAIN)
    done = in_new_process(str(tmp_path / "script.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    for name, who in (("model", "Mine"), ("loss", "my_loss")):
        with pytest.raises(ff.ConfigError, match=f"only lived in memory.*{who}.*task=task"):
            ff.resume(tmp_path / name, 3)
        task = small_task(model=seeded(lambda: nn.Linear(4, 3))) if name == "model" else small_task()
        expected = digest(small_run(None, task, **(SETTINGS | {"rounds": 3})))
        assert digest(ff.resume(tmp_path / name, 3, task=task)) == expected


def test_chains_of_augmentations_are_described() -> None:
    from flatfed.data.augment.chains import BatchTransformChain, Chain
    from flatfed.data.augment.crops import Crop
    from flatfed.data.augment.flips import Flip
    from flatfed.data.augment.mixing import Cutout

    augment, batch_transform = Chain((Crop(2), Flip(0.25))), BatchTransformChain((Cutout(3),))
    recipe, _ = describe_task(small_task(augment=augment, batch_transform=batch_transform))
    again = json.loads(json.dumps(recipe))
    assert (rebuild_callable(again["augment"], STRANGER), rebuild_callable(again["batch_transform"], STRANGER)) == (
        augment,
        batch_transform,
    )
