"""The worked examples of CONTRIBUTING.md: each is taken out of the page, registered, and used."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import flatfed as ff
from core import bench
from engines.bench import CASES, CLIENTS, assert_same, bits, digits, on
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.method.vectors import unit
from flatfed.core.task.task import Task
from flatfed.data.catalogue import registry as data_catalogue
from flatfed.data.partition import Partitioner, partitions
from flatfed.engines.choice import EngineConfig, engines
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.flatness.measurements import Measurement
from flatfed.models import build, models
from flatfed.models import catalogue as model_catalogue
from flatfed.tracking.tracker import Tracker, trackers
from methods import naive
from methods import table as shared_table
from methods.bench import network_setup, repeated_sample_setup, train_case
from methods.test_battery import assert_agrees

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLES: tuple[dict[str, Any], ...] = (
    *(
        ff.Algorithm.registry,
        ff.ClientOptimiser.registry,
        ff.BaseOptimiser.registry,
        ff.Average.registry,
        Schedule.registry,
    ),
    *(EngineConfig.registry, Measurement.registry, Tracker.registry, Partitioner.registry),
    *(data_catalogue._sources, model_catalogue._builders, model_catalogue._heads),
)
"""Everything that an import may enter something into."""

KINDS = (
    *("method", "client optimiser", "base optimiser", "weight averaging", "schedule", "engine"),
    *("measurement", "tracker", "partition", "model", "data set"),
)
Add = Callable[[str], ModuleType]


def blocks(kind: str) -> list[str]:
    """Return the Python blocks of the section `## Add a <kind>`; the first is the file."""
    section = re.search(rf"^## Add an? {kind}\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, f"CONTRIBUTING.md has no section about adding a {kind}"
    return re.findall(r"```python\n(.*?)```", section.group(1), re.DOTALL)


@contextmanager
def examples_of(folder: Path) -> Iterator[Add]:
    """Import the files of sections; at the end nothing of them is left."""
    data_catalogue.datasets()  # what registers itself later than the examples must stay
    models()
    engines()
    trackers()
    before = [dict(table) for table in TABLES]
    modules: list[str] = []

    def enter(kind: str) -> ModuleType:
        name = f"contributed_{kind.replace(' ', '_')}"
        (folder / f"{name}.py").write_text(blocks(kind)[0], encoding="utf-8")
        modules.append(name)
        return importlib.import_module(name)

    sys.path.insert(0, str(folder))
    try:
        yield enter
    finally:
        sys.path.remove(str(folder))
        for table, entries in zip(TABLES, before, strict=True):
            table.clear()
            table.update(entries)
        for name in modules:
            sys.modules.pop(name, None)


@pytest.fixture
def add(tmp_path: Path) -> Iterator[Add]:
    """Import the file of a section, for the length of a test."""
    with examples_of(tmp_path) as enter:
        yield enter


def test_every_kind_has_its_section_and_its_row_in_the_overview() -> None:
    overview = PAGE.partition("## Add something")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[([a-z ]+)\]\(#([a-z-]+)\)", overview, re.MULTILINE)
    sections = re.findall(r"^## (Add an? [a-z ]+)$", PAGE, re.MULTILINE)
    assert [anchor for _, anchor in rows] == [section.lower().replace(" ", "-") for section in sections]
    assert tuple(kind for kind, _ in rows) == KINDS
    assert all(blocks(kind) for kind in KINDS)


def test_the_places_that_it_names_are_there() -> None:
    root = Path(__file__).parents[2]
    paths = re.findall(r"`((?:src|tests|docs|bench|core|algorithms|engines)/[\w./-]+)`", PAGE)
    examples = (
        "fedtilt",
        "gradient_norm_penalty",
        "lion",
        "ema",
        "futures",
        "slopes",
        "csv_table",
        "mlp_tanh",
        "stripes",
        "kmnist",
        "ID",
    )
    named = [path for path in paths if Path(path).stem not in examples]
    assert len(named) > 30
    missing = [path for path in named if not (root / path).exists() and not (root / "src/flatfed" / path).exists()]
    assert missing == []


def test_nothing_of_the_examples_stays(tmp_path: Path) -> None:
    with examples_of(tmp_path) as enter:
        entries = [dict(table) for table in TABLES]
        for kind in KINDS:
            enter(kind)
        added = [len(table) - len(known) for table, known in zip(TABLES, entries, strict=True)]
    assert added == [1] * len(TABLES)
    assert [dict(table) for table in TABLES] == entries
    assert not any(name.startswith("contributed_") for name in sys.modules)


def test_the_base_optimiser_takes_its_steps(add: Add) -> None:
    add("base optimiser")
    clients = [bench.pairs((6,))[0]]
    run = bench.train(
        bench.task(clients=clients),
        base_opt="lion(beta1=0.5)",
        cohorts=[[0]],
        local_epochs=3,
        weight_decay=0.1,
        lr=0.01,
    )
    w, m = bench.flat(bench.net()), 0.0
    for _ in range(3):
        g = bench.gradient(bench.net(), w, *clients[0])
        w = w - 0.01 * (0.1 * w + torch.sign(0.5 * m + 0.5 * g))
        m = 0.99 * m + 0.01 * g
    bench.close(run.vector, w)


# --- methods, client optimisers, weight averaging, schedules ----------------------------------------------------


@pytest.fixture
def tilt(add: Add) -> shared_table.Case:
    """The method of the page, with the row and the naive computation of the page."""
    add("method")
    _, computation, row = blocks("method")
    names: dict[str, Any] = {}
    exec(computation, names)
    known = type("naive", (), {**vars(naive), "fedtilt": staticmethod(names["fedtilt"])})
    made = eval(row, {"Row": shared_table.Row, "naive": known})
    return shared_table.Case(made, made.params[0], None)


@pytest.mark.parametrize("local", [{}, {"weighting": "uniform"}, {"clip": 0.15}, {"momentum": 0.7}], ids=str)
def test_the_method_agrees_with_its_naive_computation(tilt: shared_table.Case, local: dict[str, Any]) -> None:
    setup = network_setup(**local)
    assert_agrees(tilt, train_case(tilt, setup), tilt.naive(setup))


def test_the_method_agrees_where_clients_take_unequal_numbers_of_steps(tilt: shared_table.Case) -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=2, lr=0.05)
    assert_agrees(tilt, train_case(tilt, setup), tilt.naive(setup))


def test_the_method_costs_what_its_row_says(tilt: shared_table.Case) -> None:
    setup = network_setup()
    run = train_case(tilt, setup)
    for t, row in enumerate(run.history):
        clients, vector = len(row["clients"]), 8 * naive.DIMENSION
        assert 0 <= row["bytes_down"] - clients * tilt.down(t) * vector <= 64 * clients
        assert 0 <= row["bytes_up"] - clients * tilt.up * vector <= 64 * clients
        assert row["backprops"] == clients * tilt.backprops(setup.local_epochs)


def test_the_method_gives_the_same_bits_on_workers_and_without_its_radius_is_fedavg(add: Add) -> None:
    add("method")
    runs = [bench.train(bench.task(), ff.make("fedtilt"), workers=n, **bench.WHERE) for n in (0, 2)]
    assert bench.same_run(*runs, population=4)
    plain = bench.train(bench.task(), ff.make("fedavg"), **bench.WHERE)
    bench.close(bench.train(bench.task(), ff.make("fedtilt", rho=0.0), **bench.WHERE).vector, plain.vector)
    assert not torch.allclose(runs[0].vector, plain.vector)


def mixed(w: Tensor, k: int, rho: float, mix: float) -> Tensor:
    """The gradient of `gnp` by a route of its own."""
    data = bench.pairs()[k]
    plain = bench.gradient(bench.net(), w, *data)
    ascended = bench.gradient(bench.net(), w + rho * unit(plain), *data)
    return (1 - mix) * plain + mix * ascended


def test_the_client_optimiser_follows_its_formula_under_fedavg(add: Add) -> None:
    add("client optimiser")
    w = bench.flat(bench.net())
    for cohort in bench.COHORTS:
        new = {k: bench.descend(k, w, lambda v, _, k=k: mixed(v, k, 0.4, 0.7)) for k in cohort}
        w = bench.mean(new)
    chosen = {"client_opt.rho": 0.4, "client_opt.mix": 0.7}
    run = bench.train(bench.task(), ff.make("fedavg+gnp", **chosen), **bench.WHERE)
    bench.close(run.vector, w)


@pytest.mark.parametrize(("mix", "same_as"), [(0.0, ff.SGD()), (1.0, ff.SAM(rho=0.4))])
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "feddyn"])
def test_the_client_optimiser_has_both_ends(add: Add, method: str, mix: float, same_as: Any) -> None:
    made = add("client optimiser").GradientNormPenalty(rho=0.4, mix=mix)
    actual = bench.train(bench.task(), ff.make(method, client_opt=made), **bench.WHERE)
    expected = bench.train(bench.task(), ff.make(method, client_opt=same_as), **bench.WHERE)
    bench.close(actual.vector, expected.vector)
    assert actual.history[0]["backprops"] == 2 * len(bench.COHORTS[0]) * bench.STEPS


@pytest.mark.parametrize("decay", [0.0, 0.6])
def test_the_weight_averaging_changes_what_is_evaluated_as_its_formula_says(add: Add, decay: float) -> None:
    made = add("weight averaging").EMA(decay=decay)
    expected: Tensor | None = None
    for rounds in range(1, len(bench.COHORTS) + 1):
        where = {**bench.WHERE, "cohorts": bench.COHORTS[:rounds]}
        plain = bench.train(bench.task(), ff.make("fedavg"), **where)
        run = bench.train(bench.task(), ff.make("fedavg"), average=made, **where)
        expected = plain.vector if expected is None else decay * expected + (1 - decay) * plain.vector
        assert torch.equal(run.vector, plain.vector)
        bench.close(run.eval_vector, expected)
    assert torch.equal(run.eval_vector, run.vector) == (decay == 0)


def test_the_weight_averaging_has_its_spelling_and_comes_back_from_a_run_directory(add: Add, tmp_path: Path) -> None:
    add("weight averaging")
    run = ff.train(digits(), "fedavg+ema", rounds=2, sampling=2, lr=0.1, workers=0, out=tmp_path / "run")
    loaded = ff.load_run(tmp_path / "run", task=digits())
    assert torch.equal(loaded.eval_vector, run.eval_vector)
    assert not torch.equal(run.eval_vector, run.vector)


def test_the_schedule_has_its_values_its_text_and_its_bounds(add: Add) -> None:
    made = add("schedule").Triangle(0.1, 0.5, 4)
    assert [made.value(t) for t in range(9)] == pytest.approx([0.1, 0.3, 0.5, 0.3, 0.1, 0.3, 0.5, 0.3, 0.1])
    assert Schedule.parse(str(made)) == made
    method = ff.make("fedsam", rho="triangle(0.1, 0.5, 4)")
    assert [method.at(t).rho for t in range(3)] == pytest.approx([0.1, 0.3, 0.5])
    with pytest.raises(ff.ConfigError, match="at least 0"):
        ff.make("fedsam", rho="triangle(-0.1, 0.5, 4)")


def test_a_run_follows_the_schedule(add: Add) -> None:
    add("schedule")
    run = bench.train(bench.task(), **{**bench.WHERE, "lr": "triangle(0.1, 0.5, 4)"})
    assert [row["lr"] for row in run.history] == pytest.approx([0.1, 0.3, 0.5, 0.3])


# --- engines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scaffold+asam+swa, BatchNorm", "naivefedgloss+sam, two exchanges"])
def test_the_engine_gives_the_bits_of_the_in_process_one(add: Add, name: str) -> None:
    config = add("engine").Futures(workers=2)
    assert_same(CASES[name].play(on(config)), CASES[name].play(on(ff.InProcess())))


@pytest.mark.parametrize("vectorised", [False, True])
def test_the_engine_is_used_as_the_page_has_it(add: Add, vectorised: bool) -> None:
    names = {"ff": ff, "task": digits(), "Futures": add("engine").Futures}
    line = blocks("engine")[1].replace("engine=", f"vectorised={vectorised}, engine=")
    exec(line, names)
    exec(line.replace("run =", "expected =").replace("engine=Futures(workers=2)", "workers=0"), names)
    assert_same(bits(names["run"], CLIENTS), bits(names["expected"], CLIENTS))


def test_the_engine_is_found_by_its_id_and_refuses_what_it_cannot_do(add: Add) -> None:
    add("engine")
    run = ff.train(digits(), "fedavg", rounds=1, sampling=2, lr=0.05, engine="futures", workers=1)
    assert run.status == "finished"
    with pytest.raises(ff.ConfigError, match="no bounds on time"):
        ff.train(digits(), "fedavg", rounds=1, sampling=2, lr=0.05, engine="futures", client_timeout=9.0)


# --- measurements -------------------------------------------------------------------------------------------------


def test_the_measurement_measures_a_run(add: Add) -> None:
    add("measurement")
    problem = bench.task()
    run = bench.train(problem, watch="gradient_norm:1", **bench.WHERE)
    inputs, targets = (torch.cat(part) for part in zip(*bench.pairs(), strict=True))
    expected = float(bench.gradient(bench.net(), run.vector, inputs, targets).norm())
    with ff.laboratory(run) as lab:
        result = lab.measure("gradient_norm")["gradient_norm"]
    assert result.numbers["gradient_norm"] == pytest.approx(expected, rel=1e-10)
    assert run.history[-1]["watch"]["gradient_norm"] == pytest.approx(expected, rel=1e-10)


# --- trackers -----------------------------------------------------------------------------------------------------


def test_the_tracker_gets_every_round_once_and_a_resumed_run_goes_on_there(add: Add, tmp_path: Path) -> None:
    tracker = add("tracker").CsvTable(folder=str(tmp_path / "tables"))
    plain = ff.train(digits(), "fedavg", rounds=3, sampling=2, lr=0.1, workers=0)
    ff.train(digits(), "fedavg", rounds=2, sampling=2, lr=0.1, workers=0, out=tmp_path / "run", track=tracker)
    run = ff.resume(tmp_path / "run", 3, task=digits())
    assert torch.equal(run.vector, plain.vector)
    lines = (tmp_path / "tables" / "run.csv").read_text().splitlines()
    losses = [line.split(",") for line in lines if ",train_loss," in line]
    assert [(int(step), float(value)) for step, _, value in losses] == [
        (row["round"] + 1, row["train_loss"]) for row in run.history
    ]


# --- partitions, models, data sets --------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 7, 40])
def test_the_partition_divides_every_sample_once(add: Add, clients: int) -> None:
    rule = add("partition").InOrder()
    parts = rule.split(np.arange(40) % 3, clients, seed=0)
    assert len(parts) == clients
    assert np.concatenate(parts).tolist() == list(range(40))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert partitions()["in-order"].startswith("Stretches of the data set")


def final_accuracy(task: Task) -> float:
    run = ff.train(task, ff.make("fedavg"), rounds=6, sampling=4, lr=0.1, batch_size=16, workers=0)
    assert run.summary["status"] == "finished"
    return float(run.history[-1]["test_accuracy"])


def test_the_partition_is_found_by_name_and_trains(add: Add) -> None:
    add("partition")
    assert final_accuracy(TaskRecipe("digits", clients=6, partition={"id": "in-order"}, model="mlp").build()) > 0.5


def test_the_model_builds_with_its_options_and_trains(add: Add) -> None:
    add("model")
    narrow = build("mlp-tanh", classes=10, in_channels=1, image_size=8, options={"width": 5})
    assert sum(p.numel() for p in narrow.parameters()) == 64 * 5 + 5 + 5 * 10 + 10
    assert models()["mlp-tanh"].startswith("Perceptron")
    recipe = TaskRecipe("digits", clients=6, partition={"id": "iid"}, model="mlp-tanh")
    assert final_accuracy(recipe.build()) > 0.5


def test_the_data_set_loads_and_trains(add: Add) -> None:
    made = add("data set")
    pool = data_catalogue.load("stripes", samples=100)
    again = data_catalogue.load("stripes", samples=100)
    assert (len(pool.train), len(pool.test), pool.classes) == (100, 26, 2)
    every = torch.arange(100)
    assert torch.equal(pool.train.batch(every)[0], again.train.batch(every)[0])
    assert tuple(pool.class_names) == made.CLASS_NAMES
    assert data_catalogue.datasets()["stripes"].startswith("Stripes")
    with pytest.raises(ff.ConfigError, match="noise"):
        data_catalogue.load("stripes", noise=-1.0)
    assert final_accuracy(TaskRecipe("stripes", clients=6, partition={"id": "iid"}).build()) > 0.9
