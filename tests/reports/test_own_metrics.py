"""Metrics of a user's own and further test sets: columns, captions and curves under their own names and units."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.task.metrics import Declared
from flatfed.data.storage.segmentation import Segmentation, SegmentationLoss
from flatfed.reports.curves import default_names, draw_curves
from flatfed.reports.results.result import Result
from flatfed.reports.results.results import collect
from flatfed.reports.tables.columns import columns
from flatfed.reports.tables.extras import Extras, Target
from flatfed.reports.tables.table import aggregates, caption, cells, headings, markdown, records, terminal_tables
from flatfed.runs.directory import RunDirectory
from records import rewrite_rows
from reports.disk import write_run


class Errors:
    """The mean absolute error, and the share of errors below one; returned as tensors."""

    shown: ClassVar[Declared] = {"mae": ff.Shown("MAE", "years", higher_is_better=False)}

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        errors = (outputs.squeeze(1) - targets).abs().double()
        return {"sum": errors.sum(), "near": (errors < 1).sum(), "n": torch.tensor(len(targets))}

    def summarise(self, totals: Any) -> dict[str, Tensor]:
        return {"mae": totals["sum"] / totals["n"], "near": totals["near"] / totals["n"]}


class Undeclared(Errors):
    shown: ClassVar[Declared] = {}


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.squeeze(1) - targets).square().mean()


def trained(path: Path, metrics: Any = None, seed: int = 0, **more: Any) -> Path:
    """Train a small regression with these metrics."""
    generator = torch.Generator().manual_seed(0)

    def data(count: int) -> tuple[Tensor, Tensor]:
        inputs = torch.randn(count, 3, generator=generator)
        return inputs, inputs.sum(1)

    model = nn.Linear(3, 1)
    nn.init.zeros_(model.weight)
    given: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
    task = ff.Task(model, [data(8), data(8)], test=data(20), loss=squared, **given, **more)
    ff.train(
        task,
        ff.make("fedavg"),
        rounds=4,
        sampling=2,
        lr=0.1,
        evaluate_every=1,
        evaluate_last=2,
        workers=0,
        seed=seed,
        out=path,
    )
    return path


UNSEEN = (torch.ones(4, 3), torch.zeros(4))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    folder = tmp_path_factory.mktemp("own")
    return collect([trained(folder / str(seed), Errors(), seed, tests={"unseen": UNSEEN}) for seed in (0, 1)])


def test_the_first_metric_takes_the_columns_of_accuracy(own: list[Result]) -> None:
    assert headings(own)[:4] == ["method", "final", "last-2 mean", "best"]
    assert caption(own).startswith("test MAE in years, mean ± sample standard deviation over seeds 0, 1;")
    mean = sum(run.rows[-1]["test_mae"] for run in own[0].runs) / 2
    assert cells(own[0])[1].split(" ± ")[0] == f"{mean:.4g}"
    best = sum(min(row["test_mae"] for row in run.rows) for run in own[0].runs) / 2
    assert cells(own[0])[3].split(" ± ")[0] == f"{best:.4g}"


def test_others_and_further_test_sets_have_columns_of_their_own(own: list[Result]) -> None:
    heads = [head.replace("\n", " ") for head in headings(own)]
    assert heads[4:8] == [
        "near final",
        "near last-2 mean",
        "unseen MAE (years) final",
        "unseen MAE (years) last-2 mean",
    ]
    line = dict(zip(heads, cells(own[0]), strict=True))
    values = [sum(row["unseen_mae"] for row in run.rows[-2:]) / 2 for run in own[0].runs]
    assert line["unseen MAE (years) last-2 mean"].split(" ± ")[0] == f"{sum(values) / 2:.4g}"
    assert heads[4:8] == [cell.strip() for cell in markdown(own).splitlines()[0].strip("|").split("|")][4:8]


@pytest.mark.parametrize("width", [80, 160])
def test_no_number_is_cut(width: int, own: list[Result]) -> None:
    text = io.StringIO()
    for table in terminal_tables(own, width):
        Console(file=text, width=width).print(table)
    assert all(len(line.rstrip()) <= width for line in text.getvalue().splitlines()) and "…" not in text.getvalue()
    assert [cell for cell in cells(own[0]) if cell not in text.getvalue()] == []


def test_for_machines(own: list[Result]) -> None:
    for record in records(own):
        assert {"test_mae_final", "test_near_last_mean", "unseen_mae_last_mean", "unseen_loss_best"} <= record.keys()
    [method] = aggregates(own)
    assert (method["metric"], method["unit"], method["higher_is_better"]) == ("test_mae", "years", False)
    assert method["unseen_mae_last_mean_std"] is not None and method["accuracy_final"] is None


def test_curves_have_its_name_and_unit(own: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plt.rcParams, "svg.fonttype", "none")
    assert default_names(own) == ["test_mae", "train_loss"]
    draw_curves(own, [tmp_path / "f.svg"])
    assert "test MAE (years)" in re.findall(r">([^<>\n]+)</text>", (tmp_path / "f.svg").read_text())


def test_an_undeclared_metric_is_a_plain_number_without_a_best(tmp_path: Path) -> None:
    actual = collect([trained(tmp_path / "a", Undeclared())])
    assert headings(actual)[:4] == ["method", "final", "last-2 mean", "near\nfinal"]
    assert caption(actual).startswith("test mae, seed 0;")
    with pytest.raises(ff.ConfigError, match="whether a higher test_mae is better is not known"):
        markdown(actual, Extras(targets=(Target.parse("0.5"),)))
    with pytest.raises(ff.ConfigError, match="whether a higher test_mae is better is not known"):
        columns(actual, Extras(baseline="fedavg"))


def test_a_regression_shows_its_loss_as_such(tmp_path: Path) -> None:
    actual = collect([trained(tmp_path / "a")])
    assert caption(actual).startswith("test loss, seed 0;")
    losses = [row["test_loss"] for row in actual[0].runs[0].rows]
    assert cells(actual[0])[1:4] == [f"{losses[-1]:.4g}", f"{sum(losses[-2:]) / 2:.4g}", f"{min(losses):.4g}"]


def test_beside_another_metric_values_carry_their_names(tmp_path: Path) -> None:
    actual = collect([write_run(tmp_path / "a"), trained(tmp_path / "b")])
    made = columns(actual)
    assert cells(actual[0], made)[1] == "50.00"
    assert re.fullmatch(r"loss [\d.e-]+", cells(actual[1], made)[1])


def test_segmentation_is_shown_as_miou(tmp_path: Path) -> None:
    images = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    masks = (images[:, 0] > 0).long()
    task = ff.Task(
        nn.Conv2d(2, 2, 1),
        [(images, masks)],
        test=(images, masks),
        loss=SegmentationLoss(),
        metrics=Segmentation(2),
    )
    run = ff.train(
        task, ff.make("fedavg"), rounds=2, sampling=1, lr=0.1, evaluate_every=1, workers=0, out=tmp_path / "a"
    )
    actual = collect([tmp_path / "a"])
    assert caption(actual).startswith("test mIoU in %, seed 0;")
    assert cells(actual[0])[1] == f"{100 * run.history[-1]['test_miou']:.2f}"
    assert [head.replace("\n", " ") for head in headings(actual)[4:6]] == [
        "pixel accuracy (%) final",
        "pixel accuracy (%) last-1 mean",
    ]
    assert "accuracy" not in caption(actual) and default_names(actual)[0] == "test_miou"
    assert "mIoU" in repr(run)


def test_seconds_of_clients_are_a_cost_where_they_are_known(tmp_path: Path) -> None:
    plain, timed = write_run(tmp_path / "a"), write_run(tmp_path / "b", "fedsam")
    rewrite_rows(timed, [row | {"client_seconds": 0.25} for row in RunDirectory.open(timed).rows])
    actual = collect([plain, timed])
    place = headings(actual).index("s/client")
    assert [cells(result, columns(actual))[place] for result in actual] == ["–", "0.25"]
    assert "s/client" in caption(actual) and "s/client" not in headings(collect([plain]))
