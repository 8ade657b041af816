"""`flatfed landscape`: see the loss around, between and through models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_data_option,
    data_dir_option,
    declared_option,
    option,
    space_option,
    trust_option,
    weights_option,
    workers_option,
)
from flatfed.cli.output.progress import StepProgress, interruptible
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.measured import LANDSCAPE

if TYPE_CHECKING:
    from flatfed.experiments.measuring.landscapes import Landscape, View
    from flatfed.flatness.drawable import Grid

Options = dict[str, Any]


@click.command(cls=GroupedCommand, short_help="See the loss around, between and through models.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@declared_option(
    "--kind",
    "surface: around each model, along filter-normalised random directions; line: between two, with the barrier; "
    "plane: through three; along: at growing distance; client: a client's model, on its own and all examples, in one "
    "run or several; clients: the plane through three clients' models; client-plane: a client's loss and everyone's on "
    "the plane through the global model, the client's and the one before the round.",
    LANDSCAPE["kind"],
    metavar="KIND",
)
@declared_option("--points", "Points per axis, an odd number.", LANDSCAPE["points"])
@declared_option("--extent", "How far: in filter norms, or distance.", LANDSCAPE["extent"])
@declared_option("--samples", "Take each loss over at most N examples.", LANDSCAPE["samples"])
@declared_option("--seed", "Seed of directions and examples.", LANDSCAPE["seed"])
@declared_option(
    "--client",
    "client, client-plane: whose model; client: or a picture of each.  [default: the first of the round]",
    LANDSCAPE["client"],
    group="model",
)
@declared_option(
    "--clients",
    "clients: whose three models.  [default: the first of the round]",
    LANDSCAPE["clients"],
    group="model",
)
@declared_option(
    "--round moment",
    "client: a model of the last round, before it was averaged, or of the one that would come next.",
    LANDSCAPE["round"],
    group="model",
)
@declared_option(
    "--directions", "along: average over N random directions.", LANDSCAPE["directions"], group="evaluation"
)
@weights_option
@space_option
@option(
    "--out",
    "Folder to write.  [default: RUN/flatness; of the full space RUN/flatness/full-space]",
    click.Path(path_type=Path),
)
@declared_option("--title", "Title of the figures.", LANDSCAPE["title"], group="figures")
@data_dir_option
@workers_option
@trust_option
@accept_data_option
def landscape(paths: tuple[Path, ...], out: Path | None, title: str, **options: Any) -> int:
    """Evaluate the loss of each RUN's model at many points and draw it: PNG, PDF, SVG, JSON, a page to turn a surface.

    Several runs share one set of axes and the same raw random directions. Points are kept in RUN/flatness as they come:
    an evaluation that was interrupted goes on, and a finer grid uses what is there.
    """
    from flatfed.experiments.measuring.landscapes import View
    from flatfed.experiments.measuring.saved_runs import home_of, runs_named
    from flatfed.runs.records.files import is_writable

    view = View.of({**options, "round": options["moment"]})
    runs = runs_named(paths)
    # A picture of several runs lies with the first of them.
    folder = out or home_of(runs[0]) / "flatness" / _place(view)
    if not is_writable(folder):
        raise ConfigError(f"{folder} cannot be written; name another folder with --out")
    scene = _evaluate(runs, view, options)
    files = _write(scene, view, folder, title)
    for line in _summary(scene):
        echo(line)
    echo(f"written: {', '.join(map(str, files))}", err=True)
    return 0


def _place(view: View) -> str:
    """Return where in a run's folder the pictures lie: those of the full space do not replace the others."""
    return "full-space" if view.space == "full" else ""


def _evaluate(runs: list[Path], view: View, options: Options) -> Landscape:
    from flatfed.experiments.measuring.landscapes import landscape as look

    where = {name: options[name] for name in ("workers", "data_dir", "trust", "accept_changed_data")}
    with (
        StepProgress("points", at_once=False) as progress,
        interruptible("interrupted; the points so far are kept, and the same command goes on"),
    ):
        return look(runs, view, **where, on_point=progress.show, say=progress.say)


def _write(scene: Landscape, view: View, folder: Path, title: str) -> list[Path]:
    """Write the numbers and the figures into a folder."""
    from flatfed.reports.figures.drawing.writing import PictureFiles
    from flatfed.reports.landscape import draw
    from flatfed.runs.records.files import replace_file

    numbers = folder / f"{view.kind}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(numbers, f"{json.dumps(scene.to_dict())}\n".encode())
        return [numbers, *draw(view.kind, scene.grids, scene.lines, PictureFiles(folder), title, scene.about)]
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None


def _summary(scene: Landscape) -> Iterator[str]:
    """Yield the numbers that say which is flatter."""
    for grid in scene.grids:
        yield f"{grid.name}: loss {_losses(grid)} ({grid.note})"
    for line in scene.lines:
        for name, barrier in line.barriers.items():
            yield f"{line.label}, {name}: barrier {barrier:.4f}"


def _losses(grid: Grid) -> str:
    """Return the losses at the models that are marked, or in the middle and at the edge."""
    if grid.at_marks:
        return ", ".join(f"{loss:.4f} at {name}" for name, loss in grid.at_marks.items())
    losses = grid.losses
    middle = losses[len(grid.ys) // 2, len(grid.xs) // 2]
    edge = _mean([losses[0], losses[-1], losses[:, 0], losses[:, -1]])
    return f"{middle:.4f} in the middle, {edge:.4f} on average at the edge"


def _mean(parts: list[Any]) -> float:
    import numpy as np

    values = np.concatenate([np.asarray(part).ravel() for part in parts])
    return float(values.mean())
