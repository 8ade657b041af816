"""`flatfed robustness`: a run's model on corrupted images, and `load_run` behind it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import flatfed as ff
from cli.command import SMALL, fingerprint, flatfed, on_terminal, read_history, read_json, refused
from flatfed.core.errors import ConfigError
from flatfed.experiments.measuring import robustness as measuring
from flatfed.experiments.measuring.robustness import robustness
from flatfed.experiments.running.run import load_run
from flatfed.experiments.tasks.recipe import _pool
from flatfed.reports.robustness.one_run import CorruptionCell, Robustness, draw, headline
from records import rewrite

pytest.importorskip("scipy")
pytest.importorskip("PIL")
pytest.importorskip("matplotlib")

SUITABLE = {
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    *("defocus_blur", "glass_blur", "gaussian_blur", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
unseen = pytest.mark.usefixtures("no_pictures")
FEW = ("--corruptions", "gaussian_noise,contrast")


def cells(data: dict[str, Any]) -> dict[tuple[str, int], float]:
    return {(cell["corruption"], cell["severity"]): cell["accuracy"] for cell in data["cells"]}


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the run was loaded again")


# What is printed and written.


def test_the_table_names_each_corruption_and_the_files_hold_the_same(run: Path) -> None:
    outcome = flatfed("robustness", run)
    assert outcome.code == 0, outcome.err
    data = read_json(run / "robustness.json")
    assert {name for name, _ in cells(data)} == SUITABLE
    assert {severity for _, severity in cells(data)} == {5}
    for name in SUITABLE:
        (line,) = [line for line in outcome.out.splitlines() if line.split()[:1] == [name]]
        assert line.split()[1] == f"{100 * cells(data)[name, 5]:.2f}"
        assert line.split()[-1] == "generated"
    mean = sum(cells(data).values()) / 13
    assert abs(data["mean"]["5"] - mean) < 1e-12
    assert f"accuracy {100 * mean:.2f} % at severity 5 (mean over 13 corruptions)" in outcome.out.splitlines()[-1]
    assert data["mean_standard"]["5"] != data["mean"]["5"]
    rows = list(csv.DictReader((run / "robustness.csv").read_text().splitlines()))
    assert rows[0]["corruption"] == "clean"
    assert {row["corruption"]: float(row["accuracy"]) for row in rows[1:]} == {
        n: v for (n, _), v in cells(data).items()
    }
    assert all(row["faithful"] == "True" for row in rows[1:])
    assert (run / "robustness.png").stat().st_size > 5_000


@unseen
def test_what_does_not_suit_is_left_out_with_a_reason(run: Path) -> None:
    err = flatfed("robustness", run).err
    assert "left out: motion_blur, zoom_blur, snow, spatter: the severities need images of at least 16 x 16" in err
    assert "left out: frost: made from photographs of frost" in err
    assert "left out: saturate: changes colours, and the images are grey" in err


@unseen
def test_clean_images_give_the_accuracy_of_the_history(run: Path) -> None:
    data = flatfed("robustness", run, *FEW, "--json").json
    last = read_history(run)[-1]
    assert data["clean"]["accuracy"] == last["test_accuracy"]
    assert data["clean"]["loss"] == pytest.approx(last["test_loss"], rel=1e-12)
    assert data["round"] == 3
    assert data["examples"] == 360


@unseen
def test_all_severities_are_columns(run: Path) -> None:
    outcome = flatfed("robustness", run, "--severity", "all", *FEW)
    heads = next(line for line in outcome.out.splitlines() if "corruption" in line)
    assert heads.split() == ["corruption", "1", "2", "3", "4", "5", "images"]
    assert len(cells(read_json(run / "robustness.json"))) == 10


@unseen
def test_the_table_fits_a_terminal(run: Path) -> None:
    outcome = on_terminal("robustness", run, "--severity", "all", columns=80)
    assert outcome.code == 0
    assert all(len(line) <= 80 for line in outcome.out.splitlines() if "fedsam on digits" not in line)
    assert "…" not in outcome.out


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_figure_of_what_was_asked_for(run: Path, tmp_path: Path, ending: str) -> None:
    figure = tmp_path / f"figure.{ending}"
    outcome = flatfed("robustness", run, "--severity", "all", *FEW, "--figure", figure)
    assert outcome.code == 0
    assert f"figure: {figure}" in outcome.err
    assert figure.stat().st_size > 5_000


def test_nothing_that_suits_is_no_error(run: Path) -> None:
    outcome = flatfed("robustness", run, "--corruptions", "frost")
    assert outcome.code == 0
    assert outcome.out.strip() == "no corruption could be measured"
    assert "left out: frost" in outcome.err


# What is known is not measured again.


@unseen
def test_a_second_call_reads_what_the_first_one_measured(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = flatfed("robustness", run)
    before = fingerprint(run)
    monkeypatch.setattr(measuring, "restored", never)
    second = flatfed("robustness", run)
    assert (second.code, second.out) == (0, first.out)
    assert flatfed("robustness", run, *FEW).code == 0
    assert flatfed("robustness", run, "--corruptions", "frost").code == 0
    assert fingerprint(run) == before


def test_only_what_is_missing_is_measured(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flatfed("robustness", run, *FEW)
    measured = []
    actual = robustness(run, severities=[3, 5], on_corruption=lambda name, done, total: measured.append((name, total)))
    assert len(measured) == 19
    assert {c.severity for c in actual.cells if c.corruption == "contrast"} == {3, 5}
    measured.clear()
    monkeypatch.setattr(measuring, "restored", never)
    robustness(run, severities=[3], on_corruption=lambda name, done, total: measured.append((name, total)))
    assert measured == []


def test_an_interrupted_measurement_keeps_what_it_has(run: Path) -> None:
    def stop(name: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        robustness(run, on_corruption=stop)
    kept = cells(read_json(run / "robustness.json"))
    assert set(kept) == {("gaussian_noise", 5), ("shot_noise", 5)}
    asked = []
    actual = robustness(run, on_corruption=lambda name, done, total: asked.append(name))
    assert "gaussian_noise" not in asked
    assert {(c.corruption, c.severity) for c in actual.cells} == {(name, 5) for name in SUITABLE}
    assert all(cells(read_json(run / "robustness.json"))[place] == value for place, value in kept.items())


@unseen
def test_more_rounds_are_measured_anew(run: Path) -> None:
    first = flatfed("robustness", run, *FEW, "--json").json
    assert flatfed("resume", run, "--rounds", 5, "--workers", 0).code == 0
    second = flatfed("robustness", run, *FEW, "--json").json
    assert (first["round"], second["round"]) == (3, 5)
    assert second["clean"]["accuracy"] == read_history(run)[-1]["test_accuracy"]
    assert second["clean"]["loss"] != first["clean"]["loss"]


@unseen
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1, "key": {}}', "another run"])
def test_a_file_that_cannot_be_used_is_measured_anew(run: Path, content: str) -> None:
    good = flatfed("robustness", run, *FEW, "--json").json
    file = run / "robustness.json"
    if content == "another run":
        data = read_json(file)
        data["key"]["run"] = "0" * 32
        data["cells"][0]["accuracy"] = 0.123
        content = json.dumps(data)
    file.write_text(content)
    again = flatfed("robustness", run, *FEW, "--json")
    assert again.code == 0
    assert again.json == good


@unseen
def test_workers_do_not_matter(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = flatfed("robustness", run, "--workers", 0, "--json").json
    (run / "robustness.json").unlink()
    monkeypatch.setattr(measuring, "SMALL", 0)
    assert flatfed("robustness", run, "--workers", 2, "--json").json == alone


# What cannot be done.


def test_a_corruption_that_is_not_there(run: Path) -> None:
    outcome = flatfed("robustness", run, "--corruptions", "gaussian-noise,fogg")
    refused(outcome, "--corruptions: unknown corruption 'fogg'", "did you mean 'fog'")


@unseen
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--severity", "6"), "'6' is not one of"),
        (("--figure", "f.gif"), "--figure f.gif: the name must end in .png, .svg or .pdf"),
        (("--workers", "-1"), "-1"),
        (("--data-dir", ""), None),
    ],
)
def test_options_that_cannot_be_used(run: Path, arguments: tuple[str, str], part: str | None) -> None:
    outcome = flatfed("robustness", run, *FEW, *arguments)
    if part is None:
        assert outcome.code == 0
    else:
        refused(outcome, part)


def test_a_place_without_a_run(tmp_path: Path) -> None:
    refused(flatfed("robustness", tmp_path), "is not a run directory")
    refused(flatfed("robustness", tmp_path / "nothing"), "it does not exist")


def test_a_run_without_images_or_without_a_test_set(tmp_path: Path) -> None:
    x, y = torch.randn(20, 4), torch.randint(0, 2, (20,))
    settings: Any = {"rounds": 1, "sampling": 1, "lr": 0.1, "workers": 0}
    ff.train(ff.Task(nn.Linear(4, 2), [(x, y)], (x, y)), ff.make("fedavg"), **settings, out=tmp_path / "numbers")
    refused(flatfed("robustness", tmp_path / "numbers"), "corruptions are for images")
    ff.train(ff.Task(nn.Linear(4, 2), [(x, y)]), ff.make("fedavg"), **settings, out=tmp_path / "no-test")
    refused(flatfed("robustness", tmp_path / "no-test"), "has no test set to corrupt")
    refused(flatfed("robustness", tmp_path / "numbers", "--data-dir", tmp_path), "do not come from a data directory")


def test_a_run_that_did_not_finish_says_which_round_was_measured(run: Path) -> None:
    status = read_json(run / "status.json")
    rewrite(run / "status.json", status | {"status": "diverged", "reason": "round 4: not finite"})
    assert "this run is diverged; measured is its last checkpoint, round 3 of 3" in flatfed("robustness", run, *FEW).err


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    out = tmp_path / "run"
    x, y = torch.rand(30, 3, 16, 16), torch.randint(0, 4, (30,))
    task = ff.Task(nn.Sequential(nn.Flatten(), nn.Linear(768, 4)), [(x, y)], (x, y))
    ff.train(task, ff.make("fedavg"), rounds=4, sampling=1, lr=0.1, workers=0, out=out, checkpoint_every=2)
    (out / "checkpoints" / "round-000004" / "server.safetensors").write_bytes(b"damaged")
    outcome = flatfed("robustness", out, "--corruptions", "contrast", "--json")
    assert outcome.code == 0
    assert outcome.json["round"] == 3
    assert "checkpoint of round 4 cannot be used" in outcome.err
    assert flatfed("robustness", out, "--corruptions", "contrast", "--json").json == outcome.json


# Images of other kinds.


def test_coloured_floats_from_python_take_all_but_frost(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(40, 3, 16, 16, generator=generator), torch.randint(0, 4, (40,), generator=generator)
    task = ff.Task(nn.Sequential(nn.Flatten(), nn.Linear(768, 4)), [(x, y)], (x, y), name="colours")
    ff.train(task, ff.make("fedavg"), rounds=2, sampling=1, lr=0.1, workers=0, out=tmp_path / "run")
    data = flatfed("robustness", tmp_path / "run", "--json").json
    assert set(data["skipped"]) == {"frost"}
    assert len(data["cells"]) == 18
    assert data["dataset"] == "colours"


def write_cifar(root: Path, published: tuple[str, ...]) -> None:
    """Write a small CIFAR-10 in its binary layout, and published corruptions of another size."""
    rng = np.random.default_rng(0)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        records = rng.integers(0, 256, (20, 3073)).astype(np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / f"{name}.bin")
    corrupted = root / "CIFAR-10-C"
    corrupted.mkdir()
    np.save(corrupted / "labels.npy", np.tile(np.arange(10), 5).astype(np.uint8))
    for name in published:
        np.save(corrupted / f"{name}.npy", rng.integers(0, 256, (50, 32, 32, 3)).astype(np.uint8))


@pytest.fixture
def cifar(tmp_path: Path) -> tuple[Path, Path]:
    """A run on a small CIFAR-10, and its data directory, where two corruptions are published."""
    data, out = tmp_path / "data", tmp_path / "cifar"
    write_cifar(data, ("frost", "contrast"))
    outcome = flatfed("run", "cifar10", "fedavg", *SMALL, "--partition", "iid", "--data-dir", data, "--out", out)
    assert outcome.code == 0, outcome.err
    return out, data


@unseen
def test_published_files_are_used_where_they_are(cifar: tuple[Path, Path]) -> None:
    out, data = cifar
    chosen = ("--corruptions", "frost,contrast,brightness", "--severity", "all")
    outcome = flatfed("robustness", out, *chosen, "--json")
    assert outcome.code == 0, outcome.err
    sources = {(c["corruption"], c["source"]) for c in outcome.json["cells"]}
    assert sources == {("frost", "published"), ("contrast", "published"), ("brightness", "generated")}
    model = ff.resume(out, workers=0).model().eval()
    images = torch.from_numpy(np.load(data / "CIFAR-10-C" / "frost.npy")[30:40].transpose(0, 3, 1, 2).copy())
    pool = load_run(out)._federation.task
    assert pool.prepare is not None
    right = (model(pool.prepare(images)).argmax(dim=1) == torch.arange(10)).double().mean()
    assert cells(outcome.json)["frost", 4] == pytest.approx(float(right))


@unseen
def test_files_that_come_or_go_are_noticed(cifar: tuple[Path, Path]) -> None:
    out, data = cifar
    chosen = ("--corruptions", "contrast,fog", "--json")
    flatfed("robustness", out, *chosen, "--severity", "all")
    shutil.copy(data / "CIFAR-10-C" / "frost.npy", data / "CIFAR-10-C" / "fog.npy")
    after = flatfed("robustness", out, *chosen).json
    assert {(c["corruption"], c["source"]) for c in after["cells"]} == {("contrast", "published"), ("fog", "published")}
    kept = read_json(out / "robustness.json")["cells"]
    assert [c["severity"] for c in kept if c["corruption"] == "fog"] == [5]  # generated ones are not mixed with these


def test_data_that_have_moved(cifar: tuple[Path, Path], tmp_path: Path) -> None:
    out, data = cifar
    elsewhere = tmp_path / "elsewhere"
    data.rename(elsewhere)
    _pool.cache_clear()
    outcome = flatfed("robustness", out, "--corruptions", "contrast")
    assert outcome.code == 2
    assert "is missing" in outcome.err
    actual = flatfed("robustness", out, "--corruptions", "contrast", "--data-dir", elsewhere, "--json").json
    assert actual["cells"][0]["source"] == "published"


def test_a_damaged_published_file_is_named(cifar: tuple[Path, Path]) -> None:
    out, data = cifar
    file = data / "CIFAR-10-C" / "frost.npy"
    file.write_bytes(file.read_bytes()[:5000])
    refused(flatfed("robustness", out, "--corruptions", "frost"), str(file), "cannot be read")


# Loading a run.


def test_a_loaded_run_is_the_one_that_was_trained(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(40, 6, generator=generator), torch.randint(0, 3, (40,), generator=generator)
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    task = ff.Task(net, [(x[:25], y[:25]), (x[25:], y[25:])], (x, y))
    trained = ff.train(
        task,
        ff.make("scaffold"),
        rounds=6,
        sampling=1,
        lr=0.1,
        workers=0,
        out=tmp_path / "run",
        average=ff.SWA(start=0.5, cycle=1),
    )
    before = fingerprint(tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert torch.equal(loaded.vector, trained.vector)
    assert torch.equal(loaded.eval_vector, trained.eval_vector)
    assert not torch.equal(loaded.vector, loaded.eval_vector)
    assert loaded.history == trained.history
    assert (loaded.status, loaded.summary) == (trained.status, trained.summary)
    for client in (0, 1):
        for name, tensor in trained.client_state(client).items():
            assert torch.equal(loaded.client_state(client)[name], tensor)
    for name, tensor in trained.model().state_dict().items():
        assert torch.equal(loaded.model().state_dict()[name], tensor)
    assert fingerprint(tmp_path / "run") == before


def test_a_task_that_lived_in_memory_must_be_given_again(tmp_path: Path) -> None:
    class Own(nn.Linear):
        """A class that no other process can import."""

    x, y = torch.rand(10, 3, 16, 16), torch.randint(0, 2, (10,))
    task = ff.Task(nn.Sequential(nn.Flatten(), Own(768, 2)), [(x, y)], (x, y))
    run = ff.train(task, ff.make("fedavg"), rounds=1, sampling=1, lr=0.1, workers=0, out=tmp_path / "run")
    assert torch.equal(load_run(tmp_path / "run", task=task).vector, run.vector)
    actual = robustness(tmp_path / "run", names=["contrast"], task=task)
    assert [c.corruption for c in actual.cells] == ["contrast"]
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with pytest.raises(ConfigError, match="only lived in memory"):
        load_run(tmp_path / "copy")


# Reports of other tasks than classification.


def test_another_measure_and_a_loss_are_shown_too(tmp_path: Path) -> None:
    scenes = Robustness(
        "fedavg", 3, "streets", 5, {"loss": 1.0, "miou": 0.5}, [CorruptionCell("fog", 5, "generated", {"miou": 0.25})]
    )
    assert scenes.measure == "miou"
    assert headline(scenes).endswith("miou 25.00 % at severity 5 (fog), 50.00 % on clean images")
    regression = Robustness(
        "fedavg", 3, "depth", 5, {"loss": 1.0}, [CorruptionCell("fog", 5, "generated", {"loss": 1.5})]
    )
    assert headline(regression).endswith("loss 1.5000 at severity 5 (fog), 1.0000 on clean images")
    draw(regression, [tmp_path / "loss.png"])
    assert (tmp_path / "loss.png").stat().st_size > 2_000
