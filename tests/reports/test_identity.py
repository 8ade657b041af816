"""Which runs are seeds of one thing: by what decides them, not by how a record wrote it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from flatfed.core.round.sampling import Sampler
from flatfed.reports.results.result import UNKNOWN, Result, agree, identity
from flatfed.reports.results.results import collect
from flatfed.reports.tables.table import aggregates, notes
from records import rewrite
from reports.disk import write_run
from runs.bench import Tied, halved, in_new_process, small_run, small_task

Config = dict[str, Any]


def edited(path: Path, change: Callable[[Config], None]) -> Path:
    config = json.loads((path / "config.json").read_text())
    change(config)
    rewrite(path / "config.json", config)
    return path


def one_group(*paths: Path) -> Result:
    [result] = collect(paths)
    return result


# Records that are older than a parameter, or spell it otherwise.


def without(*names: str) -> Callable[[Config], None]:
    """Let a record be from before these parameters were there."""

    def change(config: Config) -> None:
        for name in names:
            *parents, last = name.split(".")
            place = config
            for parent in parents:
                place = place[parent]
            del place[last]

    return change


@pytest.mark.parametrize(
    "names",
    [("algorithm.server_lr",), ("algorithm.client_opt",), ("settings.device", "settings.min_replies")],
    ids=["of the method", "its client optimiser", "settings"],
)
def test_a_parameter_that_was_added_since_has_its_default(names: tuple[str, ...], tmp_path: Path) -> None:
    old = edited(write_run(tmp_path / "old"), without(*names))
    assert len(one_group(old, write_run(tmp_path / "new", seed=1)).runs) == 2
    other = {"server_lr": 0.5} if "server_lr" in names[0] else {"client_opt.rho": 0.1} if "opt" in names[0] else {}
    if other:
        method = "fedavg+sam" if "client_opt.rho" in other else "fedavg"
        assert len(collect([old, write_run(tmp_path / "other", method, 1, parameters=other)])) == 2


def test_an_alias_is_the_value_that_it_stands_for(tmp_path: Path) -> None:
    class Spelled(Sampler, id="spelled"):
        """A sampler whose parameter has a former name."""

        schedules: ClassVar[bool] = False
        form: Literal["new", "former"] = "new"

        def __post_init__(self) -> None:
            super().__post_init__()
            object.__setattr__(self, "form", "new")

    def spell(form: str) -> Callable[[Config], None]:
        return lambda config: config.update(sampler={"id": "spelled", "form": form})

    try:
        paths = [edited(write_run(tmp_path / f, seed=s), spell(f)) for s, f in enumerate(("former", "new"))]
        assert len(one_group(*paths).runs) == 2
    finally:
        del Sampler.registry["spelled"]


def test_a_method_that_is_not_imported_here_is_compared_as_it_stands(tmp_path: Path) -> None:
    def own(rho: float) -> Callable[[Config], None]:
        return lambda config: config.update(method="mine", algorithm={"id": "mine", "rho": rho})

    paths = [edited(write_run(tmp_path / str(s), seed=s), own(0.1)) for s in (0, 1)]
    other = edited(write_run(tmp_path / "c", seed=2), own(0.2))
    assert [len(result.runs) for result in collect([*paths, other])] == [2, 1]


# Tasks of the catalogue.


def record(**task: Any) -> Config:
    """Return the record of a run; `task` as a recipe holds it."""
    recipe = {"kind": "catalogue", "dataset": "digits", "partition": {"id": "dirichlet", "alpha": 0.1}, "seed": 3}
    settings = {"rounds": 3, "lr": 0.1, "seed": 3}
    method = {"method": "fedavg", "algorithm": {"id": "fedavg"}, "average": None}
    return {**method, "sampler": {"id": "uniform", "count": 2}, "settings": settings, "task": recipe | task}


OLD = {"clients": None, "model": None, "augment": True, "model_options": {}, "data_options": {}, "weights": None}
SAME: list[Config] = [
    {"clients": 100, "model": "cnn-small"},
    {"augment": True, "seed": 9, "data_dir": "/elsewhere", "partition_sha256": "0"},
    {"partition": {"id": "dirichlet", "alpha": 0.1, "prior": "uniform", "size_sigma": 0.0}},
    {"local_layers": None, "a_field_of_tomorrow": None},
]
OTHERS: list[Config] = [
    *({"clients": 99}, {"model": "logreg"}, {"augment": False}, {"augment": "crop-flip"}, {"local_layers": "bn"}),
    *({"partition": {"id": "dirichlet", "alpha": 0.2}}, {"partition": {"id": "iid"}}, {"weights": "/a/w.safetensors"}),
    *({"dataset": "mnist"}, {"a_field_of_tomorrow": 1}),
]


@pytest.mark.parametrize("changes", SAME, ids=str)
def test_what_was_left_to_defaults_is_what_they_were(changes: Config) -> None:
    assert agree(identity(record(**OLD)), identity(record(**(OLD | changes))))


@pytest.mark.parametrize("changes", OTHERS, ids=str)
def test_another_task_is_another_thing(changes: Config) -> None:
    assert not agree(identity(record(**OLD)), identity(record(**(OLD | changes))))


def test_options_of_data_and_network_have_their_defaults() -> None:
    old = record(**(OLD | {"dataset": "cifar100", "model": "resnet18-gn"}))
    written = {"data_options": {"labels": "fine"}, "model_options": {"stem": "cifar"}}
    actual = identity(old)
    for options, prefix in zip(written.values(), ("task.data_options", "task.model_options"), strict=True):
        for name in options:
            assert f"{prefix}.{name}" in actual, sorted(actual)
    explicit = {"model_options": {n.rpartition(".")[2]: v for n, v in actual.items() if "model_options" in n}}
    assert agree(actual, identity(record(**(OLD | {"dataset": "cifar100", "model": "resnet18-gn"} | explicit))))


def test_clients_as_the_data_have_them_agree_with_their_number() -> None:
    natural = {"dataset": "mnist-writers", "partition": {"id": "natural"}}
    old, new = identity(record(**(OLD | natural))), identity(record(**(OLD | natural | {"clients": 539})))
    assert old["task.clients"] == UNKNOWN and agree(old, new)


# Tasks from Python.

TRAIN = """
import sys
from pathlib import Path
import torch
from runs.bench import Tied, small_run, small_task
padding = [object() for _ in range(int(sys.argv[2]) * 1000)]
torch.manual_seed(int(sys.argv[2]))
small_run(Path(sys.argv[1]), small_task(model=Tied(), name="mine"), seed=int(sys.argv[2]), rounds=1, average=None)
"""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a task from Python, each trained in a process of its own."""
    folder = tmp_path_factory.mktemp("seeds")
    for seed in (0, 1):
        done = in_new_process("-c", TRAIN, str(folder / str(seed)), str(seed))
        assert done.returncode == 0, done.stderr
    return [folder / "0", folder / "1"]


def addresses(path: Path, out: Path, start: int) -> Path:
    """Copy a run's record as it used to be: with addresses of parameters, without what was used."""
    config = json.loads((path / "config.json").read_text())
    del config["setting"]
    known: dict[str, int] = {}

    def address(module: Config) -> None:
        for name, entry in module.get("parameters", {}).items():
            first = entry["tensor"]
            entry["id"] = known.setdefault(first, start + 64 * len(known))
            entry["tensor"] = f"{module['path']}.{name}"
        for child in module.get("children", {}).values():
            address(child)

    address(config["task"]["model"])
    out.mkdir()
    rewrite(out / "config.json", config)
    for name in ("history.jsonl", "status.json"):
        (out / name).write_bytes((path / name).read_bytes())
    return out


def test_seeds_of_two_processes_are_averaged(seeds: list[Path]) -> None:
    result = one_group(*seeds)
    assert [run.seed for run in result.runs] == [0, 1]
    assert result.method == "feddyn+sam"
    assert '"id": 1' not in (seeds[0] / "config.json").read_text()


def test_old_records_with_addresses_are_averaged_too(seeds: list[Path], tmp_path: Path) -> None:
    old = [addresses(path, tmp_path / path.name, 140153518797232 + n) for n, path in enumerate(seeds)]
    assert len(one_group(*old).runs) == 2
    assert len(one_group(old[0], seeds[1]).runs) == 2
    assert len(one_group(seeds[0], old[1]).runs) == 2


def test_a_copy_of_the_weights_is_not_a_shared_weight(seeds: list[Path]) -> None:
    config = json.loads((seeds[0] / "config.json").read_text())
    other = copy.deepcopy(config)
    decoder = other["task"]["model"]["children"]["decoder"]
    decoder["parameters"]["weight"]["tensor"] = "model.decoder.weight"
    assert not agree(identity(config), identity(other))


INTERNALS = ("parameters.", "buffers", "children", "attributes", "task.description", ".class", "transient", "grad")


def test_labels_and_lists_of_differences_tell_no_internals(tmp_path: Path) -> None:
    small_run(tmp_path / "a", small_task(name="mine"), rounds=1, average=None)
    small_run(tmp_path / "b", small_task(name="mine", model=Tied()), rounds=1, average=None, lr=0.5)
    paths = [tmp_path / "a", tmp_path / "b", write_run(tmp_path / "d", "feddyn+sam")]
    results = collect(paths)
    assert len(results) == 3
    reported = json.dumps([[result.method for result in results], notes(results), aggregates(results)])
    assert not any(word in reported for word in INTERNALS)
    assert "Tied" in reported and "Sequential" in reported
    for result in results[:2]:
        shown = {name for name in result.differs if name.startswith("task.")}
        assert shown == {"task.clients", "task.model", "task.parameters"} & shown


def test_tasks_that_differ_only_inside_are_numbered(tmp_path: Path) -> None:
    small_run(tmp_path / "a", small_task(name="mine"), rounds=1, average=None)
    small_run(tmp_path / "b", small_task(name="mine", prepare=halved), rounds=1, average=None)
    results = collect([tmp_path / "a", tmp_path / "b"])
    assert [result.method for result in results] == ["feddyn+sam #1", "feddyn+sam #2"]
    assert all(result.differs == {} for result in results)


def test_tasks_in_memory_go_by_name_clients_and_network(tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        small_run(tmp_path / name, small_task(augment=lambda x, g: x), rounds=1, average=None, seed=seed)
    assert len(one_group(tmp_path / "a", tmp_path / "b").runs) == 2
    small_run(tmp_path / "c", small_task(augment=lambda x, g: x, model=Tied()), rounds=1, average=None, seed=2)
    old = edited(tmp_path / "a", without("setting"))
    results = collect([old, tmp_path / "b", tmp_path / "c"])
    assert [len(result.runs) for result in results] == [2, 1]
    sizes = [sum(p.numel() for p in model.parameters()) for model in (small_task().model, Tied())]
    assert [result.method for result in results] == [
        f"feddyn+sam model=Sequential, parameters={sizes[0]}",
        f"feddyn+sam model=Tied, parameters={sizes[1]}",
    ]
