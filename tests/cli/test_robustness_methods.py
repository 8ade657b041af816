"""`flatfed robustness` of several runs: one table, one figure, one CSV; each run keeps its own results."""

from __future__ import annotations

import csv
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from cli.command import COMPARED, SEEDS, Outcome, fingerprint, flatfed, on_terminal, read_json, refused
from flatfed.experiments.measuring import robustness as measuring
from records import rewrite

pytest.importorskip("scipy")
pytest.importorskip("PIL")
pytest.importorskip("matplotlib")

FEW = ("--corruptions", "gaussian_noise,contrast,saturate")


@pytest.fixture(scope="session")
def _measured(_comparison: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    path = Path(shutil.copytree(_comparison, tmp_path_factory.mktemp("measured") / "three"))
    with pytest.MonkeyPatch.context() as patch:
        # As in each test: this may be made before the pictures of the module are small.
        patch.setattr("flatfed.reports.figures.drawing.writing.DPI", 40)
        return path, flatfed("robustness", path, *FEW)


@pytest.fixture
def measured(_measured: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """A comparison of three methods with three seeds that was measured; a copy for each test."""
    return Path(shutil.copytree(_measured[0], tmp_path / "measured"))


def accuracy(run: Path, name: str) -> float:
    """What a run's own file says."""
    data = read_json(run / "robustness.json")
    actual = {cell["corruption"]: float(cell["accuracy"]) for cell in data["cells"]}
    return actual[name] if name != "mean" else statistics.fmean(actual.values())


def row(out: str, name: str) -> list[str]:
    [line] = [line.split() for line in out.splitlines() if line.split()[:1] == [name]]
    return line


def runs(comparison: Path, method: str) -> list[Path]:
    return [comparison / method / f"seed-{seed}" for seed in SEEDS]


def test_a_comparison_is_one_table_of_its_methods(_measured: tuple[Path, Outcome]) -> None:
    comparison, outcome = _measured
    assert outcome.code == 0, outcome.err
    heads = next(line for line in outcome.out.splitlines() if "severity 5" in line)
    assert heads.split() == ["severity", "5", *COMPARED, "images"]
    for name, label in (("gaussian_noise", []), ("contrast", []), ("mean", ["(2", "of", "19)"])):
        cells = []
        for method in COMPARED:
            values = [100 * accuracy(run, name) for run in runs(comparison, method)]
            cells += [f"{statistics.fmean(values):.2f}", "±", f"{statistics.stdev(values):.2f}"]
        expected = [name, *label, *cells]
        assert row(outcome.out, name)[: len(expected)] == expected
    table = [line for line in outcome.out.splitlines() if line.strip()]
    assert table[-2].split()[0] == "mean" and "mean ± sample standard deviation over seeds" in table[-1]
    assert "left out: saturate: changes colours" in outcome.err
    for method in COMPARED:
        for run in runs(comparison, method):
            assert {"robustness.json", "robustness.csv", "robustness.png"} <= {file.name for file in run.iterdir()}


def test_each_run_s_own_files_are_those_of_a_call_for_it_alone(comparison: Path, measured: Path) -> None:
    alone = Path("fedavg", "seed-1")
    assert flatfed("robustness", comparison / alone, *FEW).code == 0
    files = ("robustness.json", "robustness.csv", "robustness.png")
    assert all((comparison / alone / file).read_bytes() == (measured / alone / file).read_bytes() for file in files)


def test_what_is_measured_is_not_measured_again(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, restored, opened = fingerprint(measured), measuring.restored, list[Path]()

    def spy(directory: Any, *rest: Any) -> Any:
        opened.append(directory.path)
        return restored(directory, *rest)

    monkeypatch.setattr(measuring, "restored", spy)
    first = flatfed("robustness", measured, *FEW)
    assert opened == []
    (measured / "fedavg" / "seed-0" / "robustness.json").unlink()
    assert flatfed("robustness", measured, *FEW).out == first.out
    assert opened == [measured / "fedavg" / "seed-0"]
    assert fingerprint(measured) == before


def test_runs_by_name_and_a_comparison_each_count_once(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(measured)
    data = flatfed("robustness", "fedavg/seed-0", "fedsam/seed-0", measured / "fedsam/seed-0", *FEW, "--json").json
    assert [(entry["method"], entry["seed"], entry["path"]) for entry in data] == [
        ("fedavg", 0, "fedavg/seed-0"),
        ("fedsam", 0, "fedsam/seed-0"),
    ]
    assert len(flatfed("robustness", "fedavg/seed-0", ".", *FEW, "--json").json) == len(COMPARED) * len(SEEDS)
    one = flatfed("robustness", "fedavg/seed-0", "fedavg/seed-0", *FEW, "--json").json
    assert isinstance(one, dict) and one == {n: v for n, v in data[0].items() if n not in ("path", "seed", "status")}


def test_runs_of_one_seed_have_no_deviation_and_settings_tell_methods_apart(run: Path) -> None:
    config = read_json(run / "config.json")
    shutil.copytree(run, "other")
    config["settings"]["lr"] = 0.5
    rewrite(Path("other/config.json"), config)
    outcome = flatfed("robustness", run, "other", *FEW)
    assert "fedsam lr=0.5" in outcome.out and "±" not in outcome.out


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_one_figure_of_all(measured: Path, ending: str) -> None:
    file = Path(f"all.{ending}")
    chosen = [measured / method / "seed-0" for method in COMPARED]
    outcome = flatfed("robustness", *chosen, *FEW, "--severity", "all", "--figure", file)
    assert outcome.code == 0, outcome.err
    assert f"figure: {file}" in outcome.err and file.stat().st_size > 5_000
    if ending == "svg":
        text = file.read_text()
        assert all(word in text for word in (*COMPARED, "gaussian noise", "contrast", "mean", "severity 5"))
    severities = [line.split()[1] for line in outcome.out.splitlines() if line.strip().startswith("severity")]
    assert severities == ["1", "2", "3", "4", "5"]


def test_one_csv_of_all(measured: Path) -> None:
    assert flatfed("robustness", measured, *FEW, "--csv", "all.csv").code == 0
    rows = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    assert len(rows) == len(COMPARED) * len(SEEDS) * 3  # clean and two corruptions
    for entry in rows:
        if entry["corruption"] != "clean":
            assert float(entry["accuracy"]) == accuracy(Path(entry["path"]), entry["corruption"])
    refused_file = flatfed("robustness", measured, *FEW, "--csv", "missing/all.csv")
    assert refused_file.code == 2 and "--csv missing/all.csv: No such file or directory" in refused_file.err


def test_the_tables_fit_a_terminal(measured: Path) -> None:
    outcome = on_terminal("robustness", measured, *FEW, columns=80)
    assert outcome.code == 0
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    assert all(method in outcome.out for method in COMPARED)


# --- what goes wrong --------------------------------------------------------------------------------------


def numbers(out: Path) -> None:
    """A run that is not about images."""
    x, y = torch.randn(20, 4), torch.randint(0, 2, (20,))
    settings: Any = {"rounds": 1, "sampling": 1, "lr": 0.1, "workers": 0}
    ff.train(ff.Task(nn.Linear(4, 2), [(x, y)], (x, y)), ff.make("fedavg"), **settings, out=out)


def test_one_that_fails_does_not_end_the_others(measured: Path) -> None:
    numbers(Path("numbers"))
    (measured / "fedavg" / "seed-0" / "robustness.json").unlink()
    for checkpoint in (measured / "fedavg" / "seed-0" / "checkpoints").glob("*/server.safetensors"):
        checkpoint.write_bytes(b"damaged")
    (measured / "fedavg" / "seed-1" / "config.json").write_text("{")
    outcome = flatfed("robustness", "numbers", measured, *FEW)
    assert outcome.code == 0, outcome.err
    reported = outcome.err.splitlines()
    for name in ("numbers", "fedavg/seed-0", "fedavg/seed-1"):
        assert any(f"{name}: " in line and line.startswith(("numbers", str(measured))) for line in reported), name
    assert row(outcome.out, "contrast")[1] == f"{100 * accuracy(measured / 'fedavg' / 'seed-2', 'contrast'):.2f}"


def test_where_all_fail_the_first_reason_is_the_error() -> None:
    numbers(Path("one"))
    numbers(Path("two"))
    outcome = flatfed("robustness", "one", "two")
    assert outcome.code == 2 and "corruptions are for images" in outcome.err.splitlines()[-1]


def test_nothing_that_suits_is_no_error(measured: Path) -> None:
    outcome = flatfed("robustness", measured, "--corruptions", "saturate")
    assert (outcome.code, outcome.out.strip()) == (0, "no corruption could be measured")
    drawn = flatfed("robustness", measured, "--corruptions", "saturate", "--figure", "a.png")
    assert drawn.code == 2 and "--figure a.png: there is nothing to draw" in drawn.err


def test_a_name_that_is_no_run_is_refused_before_anything_is_measured(measured: Path, tmp_path: Path) -> None:
    before = fingerprint(measured)
    refused(flatfed("robustness", measured, "nowhere", *FEW), "nowhere", "it does not exist")
    refused(flatfed("robustness", measured, "--corruptions", "fogg"), "--corruptions: unknown corruption 'fogg'")
    assert fingerprint(measured) == before


def test_runs_that_did_not_finish_are_reported_of(measured: Path) -> None:
    run = measured / "fedavg" / "seed-0"
    status = read_json(run / "status.json")
    rewrite(run / "status.json", status | {"status": "diverged", "reason": "round 4: not finite"})
    outcome = flatfed("robustness", measured, *FEW)
    assert (
        f"{run}: this run is diverged; measured is its last checkpoint, round 3 of 3; it is not in the mean"
        in outcome.err
    )
    good = [100 * accuracy(other, "contrast") for other in runs(measured, "fedavg")[1:]]
    assert row(outcome.out, "contrast")[1] == f"{statistics.fmean(good):.2f}"


def test_python(measured: Path) -> None:
    methods = measuring.robustness_of_methods(measuring.runs_of([measured]), names=["contrast"])
    assert [(method.label, [run.seed for run in method.runs]) for method in methods] == [
        (name, list(SEEDS)) for name in COMPARED
    ]
    assert methods[0].values("contrast", 5) == [accuracy(run, "contrast") for run in runs(measured, "fedavg")]
