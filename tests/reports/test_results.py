"""Results collected from run directories: who belongs together, and what counts."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatfed.core.errors import ConfigError
from flatfed.reports.results.result import ACCURACIES, OneRun, Result
from flatfed.reports.results.results import collect
from records import rewrite
from reports.disk import BACKPROPS, BYTES, SECONDS, write_run

accuracies = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6)


def names(*paths: Path) -> list[str]:
    return [result.method for result in collect(paths)]


def test_seeds_of_one_method_are_one_result(tmp_path: Path) -> None:
    paths = [
        write_run(tmp_path / f"{method}{seed}", method, seed) for seed in (0, 1) for method in ("fedsam", "fedavg")
    ]
    actual = collect(paths)
    assert [(r.method, [run.seed for run in r.runs]) for r in actual] == [("fedsam", [0, 1]), ("fedavg", [0, 1])]


@pytest.mark.parametrize(
    "other",
    [{"parameters": {"server_lr": 0.5}}, {"lr": 0.2}, {"local_epochs": 2}, {"rounds": 9}],
    ids=["a parameter", "the learning rate", "local epochs", "rounds"],
)
def test_one_method_with_different_settings_is_distinguished(other: dict, tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "a"), write_run(tmp_path / "b", seed=1), write_run(tmp_path / "c", seed=1, **other)]
    actual = collect(paths)
    assert [[run.path.name for run in result.runs] for result in actual] == [["a", "b"], ["c"]]
    assert len({result.method for result in actual}) == 2
    assert all(result.method.startswith("fedavg") for result in actual)


def test_the_labels_say_which_setting_differs(tmp_path: Path) -> None:
    labels = names(write_run(tmp_path / "a"), write_run(tmp_path / "b", parameters={"server_lr": 0.5}))
    assert "server_lr" in labels[1] and "0.5" in labels[1]
    assert labels == ["fedavg server_lr=1.0", "fedavg server_lr=0.5"]


def test_every_value_of_a_sweep_is_named(tmp_path: Path) -> None:
    given = [(rho, lr) for rho in (0.01, 0.05) for lr in (0.1, 0.2)]
    paths = [write_run(tmp_path / str(n), "fedsam", parameters={"rho": r}, lr=lr) for n, (r, lr) in enumerate(given)]
    assert names(*paths) == [f"fedsam rho={rho}, lr={lr}" for rho, lr in given]
    assert names(*paths[::2]) == ["fedsam rho=0.01", "fedsam rho=0.05"]


def on(path: Path, dataset: str) -> Path:
    """Let a run be one on another data set."""
    config = json.loads((path / "config.json").read_text())
    config["task"]["dataset"] = dataset
    rewrite(path / "config.json", config)
    return path


def test_the_data_set_is_reported_where_runs_differ_in_it(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "a"), on(write_run(tmp_path / "b"), "mnist"), write_run(tmp_path / "c", "fedsam")]
    assert names(*paths) == ["fedavg on digits", "fedavg on mnist", "fedsam on digits"]
    assert names(paths[0], paths[2]) == ["fedavg", "fedsam"]
    assert names(on(paths[0], "mnist"), paths[2]) == ["fedavg on mnist", "fedsam on digits"]


def test_many_options_give_a_number_and_are_noted(tmp_path: Path) -> None:
    many = {"lr": 0.25, "local_epochs": 7, "weight_decay": 0.5, "rounds": 9}
    paths = [write_run(tmp_path / "a"), write_run(tmp_path / "b", **many), write_run(tmp_path / "c", seed=1, **many)]
    first, second = collect(paths)
    assert (first.method, second.method) == ("fedavg #1", "fedavg #2")
    assert [run.path.name for run in second.runs] == ["b", "c"]
    assert not first.label_says_all and not second.label_says_all
    assert second.differs == {f"settings.{name}": value for name, value in many.items()}
    assert first.differs["settings.lr"] == 0.1


def test_settings_in_which_methods_differ_are_noted(tmp_path: Path) -> None:
    first, second = collect([write_run(tmp_path / "a"), write_run(tmp_path / "b", "fedsam", lr=0.5)])
    assert (first.method, second.method) == ("fedavg", "fedsam")
    assert (first.differs, second.differs) == ({"settings.lr": 0.1}, {"settings.lr": 0.5})
    assert not first.label_says_all
    alike = collect([write_run(tmp_path / "c"), write_run(tmp_path / "d", "fedsam")])
    assert all(result.label_says_all and result.differs == {} for result in alike)


def test_options_of_one_name_in_two_places_do_not_mix_runs_up(tmp_path: Path) -> None:
    given = [{}, {"rho_server": 0.5}, {"client_opt.rho": 0.5}]
    paths = [write_run(tmp_path / str(n), "fedgloss+sam", parameters=p) for n, p in enumerate(given)]
    config = json.loads((paths[1] / "config.json").read_text())
    config["algorithm"]["rho"] = 0.5  # another option whose name ends alike
    rewrite(paths[1] / "config.json", config)
    actual = collect(paths)
    assert len({result.method for result in actual}) == 3


def test_workers_and_versions_do_not_divide_a_method(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", seed=1)
    config = json.loads((second / "config.json").read_text())
    rewrite(second / "config.json", config | {"workers": 7})
    assert len(collect([first, second])) == 1


@settings(max_examples=20, deadline=None)
@given(runs=st.lists(accuracies, min_size=1, max_size=4), last=st.integers(0, 7))
def test_figures_are_those_of_the_history(
    runs: list[list[float]], last: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    rounds = max(map(len, runs))
    runs = [run + [run[-1]] * (rounds - len(run)) for run in runs]
    [result] = collect(
        [write_run(folder / str(i), seed=i, accuracies=tuple(r), evaluate_last=last) for i, r in enumerate(runs)]
    )
    tail = max(last, 1)
    expected = ([run[-1] for run in runs], [statistics.fmean(run[-tail:]) for run in runs], [max(run) for run in runs])
    for name, values in zip(ACCURACIES, expected, strict=True):
        spread = result.spread(name)
        assert spread is not None
        assert spread[0] == pytest.approx(statistics.fmean(values))
        assert spread[1] == (pytest.approx(statistics.stdev(values)) if len(runs) > 1 else None)


def test_costs_are_means_per_run(tmp_path: Path) -> None:
    [result] = collect([write_run(tmp_path / "a"), write_run(tmp_path / "b", seed=1)])
    costs = [result.mean(name) for name in ("bytes_down", "bytes_up", "backprops", "seconds")]
    assert costs == [3 * BYTES, 6 * BYTES, 3 * BACKPROPS, pytest.approx(3 * SECONDS)]


def test_only_evaluated_rounds_count(tmp_path: Path) -> None:
    [result] = collect([write_run(tmp_path / "a", accuracies=(0.9, None, 0.4, None), evaluate_last=4)])
    assert [result.spread(name)[0] for name in ACCURACIES] == pytest.approx([0.4, 0.65, 0.9])


def test_a_run_that_was_never_evaluated_has_no_figure(tmp_path: Path) -> None:
    [result] = collect([write_run(tmp_path / "a", accuracies=(None, None))])
    assert [result.spread(name) for name in ACCURACIES] == [None, None, None]


@pytest.mark.parametrize("status", ["diverged", "failed", "stopped"])
def test_runs_that_went_wrong_do_not_enter_the_mean(status: str, tmp_path: Path) -> None:
    good = write_run(tmp_path / "a", accuracies=(0.5, 0.8))
    bad = write_run(tmp_path / "b", seed=1, accuracies=(0.1,), status=status, rounds=2)
    [result] = collect([good, bad])
    assert result.spread("accuracy_final") == (0.8, None)
    assert result.status in (
        f"1 of 2 {status} (round 1), 1 of 2 finished",
        f"1 of 2 finished, 1 of 2 {status} (round 1)",
    )


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        (["finished"], "finished"),
        (["finished", "finished"], "finished"),
        (["diverged"], "diverged (round 3)"),
        (["running"], "interrupted (round 3)"),
        (["diverged", "diverged"], "2 of 2 diverged (round 3, 3)"),
        (["finished", "interrupted"], "1 of 2 finished, 1 of 2 interrupted (round 3)"),
    ],
)
def test_the_status_in_a_few_words(statuses: list[str], text: str, tmp_path: Path) -> None:
    [result] = collect([write_run(tmp_path / str(i), seed=i, status=s) for i, s in enumerate(statuses)])
    assert result.status == text


def test_nothing_collected_is_nothing(tmp_path: Path) -> None:
    assert collect([]) == []
    with pytest.raises(ConfigError, match="not a run directory"):
        collect([tmp_path])


def test_a_result_needs_no_disk() -> None:
    run = OneRun(Path("x"), {"settings": {"seed": 4}}, {"status": "finished", "accuracy_final": 0.25}, [])
    assert run.seed == 4
    assert Result("fedavg", [run]).spread("accuracy_final") == (0.25, None)
