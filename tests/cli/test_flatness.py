"""`flatfed flatness`: measurements of runs as a table, as JSON and as figures; and monitors of `flatfed run`."""

from __future__ import annotations

import shutil
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from cli.command import COMPARED, SMALL, Outcome, fingerprint, flatfed, on_terminal, read_history, read_json, refused
from flatfed.core.configuration.config import parameters
from flatfed.core.round.federation import TIMES
from flatfed.experiments.measuring import laboratory as opening
from flatfed.experiments.spelling.measured import MEASURED
from flatfed.flatness.measurements import Measurement
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.directory import RunDirectory
from flatfed.runs.results import KeptResults
from records import rewrite

pytest.importorskip("matplotlib")

QUICK = ("--measure", "loss,lambda_max,lpf(samples=3)")
DEFAULT = ("loss", "lambda_ratio", "trace", "lpf", "sharpness", "adaptive_sharpness", "parameter_norm")


def measured(*arguments: object) -> list[dict[str, Any]]:
    outcome = flatfed("flatness", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    actual: list[dict[str, Any]] = outcome.json
    return actual


def rows(outcome: Outcome) -> dict[str, list[str]]:
    """Return the lines of the table, by the name before them."""
    assert outcome.code == 0, outcome.err
    lines = outcome.out.partition("losses over")[0].splitlines()
    return {words[0]: words[1:] for line in lines if (words := line.split()) and not line.strip().startswith("─")}


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("measured again")


def is_png(file: Path) -> bool:
    return file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


# --- the table and JSON -------------------------------------------------------------------------------------


def test_a_row_for_every_number(run: Path) -> None:
    outcome = flatfed("flatness", run)
    table = rows(outcome)
    assert {"loss", "accuracy", "lambda_max", "lambda_5", "lambda_ratio", "trace", "lpf", "sharpness"} <= set(table)
    assert outcome.err == ""
    assert "losses over: training data of all clients, all 1,435 examples" in outcome.out.splitlines()
    assert "lambda_ratio: converged after" in outcome.out
    with ff.laboratory(run, workers=0) as lab:
        results = lab.measure(*DEFAULT)
    numbers = {name: value for result in results.values() for name, value in result.numbers.items()}
    assert table["loss"] == [f"{numbers['loss']:.5g}"]
    assert table["accuracy"] == [f"{100 * numbers['accuracy']:.2f}", "%"]
    assert table["lpf"] == [f"{numbers['lpf']:.5g}", "±", f"{numbers['lpf_error']:.2g}"]
    assert table["lambda_max"] == [f"{numbers['lambda_max']:.5g}", "±", f"{numbers['lambda_max_residual']:.2g}"]


def test_the_same_as_json(run: Path) -> None:
    [actual] = measured(run)
    assert (actual["path"], actual["round"]) == (str(run), 3)
    assert actual["accuracy"] == read_history(run)[-1]["test_accuracy"]
    assert actual["over"] == "training data of all clients, all 1,435 examples"
    assert list(actual["results"]) == list(DEFAULT)
    with ff.laboratory(run, workers=0) as lab:
        loss = lab.surface.loss()
    assert actual["results"]["loss"]["numbers"]["loss"] == loss


def test_clients_are_in_the_json(run: Path) -> None:
    [actual] = measured(run, "--measure", "client_accuracy,local_global")
    assert sorted(actual["results"]["client_accuracy"]["clients"]["client_accuracy"]) == ["0", "1", "2", "3", "4"]
    last = read_history(run)[-1]["clients"]
    assert sorted(actual["results"]["local_global"]["clients"]["lambda_local"]) == sorted(map(str, last))


def test_several_runs_and_a_comparison_side_by_side(run: Path, comparison: Path) -> None:
    outcome = flatfed("flatness", comparison, run, *QUICK)
    assert len(rows(outcome)["loss"]) == 10
    actual = measured(comparison, run, *QUICK)
    names = [f"{method} seed {seed}" for method in COMPARED for seed in (0, 1, 2)]
    assert [one["method"] for one in actual][:6] == names[:6]
    assert len({one["method"] for one in actual}) == 10
    alone = measured(comparison / "feddyn+sam" / "seed-1", *QUICK)
    assert alone[0]["results"] == actual[4]["results"]
    assert alone[0]["method"] == "feddyn+sam"


def test_the_names_of_numbers_are_whole_on_a_narrow_terminal(comparison: Path) -> None:
    outcome = on_terminal("flatness", comparison, *QUICK, columns=80)
    assert outcome.code == 0
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    assert all(f" {name} " in outcome.out for name in ("loss", "accuracy", "lambda_max", "lpf"))
    assert "…" not in outcome.out


def test_a_checkpoint_is_measured_as_it_was(tmp_path: Path) -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--keep-checkpoints", 0, "--out", "run")
    assert outcome.code == 0, outcome.err
    start = Path("run/checkpoints/round-000000")
    [first] = measured(start, "--measure", "loss")
    assert first["round"] == 0
    with ff.laboratory(start) as lab:
        assert first["results"]["loss"]["numbers"]["loss"] == lab.surface.loss()
    both = measured(start, "run", "--measure", "loss")
    assert [one["method"] for one in both] == ["fedavg seed 0 round 0", "fedavg seed 0"]
    assert both[0]["results"] == first["results"] != both[1]["results"]


def test_the_accuracy_beside_a_checkpoint_is_not_another_rounds(run: Path) -> None:
    """It is what figures set against the sharpness."""
    flatfed("resume", run, "--rounds", 5)
    history = read_history(run)
    assert history[3]["test_accuracy"] != history[4]["test_accuracy"], "or this test says nothing"
    [actual] = measured(run / "checkpoints" / "round-000004", "--measure", "loss")
    assert actual["accuracy"] in (None, history[3]["test_accuracy"])


def test_one_measurement_in_several_ways(run: Path) -> None:
    """`lambda_max(mode=power)` is there to be compared with `lambda_max`."""
    asked = "lambda_max,lambda_max(mode=power)"
    [actual] = measured(run, "--measure", asked)
    with ff.laboratory(run) as lab:
        results = lab.measure(asked)
    assert len(results) == 2
    assert set(actual["results"]) == set(results)
    table = flatfed("flatness", run, "--measure", asked).out
    for result in results.values():
        assert f"{result.numbers['lambda_max']:.5g} ± {result.numbers['lambda_max_residual']:.2g}" in table


@pytest.mark.parametrize(("data", "of"), [("test", "test"), ("client 2", "client 2"), ("train", "train")])
def test_the_examples_are_chosen(data: str, of: str, run: Path) -> None:
    [actual] = measured(run, "--measure", "loss", "--data", data)
    with ff.laboratory(run, data=of) as lab:
        assert actual["results"]["loss"]["numbers"]["loss"] == lab.surface.loss()
        assert actual["over"] == lab.surface.note


def test_a_part_of_them(run: Path) -> None:
    few = [measured(run, "--measure", "loss", "--samples", 100, "--seed", seed)[0] for seed in (0, 0, 1)]
    losses = [one["results"]["loss"]["numbers"]["loss"] for one in few]
    assert losses[0] == losses[1] != losses[2]
    assert few[2]["over"] == "training data of all clients, 100 of 1,435 examples (seed 1)"
    more = measured(run, "--measure", "loss", "--samples", 10_000)[0]
    assert more["over"].endswith("all 1,435 examples")


def test_the_averaged_or_the_last_global_model() -> None:
    outcome = flatfed(
        "run", "digits", "fedavg+swa", "--set", "average.start=0", "--set", "average.cycle=1", *SMALL, "--out", "run"
    )
    assert outcome.code == 0, outcome.err
    averaged, last = (
        measured("run", "--measure", "parameter_norm", "--weights", w)[0] for w in ("evaluated", "global")
    )
    run = ff.load_run("run")
    for actual, vector in ((averaged, run.eval_vector), (last, run.vector)):
        norm = actual["results"]["parameter_norm"]["numbers"]["parameter_norm"]
        assert norm == pytest.approx(float(vector.norm()), rel=1e-6)
    assert averaged["results"] != last["results"]


# --- what is known is not measured again --------------------------------------------------------------------


def test_a_second_call_measures_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, before = flatfed("flatness", run, *QUICK), fingerprint(run)
    monkeypatch.setattr(opening, "Subject", never)
    second = flatfed("flatness", run, *QUICK)
    assert (second.code, second.out) == (0, first.out)
    assert flatfed("flatness", run, "--measure", "lambda_max").code == 0
    assert fingerprint(run) == before


def test_only_what_is_missing_is_measured(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flatfed("flatness", run, *QUICK)
    taken, plain = [], opening.Subject

    def note(*given: Any) -> Any:
        taken.append(given)
        return plain(*given)

    monkeypatch.setattr(opening, "Subject", note)
    for options in (("--measure", "loss,lambda_max,parameter_norm"), ("--measure", "lpf(samples=4)")):
        assert flatfed("flatness", run, *options).code == 0
    assert len(taken) == 2
    for options in (("--data", "test"), ("--samples", "50"), ("--weights", "global"), ("--samples", "50", "--seed", 1)):
        assert flatfed("flatness", run, "--measure", "loss", *options).code == 0
    assert len(taken) == 6
    flatfed("resume", run, "--rounds", 4)
    assert flatfed("flatness", run, "--measure", "loss").code == 0
    assert len(taken) == 7


def test_two_commands_at_once_lose_nothing(run: Path) -> None:
    """One that takes long must not write over what a shorter one found in the meantime."""
    actual = {"numbers": {}, "clients": {}, "series": {}, "remark": ""}
    first, second = KeptResults(run), KeptResults(run)
    first.keep({"round": 1}, actual)
    second.keep({"round": 2}, actual)
    assert KeptResults(run).find({"round": 1}) == actual
    assert KeptResults(run).find({"round": 2}) == actual


def test_readings_on_the_disk_are_json(run: Path) -> None:
    flatfed("flatness", run, *QUICK)
    kept = read_json(run / "flatness" / "results.json")
    assert [entry["key"]["measurement"]["id"] for entry in kept["results"]] == ["loss", "lambda_max", "lpf"]
    assert {entry["key"]["round"] for entry in kept["results"]} == {3}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": 2, "results": []}', '{"format": 1, "results": 3}']
)
def test_readings_that_cannot_be_used_are_named(run: Path, content: str) -> None:
    (run / "flatness").mkdir()
    (run / "flatness" / "results.json").write_text(content)
    refused(flatfed("flatness", run, *QUICK), "results.json")


def test_a_loss_that_is_not_a_number_is_no_json_number(tmp_path: Path) -> None:
    x, y = torch.ones(6, 2), torch.arange(6) % 2
    bad = (torch.full((6, 2), float("nan")), y)
    task = ff.Task(nn.Linear(2, 2), [(x, y)], tests={"bad": bad})
    ff.train(task, ff.make("fedavg"), rounds=1, sampling=1, lr=0.1, workers=0, out=tmp_path / "run")
    for _ in range(2):
        [actual] = measured("run", "--data", "bad", "--measure", "loss,lpf(samples=2)")
        assert actual["results"]["loss"]["numbers"]["loss"] is None
        assert flatfed("flatness", "run", "--data", "bad", "--measure", "loss").code == 0


# --- figures ------------------------------------------------------------------------------------------------


def test_figures_of_spectra_and_of_accuracy_against_sharpness(comparison: Path) -> None:
    runs = [comparison / "fedavg" / f"seed-{seed}" for seed in (0, 1)]
    outcome = flatfed("flatness", *runs, "--measure", "lambda_ratio", "--figures", "some/where")
    assert outcome.code == 0, outcome.err
    names = {f"{name}{ending}" for name in ("spectra", "accuracy-lambda") for ending in (".png", ".pdf", ".svg")}
    assert {file.name for file in Path("some/where").iterdir()} == names
    assert all(name in outcome.err for name in names)
    assert is_png(Path("some/where/spectra.png")) and is_png(Path("some/where/accuracy-lambda.png"))
    for name in ("spectra", "accuracy-lambda"):
        assert ET.parse(f"some/where/{name}.svg").getroot().tag.endswith("svg")


def test_what_cannot_be_drawn_is_said(run: Path) -> None:
    outcome = flatfed("flatness", run, "--measure", "loss", "--figures", "figures")
    assert outcome.code == 0
    assert "nothing that was measured can be drawn" in outcome.err


def test_clients_over_rounds_and_a_map_of_features() -> None:
    pytest.importorskip("sklearn")
    watch = ("--watch", "client_accuracy:1,parameter_norm:1", "--watch-samples", "50")
    assert flatfed("run", "digits", "fedavg", *SMALL, *watch, "--out", "run").code == 0
    outcome = flatfed("flatness", "run", "--measure", "loss", "--figures", "figures", "--tsne")
    assert outcome.code == 0, outcome.err
    drawn = {file.name for file in Path("figures").iterdir()}
    assert {"features.png", "features.svg", "fedavg-client_accuracy.png", "fedavg-client_accuracy.svg"} <= drawn
    assert is_png(Path("figures/features.png"))


def test_a_map_of_the_model_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    seen: list[Any] = []
    monkeypatch.setattr("flatfed.reports.figures.embedding.draw_embeddings", lambda maps, files: seen.append(maps))
    monkeypatch.setattr("flatfed.experiments.measuring.feature_maps.embedding", lambda surface, *_: surface.w)
    swa = ("fedavg+swa", "--set", "average.start=0", "--set", "average.cycle=1")
    assert flatfed("run", "digits", *swa, *SMALL, "--out", "run").code == 0
    for weights in ("evaluated", "global"):
        options = ("--measure", "loss", "--figures", "figures", "--tsne", "--weights", weights)
        outcome = flatfed("flatness", "run", *options)
        assert outcome.code == 0, outcome.err
    run = ff.load_run("run")
    assert torch.equal(seen[0][0], run.eval_vector)
    assert torch.equal(seen[1][0], run.vector)


def test_a_folder_that_cannot_be_written(run: Path) -> None:
    Path("taken").write_text("")
    outcome = flatfed("flatness", run, "--measure", "loss", "--figures", "taken/figures")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert outcome.err.splitlines()[-1].startswith("Error: --figures taken/figures: ")


# --- what cannot be done ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "parts"),
    [
        ("lambda_mex", ["unknown measurement 'lambda_mex'", "lambda_max"]),
        ("", ["say what to measure"]),
        (",", ["say what to measure"]),
        ("lpf(samples=3", ["is not a measurement"]),
        ("lpf)", ["is not a measurement"]),
        ("lpf(samples=0)", ["samples", "at least 1"]),
        ("lpf(samples=many)", ["samples", "whole number"]),
        ("lpf(sample=3)", ["unknown parameter 'sample'", "samples"]),
        ("lpf(1,2,3,4)", ["takes 3 values"]),
        ("lpf(samples=3,samples=4)", ["is given samples twice"]),
        ("lambda_max(mode=magic)", ["mode"]),
    ],
)
def test_measurements_that_are_misspelt(measure: str, parts: list[str], run: Path) -> None:
    refused(flatfed("flatness", run, "--measure", measure), "--measure: ", *parts)
    assert not (run / "flatness").exists()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--data", "tset"), ["unknown set of examples 'tset'", "test"]),
        (("--data", "client 77"), ["there is no client 77", "0 to 4"]),
        (("--data", "client two"), ["client two"]),
        (("--samples", "0"), ["--samples", "at least 1"]),
        (("--samples", "some"), ["--samples"]),
        (("--seed", "-1"), ["--seed"]),
        (("--weights", "best"), ["--weights"]),
        (("--workers", "-1"), ["--workers"]),
        (("--tsne",), ["--tsne says what --figures DIR draws; give that too"]),
        (("--measure", "tracking_error"), ["fedsam keeps no estimate"]),
    ],
)
def test_options_that_cannot_be_used(options: tuple[str, ...], parts: list[str], run: Path) -> None:
    chosen = () if "--measure" in options else ("--measure", "loss")
    refused(flatfed("flatness", run, *chosen, *options), *parts)


def test_places_without_a_run(run: Path, tmp_path: Path) -> None:
    refused(flatfed("flatness"), "RUN...")
    refused(flatfed("flatness", tmp_path), "is not a run directory", "run")
    refused(flatfed("flatness", "nothing"), "it does not exist")
    refused(flatfed("flatness", run, "nothing"), "it does not exist")
    refused(flatfed("flatness", run / "config.json"), "is not a run directory")
    refused(flatfed("flatness", run / "checkpoints"), "is not a run directory")
    refused(flatfed("flatness", run / "checkpoints" / "round-000077", "--measure", "loss"), "round-000077")


@pytest.mark.parametrize("name", ["states", "round-", "round-last"])
def test_something_else_among_the_checkpoints(name: str, run: Path) -> None:
    refused(flatfed("flatness", run / "checkpoints" / name, "--measure", "loss"), name)
    refused(flatfed("flatness", run, run / "checkpoints" / name, "--measure", "loss"), name)


def test_a_comparison_without_runs(comparison: Path) -> None:
    """As `flatfed show` has it."""
    for method in COMPARED:
        shutil.rmtree(comparison / method)
    refused(flatfed("show", comparison), "holds no run yet")
    refused(flatfed("flatness", comparison, *QUICK), "holds no run yet")


def test_a_run_without_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    refused(flatfed("flatness", run, *QUICK), "holds no usable checkpoint")


def spoil(run: Path) -> None:
    """Let the newest checkpoint hold weights that are not numbers, sealed as it should be."""
    directory = RunDirectory.open(run)
    loaded = directory.checkpoints.load_newest()
    tensors = {n: torch.full_like(t, torch.nan) if t.is_floating_point() else t for n, t in loaded.tensors.items()}
    Checkpoints(run / "checkpoints", directory.config["run"]).save(loaded.round, tensors, {})


def test_a_model_that_is_not_finite(run: Path) -> None:
    spoil(run)
    refused(flatfed("flatness", run, *QUICK), "not finite numbers", "diverged")


def test_one_of_several_that_cannot_be_measured_is_reported_of_and_the_others_are(comparison: Path) -> None:
    bad, empty, good = (comparison / "fedavg" / f"seed-{seed}" for seed in (0, 1, 2))
    spoil(bad)
    shutil.rmtree(empty / "checkpoints")
    outcome = flatfed("flatness", bad, empty, good, *QUICK)
    assert outcome.code in (0, 1), outcome.err
    assert "not finite" in outcome.err and "no usable checkpoint" in outcome.err
    with ff.laboratory(good) as lab:
        assert f"{lab.surface.loss():.5g}" in outcome.out


def test_a_measurement_that_suits_some_of_the_runs(run: Path) -> None:
    assert flatfed("run", "digits", "fedvssam", *SMALL, "--out", "other").code == 0
    outcome = flatfed("flatness", run, "other", "--measure", "loss,tracking_error")
    assert "fedsam: tracking_error: fedsam keeps no estimate" in outcome.err
    [without, number] = rows(outcome)["tracking_error"]
    assert without == "–" and float(number) > 0


def test_a_run_that_did_not_finish_says_which_round_was_measured(run: Path) -> None:
    """As `flatfed robustness` does: its last checkpoint may be the initial model."""
    status = read_json(run / "status.json")
    rewrite(run / "status.json", status | {"status": "diverged", "reason": "round 4: not finite"})
    outcome = flatfed("flatness", run, *QUICK)
    assert outcome.code == 0
    assert "diverged" in outcome.err and "round 3" in outcome.err


def test_help_tells_what_there_is() -> None:
    outcome = flatfed("flatness", "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    options = "--measure", "--data", "--samples", "--seed", "--weights", "--figures", "--tsne", "--workers", "--json"
    assert all(f"  {option}" in outcome.out for option in options)
    assert all(name in Measurement.registry for name in MEASURED.split(","))
    assert "results.json" in outcome.out


# --- measurements listed ------------------------------------------------------------------------------------


def test_measurements_are_listed_with_their_parameters() -> None:
    outcome = flatfed("list", "measurements")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == sorted(Measurement.registry)
    assert all(line.rstrip().endswith(".") for line in heads)
    entries = flatfed("list", "measurements", "--json").json
    assert [entry["id"] for entry in entries] == sorted(Measurement.registry)
    for entry in entries:
        cls = Measurement.registry.find(entry["id"])
        assert entry["about"]
        assert entry.get("parameters", {}) == {name: getattr(cls(), name) for name in parameters(cls)}


def test_the_page_names_every_measurement() -> None:
    page = (Path(ff.__file__).parents[2] / "docs" / "flatness.md").read_text(encoding="utf-8")
    assert all(f"| `{id}` |" in page for id in Measurement.registry)


# --- while it trains ----------------------------------------------------------------------------------------


@pytest.fixture
def watched() -> Path:
    watch = ("--watch", "lambda_max:2,lpf(samples=2):1,client_accuracy:3", "--watch-samples", "60")
    outcome = flatfed("run", "digits", "fedsam", *SMALL, *watch, "--out", "watched")
    assert outcome.code == 0, outcome.err
    return Path("watched")


def test_monitors_stand_in_the_history_and_change_nothing_else(watched: Path, run: Path) -> None:
    history, plain = read_history(watched), read_history(run)
    assert [row["round"] for row in history if "lambda_max" in row["watch"]] == [1]
    assert [row["round"] for row in history if "lpf" in row["watch"]] == [0, 1, 2]
    assert [row["round"] for row in history if "clients_watch" in row] == [2]
    assert sorted(history[2]["clients_watch"]["client_accuracy"]) == ["0", "1", "2", "3", "4"]
    [actual] = measured(watched, "--measure", "lpf(samples=2)", "--samples", 60)
    assert actual["results"]["lpf"]["numbers"]["lpf"] == history[2]["watch"]["lpf"]
    for row, bare in zip(history, plain, strict=True):
        assert {k: v for k, v in row.items() if k not in (*TIMES, "watch", "clients_watch")} == {
            k: v for k, v in bare.items() if k not in (*TIMES, "watch")
        }


def test_what_was_watched_is_drawn(watched: Path) -> None:
    outcome = flatfed("show", watched, "--figure", "x.png", "--plot", "lambda_max,lpf")
    assert outcome.code == 0, outcome.err
    assert is_png(Path("x.png"))


@pytest.mark.parametrize(
    ("watch", "part"),
    [
        ("lambda_max", "every how many rounds"),
        ("lambda_max:0", "every how many rounds"),
        ("lambda_max:-5", "every how many rounds"),
        ("lambda_max:2.5", "every how many rounds"),
        ("lambda_mex:5", "did you mean 'lambda_max'"),
        ("lpf(samples=x):5", "whole number"),
        ("lambda_max:5,", "every how many rounds"),
        ("", "every how many rounds"),
    ],
)
def test_monitors_that_are_misspelt(watch: str, part: str) -> None:
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--watch", watch, "--out", "run"), "--watch: ", part)
    assert not Path("run").exists()


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("options", "part"), [(("--watch-data", "tset"), "tset"), (("--watch-samples", "0"), "at least 1")]
)
def test_examples_of_monitors_that_are_not_there(command: str, options: tuple[str, str], part: str) -> None:
    outcome = flatfed(command, "digits", "fedavg", *SMALL, "--watch", "loss:1", *options, "--out", "run")
    refused(outcome, part)
    assert not Path("run").exists()


def test_a_monitor_that_means_nothing_for_a_method_is_left_out_with_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        outcome = flatfed("run", "digits", "fedavg", *SMALL, "--watch", "tracking_error:1,loss:1", "--out", "run")
    assert outcome.code == 0
    assert "Warning: --watch: tracking_error: fedavg keeps no estimate" in outcome.err
    assert all("loss" in row["watch"] for row in read_history(Path("run")))
