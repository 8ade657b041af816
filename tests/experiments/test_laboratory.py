"""A model opened for measuring: from wherever it comes, with the statistics and parts that its evaluation uses."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

import flatfed as ff
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.data.storage.segmentation import Segmentation, SegmentationLoss
from flatfed.experiments.measuring.laboratory import Laboratory
from flatfed.flatness.measurement import Measurement, MeasurementResult
from flatfed.flatness.measurements.rises import LossOf
from flatfed.models.networks.textcnn import textcnn
from flatness.federations import (
    CLASSES,
    INPUTS,
    ROUNDS,
    checkpoint,
    client_data,
    cohort,
    everyone,
    gradient,
    loss,
    mlp,
    over,
    task,
    trained,
)
from flatness.problems import directions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run"


def number(lab: Laboratory, measurement: str, name: str | None = None) -> float:
    (actual,) = lab.measure(measurement).values()
    return actual.numbers[name or measurement.partition("(")[0]]


# --- where a model comes from -------------------------------------------------------------------------------


def test_a_run_its_directory_its_checkpoint_and_its_model_have_one_surface(path: Path) -> None:
    run = trained(out=path)
    sources: list[Any] = [run, path, str(path), checkpoint(path, ROUNDS), f"{checkpoint(path, ROUNDS)}/"]
    labs = [ff.laboratory(source) for source in sources] + [ff.laboratory(run.model(), client_data())]
    known, (v,) = over(), directions(len(run.vector))
    for lab in labs:
        assert torch.equal(lab.surface.w, run.vector)
        assert number(lab, "loss") == pytest.approx(loss(run.vector, *everyone()), rel=1e-12)
        torch.testing.assert_close(lab.surface.product(v), known.hessian(run.vector) @ v)
        assert number(lab, "lambda_max(tolerance=1e-6)") == pytest.approx(float(known.eigenvalues(run.vector)[0]))
        assert number(lab, "parameter_norm") == pytest.approx(float(run.vector.norm()))
    assert [lab.label for lab in labs] == ["fedavg"] * 5 + ["model"]


def test_an_earlier_checkpoint_is_the_model_of_its_round(path: Path) -> None:
    whole = trained(out=path)
    earlier = trained(rounds=ROUNDS - 1, sampling=ff.Replay([cohort(whole, r) for r in range(ROUNDS - 1)]))
    lab = ff.laboratory(checkpoint(path, ROUNDS - 1))
    assert torch.equal(lab.surface.w, earlier.vector)
    assert lab.key["round"] == ROUNDS - 1
    assert number(lab, "loss") == pytest.approx(loss(earlier.vector, *everyone()))


def test_a_task_is_its_initial_model() -> None:
    w = torch.cat([p.detach().flatten() for p in mlp().parameters()])
    assert number(ff.laboratory(task()), "loss") == pytest.approx(loss(w, *everyone()))


def test_a_module_with_a_loss_of_its_own_in_single_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    model, x, y = nn.Linear(3, 1), torch.randn(6, 3, generator=generator), torch.randn(6, 1, generator=generator)
    lab = ff.laboratory(model, (x, y), loss=nn.functional.mse_loss)
    assert lab.surface.w.dtype == torch.float32
    assert number(lab, "loss") == pytest.approx(float(nn.functional.mse_loss(model(x), y).detach()), rel=1e-5)
    design = torch.cat([x, torch.ones(6, 1)], dim=1).double()
    truth = float(torch.linalg.eigvalsh(2 * design.T @ design / 6)[-1])
    assert number(lab, "lambda_max(tolerance=1e-4)") == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("of", ["train", "test", "client 2"])
def test_the_examples_are_chosen_by_name(of: str, path: Path) -> None:
    run = trained(out=path)
    pair = {"train": everyone(), "test": client_data()[3], "client 2": client_data()[2]}[of]
    lab = ff.laboratory(path, data=of)
    assert number(lab, "loss") == pytest.approx(loss(run.vector, *pair))
    torch.testing.assert_close(lab.surface.gradient(), gradient(run.vector, *pair))


def test_further_test_sets_have_their_names() -> None:
    run = trained(problem=task(tests={"unseen": client_data()[1]}))
    assert number(ff.laboratory(run, data="unseen"), "loss") == pytest.approx(run.metrics()["unseen_loss"])


def test_a_run_may_be_given_its_task(path: Path) -> None:
    problem = task(loss=lambda outputs, targets: cross_entropy(outputs, targets))
    run = trained(out=path, problem=problem)
    lab = ff.laboratory(path, task=problem)
    assert number(lab, "loss") == pytest.approx(loss(run.vector, *everyone()))


def test_steps_are_reported() -> None:
    heard: list[tuple[str, int, int | None]] = []
    lab = ff.laboratory(trained(), on_step=lambda *step: heard.append(step))
    lab.measure("lambda_max", "discrepancy")
    names = [name for name, _, _ in heard]
    assert names[0] == "lambda_max" and "lambda_max: product 1 of ≤ 100" in names
    assert [step for step in heard if step[0].startswith("discrepancy: client")] == [
        (f"discrepancy: client {k}", k, 6) for k in range(6)
    ]


def test_measuring_changes_nothing_of_a_live_run(path: Path) -> None:
    run, other = trained("scaffold", path), trained("scaffold")
    rng = torch.get_rng_state()
    with ff.laboratory(run) as lab:
        lab.measure("lambda_max,local_global,discrepancy,tracking_error,incompatibility,lpf(samples=2)")
    assert torch.equal(torch.get_rng_state(), rng)
    assert torch.equal(run.vector, other.vector)
    assert run.status == "finished" and run.metrics() == other.metrics()
    for k in range(6):
        assert torch.equal(run.client_state(k)["c"], other.client_state(k)["c"])
    more = ff.resume(path, rounds=ROUNDS + 1, workers=0)
    assert torch.equal(more.vector, trained("scaffold", rounds=ROUNDS + 1).vector)


def test_two_laboratories_of_one_live_run_do_not_disturb_each_other() -> None:
    run = trained("scaffold")
    expected = ff.laboratory(run).measure("client_divergence")
    with ff.laboratory(run, workers=2) as first:
        ff.laboratory(run, data="test", workers=2).close()
        assert first.measure("client_divergence") == expected


# --- averages, statistics, local layers ------------------------------------------------------------------------


def test_the_averaged_and_the_global_model(path: Path) -> None:
    run = trained(out=path, average=ff.SWA(start=0.0, cycle=1))
    assert not torch.equal(run.vector, run.eval_vector)
    for source in (run, path, checkpoint(path, ROUNDS)):
        for kind, w in (("evaluated", run.eval_vector), ("global", run.vector)):
            lab = ff.laboratory(source, weights=kind)
            assert torch.equal(lab.surface.w, w)
            assert number(lab, "loss") == pytest.approx(loss(w, *everyone()))
            assert number(lab, "parameter_norm") == pytest.approx(float(w.norm()))
            mean = float(torch.tensor([loss(w, *pair) for pair in client_data()]).mean())
            assert number(lab, "client_accuracy", "client_loss") == pytest.approx(mean)
    assert number(ff.laboratory(run, data="test"), "loss") == pytest.approx(run.metrics()["test_loss"])


def test_clients_of_an_averaged_run_train_from_the_global_model(path: Path) -> None:
    averaged, plain = trained(average=ff.SWA(start=0.0, cycle=1)), trained()
    for name in ("client_divergence", "discrepancy", "incompatibility"):
        actual, expected = (ff.laboratory(run).measure(name)[name] for run in (averaged, plain))
        assert actual == expected


def normed() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Linear(INPUTS, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, CLASSES)
        ).double()


POLICIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "running": ({}, {}),
    "batch-stats": ({}, {"eval_stats": "batch-stats"}),
    "recalibrate": ({}, {"eval_stats": "recalibrate"}),
    "FedBN": ({"local": "bn"}, {}),
    "FedBN, recalibrate": ({"local": "bn"}, {"eval_stats": "recalibrate"}),
    "SiLoBN": ({"local": "bn-stats"}, {}),
    "SiLoBN, recalibrate": ({"local": "bn-stats"}, {"eval_stats": "recalibrate"}),
    "average": ({}, {"average": ff.SWA(start=0.0, cycle=1)}),
    "average, recalibrate": ({}, {"average": ff.SWA(start=0.0, cycle=1), "eval_stats": "recalibrate"}),
}


def normed_run(policy: str, out: Path | None = None, **changes: Any) -> ff.Run:
    of_task, of_run = POLICIES[policy]
    return trained(out=out, problem=task(model=normed(), **{**of_task, **changes}), **of_run)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_loss_on_the_test_set_is_that_of_the_runs_evaluation(policy: str, path: Path) -> None:
    run = normed_run(policy, path, test=everyone())
    for source in (run, path):
        actual = ff.laboratory(source, data="test").measure("loss")["loss"].numbers
        assert actual["loss"] == pytest.approx(run.metrics()["test_loss"], rel=1e-12)
        assert actual["accuracy"] == pytest.approx(run.metrics()["test_accuracy"])


@pytest.mark.parametrize("policy", POLICIES)
def test_gradients_and_products_are_slopes_under_every_policy(policy: str) -> None:
    """By differences: of the loss for the gradient, of the gradient for the product; over the shared parameters."""
    surface = ff.laboratory(normed_run(policy)).surface
    (v,) = directions(surface.size)
    up, down = surface.w + 1e-5 * v, surface.w - 1e-5 * v
    slope = (surface.loss(up) - surface.loss(down)) / 2e-5
    assert slope == pytest.approx(float(surface.gradient() @ v), rel=1e-6, abs=1e-9)
    bend = (surface.gradient(up) - surface.gradient(down)) / 2e-5
    torch.testing.assert_close(surface.product(v), bend, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in ("SiLoBN, recalibrate",)])
def test_everything_can_be_measured_under_every_policy(policy: str) -> None:
    lab = ff.laboratory(normed_run(policy))
    names = "lambda_max,trace(2),lpf(samples=2),sharpness,local_global,client_lambda,client_divergence,discrepancy"
    actual = lab.measure(names, "incompatibility,friendly_rate,feature_norm,client_accuracy,parameter_norm,loss")
    numbers = {name: value for one in actual.values() for name, value in one.numbers.items()}
    undefined = {name for name, value in numbers.items() if not math.isfinite(value)}
    assert undefined <= {"batch_deviation", "friendly_rate", "friendly_change"}  # the clients hold a batch or less


@pytest.mark.parametrize("policy", ["running", "batch-stats", "recalibrate"])
def test_all_measurements_use_the_same_statistics(policy: str) -> None:
    """The rise of the global model is one number, whoever asks for it."""
    lab = ff.laboratory(normed_run(policy))
    alone = number(lab, "sharpness(rho=0.05)")
    assert number(lab, "discrepancy(rho=0.05)", "sharpness_global") == pytest.approx(alone, rel=1e-9)


def test_with_batch_statistics_every_figure_has_the_same_batches() -> None:
    """66 examples in batches of 4 do not come out even; the loss is one number, however it is asked for."""
    generator = torch.Generator().manual_seed(0)
    test = torch.randn(66, INPUTS, generator=generator).double(), torch.arange(66) % CLASSES
    run = normed_run("batch-stats", test=test, test_batch=4)
    surface = ff.laboratory(run, data="test").surface
    asked = [surface.loss(), surface.metrics_at([()], [])[0]["loss"], float(surface.noisy_losses(0.0, 1, 0))]
    assert asked == pytest.approx([run.metrics()["test_loss"]] * 3, rel=1e-12)


@pytest.mark.parametrize("measurement", ["loss", "lambda_max", "sharpness", "feature_norm"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_of_one_example_has_no_statistics(measurement: str, workers: int) -> None:
    run = normed_run("batch-stats", test=None, test_batch=1)
    with (
        ff.laboratory(run, workers=workers) as lab,
        pytest.raises(ConfigError, match="a batch of one example has no statistics of its own"),
    ):
        lab.measure(measurement)


def test_clients_are_measured_with_their_own_local_layers() -> None:
    """With FedBN each client keeps BatchNorm layers of its own; a run's figures of its clients use them."""
    run = trained(problem=task(model=normed(), local="bn"), sampling=6)
    figures = {one["client"]: one["loss"] for one in run.client_metrics()}
    actual = ff.laboratory(run).measure("client_accuracy")["client_accuracy"]
    assert actual.clients["client_loss"] == pytest.approx(figures)


# --- other tasks ----------------------------------------------------------------------------------------------


def finite(results: dict[str, MeasurementResult]) -> bool:
    return all(torch.isfinite(torch.tensor(list(one.numbers.values()))).all() for one in results.values())


def slopes(lab: Laboratory, v: Tensor, step: float, rel: float) -> None:
    """Compare gradient and product along a direction with differences."""
    surface = lab.surface
    slope = (surface.loss(surface.w + step * v) - surface.loss(surface.w - step * v)) / (2 * step)
    assert slope == pytest.approx(float(surface.gradient() @ v), rel=rel, abs=rel)
    bend = (surface.gradient(surface.w + step * v) - surface.gradient(surface.w - step * v)) / (2 * step)
    assert float(v @ surface.product(v)) == pytest.approx(float(v @ bend), rel=rel, abs=rel)


def test_texts(path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = textcnn(classes=3, vocabulary=12, length=7)
    data = [(torch.randint(0, 12, (n, 7), generator=generator), torch.arange(n) % 3) for n in (4, 6)]
    problem = ff.Task(model, data, test=data[1], test_batch=3)
    run = trained(problem=problem, sampling=2, rounds=2, out=path, dtype=torch.float64)
    lab = ff.laboratory(path)
    with torch.no_grad():
        x, y = torch.cat([x for x, _ in data]), torch.cat([y for _, y in data])
        truth = float(cross_entropy(run.model()(x), y))
    assert number(lab, "loss") == pytest.approx(truth)
    (v,) = directions(lab.surface.size)
    lab.surface.layout.parameters[0].view(v)[0] = 0  # the embedding of padding is no parameter: it stays zero
    slopes(lab, v, 1e-6, 1e-4)
    assert finite(
        lab.measure("lambda_max,lpf(samples=2),discrepancy,feature_norm,client_accuracy,local_global(most=5)")
    )


class Pixels(nn.Module):
    """Scores for every pixel: with auxiliary ones while it is trained, the main ones alone otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.norm = nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4)
        self.main, self.aux = nn.Conv2d(4, 3, 1), nn.Conv2d(4, 3, 1)

    def forward(self, images: Tensor) -> Any:
        x = torch.tanh(self.norm(self.start(images)))
        main, aux = (interpolate(head(x), images.shape[2:], mode="bilinear") for head in (self.main, self.aux))
        return (main, aux) if self.training else main


@pytest.mark.parametrize("eval_stats", ["running", "batch-stats", "recalibrate"])
def test_masks(eval_stats: Any, path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Pixels().double()
    data = []
    for n in (3, 5):
        masks = torch.randint(0, 3, (n, 6, 8), generator=generator)
        masks[torch.rand(n, 6, 8, generator=generator) < 0.2] = 255
        data.append((torch.randn(n, 3, 6, 8, generator=generator).double(), masks))
    problem = ff.Task(model, data, test=data[1], loss=SegmentationLoss(keep=0.5), metrics=Segmentation(3), test_batch=2)
    run = trained(problem=problem, sampling=2, rounds=2, out=path, eval_stats=eval_stats)
    lab, test = ff.laboratory(path), ff.laboratory(path, data="test")
    actual = test.measure("loss")["loss"].numbers
    assert actual["loss"] == pytest.approx(run.metrics()["test_loss"], rel=1e-12)
    assert actual["miou"] == pytest.approx(run.metrics()["test_miou"])
    unused = sum(p.numel() for p in model.aux.parameters())
    (v,) = directions(lab.surface.size)
    assert int((lab.surface.gradient() == 0).sum()) >= unused  # the auxiliary head has no part in inference
    assert int((lab.surface.product(v) == 0).sum()) >= unused
    slopes(lab, v, 1e-5, 1e-4)
    names = "lambda_max,lpf(samples=2),sharpness,discrepancy,feature_norm,client_accuracy,client_lambda"
    assert finite(lab.measure(names))


# --- results are kept ------------------------------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The measurements that were really taken."""
    log: list[str] = []
    original = LossOf.measure

    def counting(self: LossOf, subject: Any) -> MeasurementResult:
        log.append(subject.surface.note)
        return original(self, subject)

    monkeypatch.setattr(LossOf, "measure", counting)
    yield log


def test_a_second_look_does_not_measure_again(path: Path, taken: list[str]) -> None:
    trained(out=path)
    results = []
    for _ in range(3):
        with ff.laboratory(path) as lab:
            results += [lab.measure("loss"), lab.measure("loss")]
    assert len(taken) == 1
    assert all(one == results[0] for one in results)
    with ff.laboratory(checkpoint(path, ROUNDS)) as lab:
        assert lab.measure("loss") == results[0]
    assert len(taken) == 1


@pytest.mark.parametrize(
    "changes",
    [{"data": "test"}, {"samples": 7}, {"samples": 7, "seed": 1}, {"weights": "global"}, {"data": "client 1"}],
    ids=str,
)
def test_another_sample_or_model_is_measured(changes: dict[str, Any], path: Path, taken: list[str]) -> None:
    trained(out=path, average=ff.SWA(start=0.0, cycle=1))
    for count, given in ((1, {}), (2, changes), (2, changes), (2, {})):
        with ff.laboratory(path, **given) as lab:
            lab.measure("loss")
        assert len(taken) == count


def test_another_round_is_measured(path: Path, taken: list[str]) -> None:
    trained(out=path)
    results = [ff.laboratory(checkpoint(path, round)).measure("loss") for round in (ROUNDS, ROUNDS - 1, ROUNDS)]
    assert len(taken) == 2 and results[0] == results[2] != results[1]
    ff.resume(path, rounds=ROUNDS + 1, workers=0)
    ff.laboratory(path).measure("loss")
    assert len(taken) == 3


def test_other_parameters_are_measured(path: Path) -> None:
    trained(out=path)
    with ff.laboratory(path) as lab:
        actual = [lab.measure(f"lpf(samples=5, seed={seed})")["lpf"] for seed in (0, 1, 0)]
    assert actual[0] == actual[2] != actual[1]


def test_readings_of_another_run_are_not_taken_for_this_ones(tmp_path: Path, taken: list[str]) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        trained(out=tmp_path / name, seed=seed)
    first = ff.laboratory(tmp_path / "a").measure("loss")
    shutil.copytree(tmp_path / "a" / "flatness", tmp_path / "b" / "flatness")
    assert ff.laboratory(tmp_path / "b").measure("loss") != first
    assert len(taken) == 2


def test_what_is_not_in_a_directory_is_measured_every_time(taken: list[str]) -> None:
    lab = ff.laboratory(trained())
    lab.measure("loss")
    lab.measure("loss")
    assert len(taken) == 2


def plain(results: dict[str, MeasurementResult]) -> dict[str, Any]:
    """Return results as JSON has them: a number that means nothing is None, and equal to itself."""
    return {name: result.to_dict() for name, result in results.items()}


def test_a_kept_reading_is_the_result(path: Path) -> None:
    """Every measurement comes back as it was: numbers, clients by their numbers, series, remarks."""
    run = trained("fedvssam", path)
    ids = sorted(id for id, cls in Measurement.registry.items() if cls.__module__.startswith("flatfed."))
    names = [id for id in ids if id not in ("perturbation_gap", "spectrum", "lpf")]
    names += ["spectrum(k=3, samples=2, steps=5)", "lpf(samples=3)"]
    fresh = ff.laboratory(run).measure(*names)
    first, second = (ff.laboratory(path).measure(*names) for _ in range(2))
    assert plain(fresh) == plain(first) == plain(second)
    assert len(fresh) == len(names)


def test_no_reading_is_lost_where_one_measurement_is_taken_in_two_ways() -> None:
    try:
        actual = ff.laboratory(trained()).measure("lambda_max", "lambda_max(mode=power)")
    except ConfigError:
        return  # reported, not lost
    assert len(actual) == 2


def test_a_torn_file_is_reported(path: Path) -> None:
    trained(out=path)
    ff.laboratory(path).measure("loss")
    kept = path / "flatness" / "results.json"
    kept.write_bytes(kept.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=r"results\.json cannot be read"):
        ff.laboratory(path).measure("loss")


# --- errors for people --------------------------------------------------------------------------------------------


def test_a_run_without_checkpoints(path: Path) -> None:
    trained(out=path)
    shutil.rmtree(path / "checkpoints")
    with pytest.raises(CheckpointError, match=r"holds no usable checkpoint \(there is none\)"):
        ff.laboratory(path)


def test_places_that_are_no_run(path: Path) -> None:
    trained(out=path)
    with pytest.raises(CheckpointError, match=r"round-000099 is missing; there are checkpoints of the rounds 3, 4"):
        ff.laboratory(checkpoint(path, 99))
    with pytest.raises(ConfigError, match="is not a run directory: it does not exist"):
        ff.laboratory(path / "nothing")
    with pytest.raises(ConfigError, match=r"is not a run directory: it has no config\.json"):
        ff.laboratory(path / "checkpoints")


def test_a_run_that_diverged_has_no_flatness() -> None:
    run = trained(rounds=2)
    run._federation.server.w.fill_(float("nan"))
    with pytest.raises(ConfigError, match="weights are not finite numbers: it has diverged"):
        ff.laboratory(run)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "tset"}, "unknown set of examples 'tset'; did you mean 'test'"),
        ({"data": "client"}, "unknown set of examples 'client'"),
        ({"data": "client x"}, "unknown set of examples 'client x'"),
        ({"data": "client 6"}, "there is no client 6; they are 0 to 5"),
        ({"data": "client -1"}, "unknown set of examples"),
        ({"samples": 0}, "a whole number of at least 1, not 0"),
        ({"samples": -3}, "a whole number of at least 1, not -3"),
        ({"weights": "last"}, "weights must be 'evaluated' or 'global', not 'last'"),
        ({"workers": -1}, "workers must be 'auto' or a whole number of at least 0, not -1"),
        ({"examples": (torch.ones(1), torch.ones(1))}, "a run has examples of its own; choose among them with data="),
    ],
)
def test_what_a_run_cannot_be_opened_with(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        ff.laboratory(trained(rounds=1), **changes)
    assert words in str(error.value)


@pytest.mark.parametrize("source", [3, None, [], {"a": 1}])
def test_what_is_no_source(source: Any) -> None:
    with pytest.raises(ConfigError, match=r"run|model"):
        ff.laboratory(source)


@pytest.mark.parametrize("samples", [1.5, "many", True])
def test_a_number_of_samples_is_a_whole_number(samples: Any) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        ff.laboratory(mlp(), client_data(), samples=samples)


def test_a_model_alone() -> None:
    with pytest.raises(ConfigError, match=r"give them: laboratory\(model, \(inputs, targets\)\)"):
        ff.laboratory(mlp())
    lab = ff.laboratory(mlp(), client_data())
    names = ["local_global", "client_lambda", "client_divergence", "discrepancy", "feature_norm", "client_accuracy"]
    for name in [*names, "incompatibility", "friendly_rate", "tracking_error", "perturbation_gap"]:
        with pytest.raises(ConfigError, match=f"{name} asks the clients, so it needs a run, not a model alone"):
            lab.measure(name)


def test_a_task_has_examples_of_its_own() -> None:
    with pytest.raises(ConfigError, match="examples of its own"):
        ff.laboratory(task(), client_data()[0])


def test_unknown_names_are_reported_before_anything_is_measured(taken: list[str]) -> None:
    lab = ff.laboratory(mlp(), client_data())
    for wrong, words in (("lamda_max", "unknown measurement"), ("lpf(smples=3)", "unknown parameter 'smples'")):
        with pytest.raises(ConfigError, match=words):
            lab.measure("loss", wrong)
    assert taken == []


def test_as_many_workers_give_the_same_bits(path: Path) -> None:
    run = normed_run("recalibrate", path)
    names = "loss,lambda_max,trace(2),lpf(samples=3),sharpness(steps=2),local_global,discrepancy,friendly_rate"
    alone = ff.laboratory(run).measure(names)
    with ff.laboratory(path, workers=2) as lab:
        assert plain(lab.measure(names)) == plain(alone)
