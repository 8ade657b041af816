"""Landscapes of clients' models: one client in several runs, three clients, and a client beside the global model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.experiments.measuring.views import View
from flatness.federations import (
    CLIENTS,
    ROUNDS,
    checkpoint,
    client_data,
    cohort,
    descend,
    everyone,
    loss,
    task,
    trained,
)
from flatness.landscapes import Counted, look, problem, same

OWN, EVERYONES = "own examples", "everyone's examples"


def pair(root: Path, **changes: Any) -> list[Path]:
    """Train two methods that draw the same clients."""
    for method in ("fedavg", "fedsam"):
        trained(method, root / method, **changes)
    return [root / "fedavg", root / "fedsam"]


def before(path: Path) -> torch.Tensor:
    """Return the global model before the last round."""
    with ff.laboratory(checkpoint(path, ROUNDS - 1)) as lab:
        return lab.surface.w


# --- the same client in several runs ------------------------------------------------------------------------


def test_the_same_client_in_two_runs_is_what_it_is_in_each(tmp_path: Path, counted: Counted) -> None:
    paths = pair(tmp_path)
    alone = [look([path], "client", points=3).grids for path in paths]
    evaluated, actual = counted.of(lambda: look(paths, "client", points=3))
    assert evaluated == 0, "the points are those of each run by itself"
    assert [grid.label for grid in actual.grids] == ["fedavg", "fedsam"] * 2
    assert [grid.panel for grid in actual.grids] == [OWN, OWN, EVERYONES, EVERYONES]
    client = min(cohort(ff.load_run(paths[0]), ROUNDS - 1))
    assert {grid.sheet for grid in actual.grids} == {f"client {client}"}
    for number in (0, 1):
        for part in (0, 1):
            together, single = actual.grids[2 * part + number], alone[number][part]
            assert np.array_equal(together.losses, single.losses)
            assert (together.name, together.note) == (single.label, single.note)
    w = descend(client, before(paths[0]))
    assert actual.grids[0].losses[1, 1] == pytest.approx(loss(w, *client_data()[client]), rel=1e-9)
    assert actual.grids[2].losses[1, 1] == pytest.approx(loss(w, *everyone()), rel=1e-9)


def test_all_clients_of_the_round(tmp_path: Path) -> None:
    paths = pair(tmp_path)
    took = sorted(cohort(ff.load_run(paths[0]), ROUNDS - 1))
    for count in (1, 2):
        grids = look(paths[:count], "client", points=3, client="all").grids
        assert [grid.sheet for grid in grids] == [f"client {k}" for k in took for _ in range(2 * count)]
    some = look(paths, "client", points=3, client=took[1]).grids
    assert np.array_equal(some[0].losses, grids[4].losses)


def drawn(seed: int, count: int) -> set[int]:
    return set(ff.Uniform(count).draw(CLIENTS, seed, ROUNDS - 1, 0))


def test_a_client_that_took_part_in_one_run_only(tmp_path: Path) -> None:
    seed = next(seed for seed in range(1, 99) if 0 < len(drawn(0, 3) & drawn(seed, 3)) < 3)
    first, second = drawn(0, 3), drawn(seed, 3)
    trained("fedavg", tmp_path / "fedavg", seed=0)
    trained("fedsam", tmp_path / "fedsam", seed=seed)
    paths = [tmp_path / "fedavg", tmp_path / "fedsam"]
    assert look(paths, "client", points=3).grids[0].sheet == f"client {min(first & second)}", "the first that both have"
    for of, others in (("fedavg", second - first), ("fedsam", first - second)):
        missing = rf"client {min(others)} did not take part in the last round of {of}; those that did are \d, \d, \d"
        with pytest.raises(ConfigError, match=missing):
            look(paths, "client", client=min(others))


def test_runs_without_a_common_client(tmp_path: Path) -> None:
    seed = next(seed for seed in range(1, 99) if not drawn(0, 2) & drawn(seed, 2))
    for method, number in (("fedavg", 0), ("fedsam", seed)):
        trained(method, tmp_path / method, sampling=2, seed=number)
    took = [", ".join(map(str, sorted(drawn(number, 2)))) for number in (0, seed)]
    with pytest.raises(ConfigError, match=rf"no client .* every run \(fedavg: {took[0]}; fedsam: {took[1]}\)"):
        look([tmp_path / "fedavg", tmp_path / "fedsam"], "client")


@pytest.mark.parametrize("pooled", [True, False])
def test_a_client_with_other_examples_is_another_client(pooled: bool, tmp_path: Path) -> None:
    x, y = everyone()
    for method, parts in {"fedavg": [[0, 1], [2, 3], [4, 5]], "fedsam": [[4, 5], [0, 1], [2, 3]]}.items():
        clients: Any = (
            ff.Partition(x, y, parts) if pooled else [(x[part], (y[part] + len(method)) % 3) for part in parts]
        )
        trained(method, tmp_path / method, task(clients=clients))
    with pytest.raises(ConfigError, match="client 0 of fedsam holds other examples than client 0 of fedavg"):
        look([tmp_path / "fedavg", tmp_path / "fedsam"], "client")


# --- a plane through three clients --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "norms", "own norms"])
def test_the_models_of_three_clients_have_their_losses_in_the_plane(kind: str, tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", problem(kind))
    took = sorted(cohort(ff.load_run(tmp_path / "run"), ROUNDS - 1))
    train, test = look([tmp_path / "run"], "clients", points=3).grids
    assert list(train.marks) == list(test.marks) == [*(f"client {k}" for k in took), "global model"]
    assert train.marks[f"client {took[0]}"] == (0.0, 0.0)
    with ff.laboratory(tmp_path / "run") as lab:
        assert train.at_marks["global model"] == pytest.approx(lab.surface.loss(), rel=1e-9)
        assert test.at_marks["global model"] == pytest.approx(lab.surface.over("test").loss(), rel=1e-9)
    if kind == "plain":
        for k in took:
            local = descend(k, before(tmp_path / "run"))
            assert train.at_marks[f"client {k}"] == pytest.approx(loss(local, *everyone()), rel=1e-9)


def test_a_mean_of_three_lies_in_their_plane_and_another_step_does_not(tmp_path: Path) -> None:
    """And the note says how far off it is."""
    trained("fedavg", tmp_path / "mean")
    trained("fedavgm", tmp_path / "momentum")
    mean, momentum = (look([tmp_path / name], "clients", points=3).grids[0] for name in ("mean", "momentum"))
    assert "global model: in the plane" in mean.note
    assert "off the plane, marked at its nearest point" in momentum.note
    took = sorted(cohort(ff.load_run(tmp_path / "mean"), ROUNDS - 1))
    sizes = np.array([len(client_data()[k][1]) for k in took], dtype=float)
    places = np.array([mean.marks[f"client {k}"] for k in took])
    np.testing.assert_allclose(mean.marks["global model"], sizes / sizes.sum() @ places, atol=1e-9)


def test_clients_are_chosen(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", sampling=5)
    took = sorted(cohort(ff.load_run(tmp_path / "run"), ROUNDS - 1))
    chosen = (took[4], took[0], took[2])
    grid = look([tmp_path / "run"], "clients", points=3, clients=chosen).grids[0]
    assert list(grid.marks)[:3] == [f"client {k}" for k in chosen]
    [absent] = set(range(CLIENTS)) - set(took)
    with pytest.raises(ConfigError, match=f"client {absent} did not take part in the last round; those that did are"):
        look([tmp_path / "run"], "clients", clients=(took[0], took[1], absent))
    with pytest.raises(ConfigError, match="no client 99"):
        look([tmp_path / "run"], "clients", clients=(took[0], took[1], 99))


@pytest.mark.parametrize("clients", [(1, 2), (1, 1, 2), (0, 1, 2, 3)])
def test_a_plane_needs_three_clients(clients: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="three clients"):
        View("clients", clients=clients)


def test_a_round_of_two_clients_has_no_plane(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", sampling=2)
    with pytest.raises(ConfigError, match="through three clients' models, and the last round had 2"):
        look([tmp_path / "run"], "clients")


# --- a client beside the global model -----------------------------------------------------------------------


def test_both_losses_over_the_plane_of_the_global_and_a_clients_model(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run")
    run, start = ff.load_run(tmp_path / "run"), before(tmp_path / "run")
    client = sorted(cohort(run, ROUNDS - 1))[1]
    own, whole = look([tmp_path / "run"], "client-plane", points=3, client=client).grids
    models = {"global model": run.vector, f"client {client}": descend(client, start), "model before the round": start}
    for grid, data in ((own, client_data()[client]), (whole, everyone())):
        assert grid.at_marks == {name: pytest.approx(loss(w, *data), rel=1e-9) for name, w in models.items()}
        assert grid.marks["global model"] == (0.0, 0.0)
        distance = float((models[f"client {client}"] - run.vector).norm())
        assert grid.marks[f"client {client}"] == pytest.approx((distance, 0.0), abs=1e-9)
        u = (models[f"client {client}"] - run.vector) / distance
        v = start - run.vector - (start - run.vector) @ u * u
        there = run.vector + grid.xs[2] * u + grid.ys[1] * v / v.norm()
        assert grid.losses[1, 2] == pytest.approx(loss(there, *data), rel=1e-8)
    assert np.array_equal(own.xs, whole.xs) and np.array_equal(own.ys, whole.ys)
    assert "the plane through the global model after the last round" in own.note
    assert own.note.startswith(f"client {client}, all {len(client_data()[client][1])} examples")


@pytest.mark.parametrize("kind", ["norms", "own norms"])
def test_a_client_is_shown_with_its_own_parts_and_statistics(kind: str, tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", problem(kind))
    own, whole = look([tmp_path / "run"], "client-plane", points=3).grids
    around, _ = look([tmp_path / "run"], "client", points=3).grids
    name = next(name for name in own.marks if name.startswith("client"))
    assert own.at_marks[name] == pytest.approx(around.losses[1, 1], rel=1e-9)
    with ff.laboratory(tmp_path / "run") as lab:
        assert whole.at_marks["global model"] == pytest.approx(lab.surface.loss(), rel=1e-9)


def test_the_global_model_is_the_last_one_and_not_an_average(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", average=ff.WIMA(3))
    run = ff.load_run(tmp_path / "run")
    assert not torch.equal(run.vector, run.eval_vector)
    for kind in ("clients", "client-plane"):
        last = look([tmp_path / "run"], kind, points=3).grids[-1]
        data = everyone() if kind == "client-plane" else client_data()[3]
        assert last.at_marks["global model"] == pytest.approx(loss(run.vector, *data), rel=1e-9)


def test_one_client_alone_is_the_global_model(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", sampling=1)
    with pytest.raises(ConfigError, match="two are the same"):
        look([tmp_path / "run"], "client-plane")


@pytest.mark.parametrize("kind", ["clients", "client-plane"])
def test_planes_show_the_last_round(kind: Any) -> None:
    with pytest.raises(ConfigError, match="shows the last round"):
        View(kind, round="next")
    with pytest.raises(ConfigError, match="only a landscape of kind client can show all"):
        View(kind, client="all")


@pytest.mark.parametrize("kind", ["clients", "client-plane"])
def test_the_same_bits_with_workers(kind: str, tmp_path: Path) -> None:
    for name in ("alone", "together"):
        trained("fedavg", tmp_path / name, problem("norms"))
    alone = look([tmp_path / "alone"], kind, points=3, workers=0)
    assert same(alone, look([tmp_path / "together"], kind, points=3, workers=2))
