"""What a script has of what the command line has: data sets, partitions, tasks and comparisons; the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.core.round.federation import TIMES
from flatfed.data.partition import Partitioner
from flatfed.runs.directory import RunDirectory

SMALL: dict[str, Any] = {
    "rounds": 2,
    "clients": 6,
    "per_round": 2,
    "alpha": 0.3,
    "model": "logreg",
    "evaluate_every": 1,
}
AS_TYPED = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def history(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in TIMES} for row in RunDirectory.open(run).rows]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ff.Compared]:
    folder = tmp_path_factory.mktemp("both")
    flatfed(
        *("compare", "digits", "fedavg", "fedsam", "--seeds", "0,1", "--workers", "0", "--out", folder / "typed"),
        *("--set", "rho=0.1", "--flatness", "--watch-samples", "50", *AS_TYPED),
    )
    compared = ff.compare(
        "digits",
        ["fedavg", "fedsam"],
        folder / "called",
        seeds=[0, 1],
        workers=0,
        flatness=True,
        watch_samples=50,
        set={"rho": 0.1},
        **SMALL,
    )
    return folder / "typed", compared


RUNS = [f"{method}/seed-{seed}" for method in ("fedavg", "fedsam") for seed in (0, 1)]


def test_a_comparison_has_the_bits_of_the_command_line(both: tuple[Path, ff.Compared]) -> None:
    typed, compared = both
    for run in RUNS:
        assert history(typed / run) == history(compared.path / run)
        first, second = (ff.load_run(folder / run) for folder in (typed, compared.path))
        assert torch.equal(first.vector, second.vector)
    recorded = [json.loads((folder / "comparison.json").read_text()) for folder in (typed, compared.path)]
    assert [record["about"]["flatness"] for record in recorded] == [{"samples": 50}] * 2
    for name in ("task", "methods", "seeds", "settings", "sampler"):
        assert recorded[0][name] == recorded[1][name]


def test_its_table_rows_and_files(both: tuple[Path, ff.Compared], tmp_path: Path) -> None:
    _, compared = both
    assert [(row["method"], row["seed"]) for row in compared.rows] == [
        (method, seed) for method in ("fedavg", "fedsam") for seed in (0, 1)
    ]
    assert [row["method"] for row in compared.methods] == ["fedavg", "fedsam"] and not compared.failed
    assert "fedsam" in compared.table() and "λmax" in str(compared)
    assert compared.table().count("mean ± sample standard deviation") == 1
    assert "results.csv" in {file.name for file in compared.save(tmp_path / "report")}
    assert compared.run("fedsam", 1).history == ff.load_run(compared.path / "fedsam" / "seed-1").history
    with pytest.raises(ConfigError, match="'fedprox' was not compared"):
        compared.run("fedprox")


def test_called_again_it_goes_on(both: tuple[Path, ff.Compared]) -> None:
    _, compared = both
    before = {run: (compared.path / run / "history.jsonl").read_bytes() for run in RUNS}
    played = []
    again = ff.compare(
        "digits",
        ["fedavg", "fedsam", "fedprox"],
        compared.path,
        seeds=[0, 1],
        workers=0,
        set={"rho": 0.1},
        on_row=lambda run, row: played.append((run.parent.name, row["round"])),
        **SMALL,
    )
    assert played == [("fedprox", 0), ("fedprox", 1)] * 2
    assert {run: (compared.path / run / "history.jsonl").read_bytes() for run in RUNS} == before
    assert len(again.rows) == 6
    with pytest.raises(ConfigError, match="holds another comparison"):
        ff.compare("digits", ["fedavg"], compared.path, workers=0, **(SMALL | {"alpha": 0.5}))


def test_a_task_is_that_of_a_run(both: tuple[Path, ff.Compared]) -> None:
    typed, _ = both
    task = ff.task("digits", seed=1, clients=6, alpha=0.3, model="logreg")
    run = ff.train(task, "fedavg", rounds=2, sampling=2, lr=0.01, seed=1, workers=0)
    settings = RunDirectory.open(typed / RUNS[1]).config["settings"]
    again = ff.train(task, "fedavg", sampling=2, workers=0, **{k: v for k, v in settings.items() if v is not None})
    assert torch.equal(again.vector, ff.load_run(typed / RUNS[1]).vector)
    assert run.history[0]["clients"] == again.history[0]["clients"]


GROUPS = {"user": np.arange(60) % 7, "coarse": np.arange(60) % 12 // 4}
PARAMETERS: dict[str, dict[str, Any]] = {"natural": {}, "pathological": {"classes_per_client": 2}}


@pytest.mark.parametrize("id", sorted(set(Partitioner.registry) - {"file"}))
def test_every_partition_by_id(id: str) -> None:
    labels = np.arange(60) % 12
    clients = None if id == "natural" else 6
    parameters = PARAMETERS.get(id, {})
    parts = ff.partition(torch.from_numpy(labels), id, clients=clients, seed=3, groups=GROUPS, **parameters)
    expected = Partitioner.registry.make(id, **parameters).divide(labels, GROUPS, clients, 3)
    assert len(parts) == (7 if id == "natural" else 6)
    assert all(map(np.array_equal, parts, expected))
    taken = np.concatenate(parts)
    assert len(set(taken.tolist())) == len(taken)


def test_a_partition_from_a_file_and_its_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "parts.json"
    file.write_text("[[0, 2], [1]]")
    assert [part.tolist() for part in ff.partition([0, 1, 0], "file", path=str(file))] == [[0, 2], [1]]
    with pytest.raises(ConfigError, match="unknown partition 'dirichle'; did you mean 'dirichlet'"):
        ff.partition([0, 1], "dirichle")
    with pytest.raises(ConfigError, match="alpah"):
        ff.partition([0, 1], "dirichlet", alpah=1.0)


def test_a_data_set_and_its_division_are_those_of_a_task() -> None:
    data = ff.dataset("digits")
    (x, y), (x_test, y_test) = data.train, data.test
    assert (len(x), len(x_test)) == (len(y), len(y_test)) and data.classes == 10 and x.dtype == torch.uint8
    task = data.task(seed=2, clients=5, alpha=0.1, model="logreg")
    parts = data.partition("dirichlet", clients=5, seed=2, alpha=0.1)
    assert [part.tolist() for part in parts] == [part.tolist() for part in task.clients.parts]  # type: ignore[attr-defined]
    same = ff.partition(y, "dirichlet", clients=5, seed=2, alpha=0.1)
    assert all(map(np.array_equal, parts, same))
    assert data.prepare is not None and data.prepare(x[:2]).dtype == torch.float32
    with pytest.raises(ConfigError, match="unknown data set 'digit'"):
        ff.dataset("digit")


def test_a_table_from_a_script(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    lines = [f"{n % 17},{'ab'[n % 2]},{n % 17 + 3 * (n % 2) + n % 5 / 10},{n % 3}" for n in range(60)]
    file.write_text("\n".join(["x,kind,y,site", *lines]))
    data = ff.dataset("table", path=str(file), target="y", client="site")
    assert data.preprocessing is not None and data.preprocessing.names == ["x", "kind=a", "kind=b"]
    assert len(data.partition()) == 3
    run = ff.train(data.task(set={"model.hidden": 8}), "fedavg", rounds=30, sampling=3, lr=0.1, workers=0)
    assert run.history[-1]["test_r2"] > 0.9
    assert run.preprocessing == data.preprocessing
    values = run.preprocessing.outputs(run.model()(run.preprocessing.inputs([{"x": 5, "kind": "b"}])))  # type: ignore[union-attr]
    assert float(values[0]) == pytest.approx(8.2, abs=1.5)


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="unknown option of a task 'rounds'"):
        ff.task("digits", rounds=3)
    with pytest.raises(ConfigError, match="'rho' is no option of partition, model or data"):
        ff.task("digits", set={"rho": 0.1})
    with pytest.raises(ConfigError, match=r"data\.path is given twice"):
        ff.task("table", data={"path": "a"}, set={"data.path": "b"})
    with pytest.raises(ConfigError, match="methods must be a list of spellings"):
        ff.compare("digits", "fedavg", "nowhere")
    with pytest.raises(ConfigError, match="seeds must be different"):
        ff.compare("digits", ["fedavg"], "nowhere", seeds=[0, 0])
    with pytest.raises(ConfigError, match="not a Linear"):
        ff.compare(torch.nn.Linear(1, 1), ["fedavg"], "nowhere")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown option 'round'"):
        ff.compare("digits", ["fedavg"], "nowhere", round=3)


def test_a_task_by_name_holds_out_examples_as_the_command_line_does() -> None:
    drawn = {
        split: ff.task("digits", model="logreg", clients=6, validation=0.2, validation_split=split)
        for split in ("client", "global")
    }
    sizes = {split: [len(task.clients[k]) for k in range(6)] for split, task in drawn.items()}
    assert all("validation" in task.tests for task in drawn.values())
    assert sizes["client"] != sizes["global"]


@pytest.mark.parametrize("wrong", [["model.hidden=64"], "model.hidden=64", 3])
def test_options_by_name_are_a_mapping(wrong: Any, tmp_path: Path) -> None:
    for name in ("set", "data"):
        with pytest.raises(ConfigError, match=f"{name} must be a mapping of names to values"):
            ff.task("digits", **{name: wrong})
        with pytest.raises(ConfigError, match=f"{name} must be a mapping of names to values"):
            ff.compare("digits", ["fedavg"], tmp_path / "c", **{name: wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_taken_as_its_text(tmp_path: Path) -> None:
    rows, parts = tmp_path / "rows.csv", tmp_path / "parts.json"
    rows.write_text("a,b,y\n" + "".join(f"{i % 7},{i * 2 % 5},{i % 2}\n" for i in range(40)))
    data = ff.dataset("table", path=rows, target="y")
    assert data.options["path"] == str(rows)
    expected = ff.dataset("table", path=str(rows), target="y")
    assert torch.equal(data.train[0], expected.train[0])
    assert data.task(clients=2).population == 2
    assert ff.task("table", clients=2, set={"data.path": rows, "data.target": "y"}).population == 2
    parts.write_text(json.dumps([[0, 2], [1]]))
    assert [part.tolist() for part in ff.partition([0, 1, 0], "file", path=parts)] == [[0, 2], [1]]
