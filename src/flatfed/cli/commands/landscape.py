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
    option,
    trust_option,
    weights_option,
    workers_option,
)
from flatfed.cli.options.values import Number, Whole, WholeNumbers
from flatfed.cli.output.progress import StepProgress, interruptible
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.kinds import at_most

if TYPE_CHECKING:
    from flatfed.experiments.measuring.landscapes import Landscape, View
    from flatfed.flatness.drawable import Grid

KINDS = ("surface", "line", "plane", "along", "client", "clients", "client-plane")

Options = dict[str, Any]


@click.command(cls=GroupedCommand, short_help="See the loss around, between and through models.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@option(
    "--kind",
    "surface: around each model, along filter-normalised random directions; line: between two, with the barrier; "
    "plane: through three; along: at growing distance; client: a client's model, on its own and all examples, in one "
    "run or several; clients: the plane through three clients' models; client-plane: a client's loss and everyone's on "
    "the plane through the global model, the client's and the one before the round.",
    click.Choice(KINDS),
    "surface",
    metavar="KIND",
)
@option("--points", "Points per axis, an odd number.", Whole(3), 21)
@option("--extent", "How far: in filter norms, or distance.", Number(), 1.0)
@option("--samples", "Take each loss over at most N examples.", Whole(1, "all"), 5_000)
@option("--seed", "Seed of directions and examples.", Whole(0), 0)
@option(
    "--client",
    "client, client-plane: whose model; client: or a picture of each.  [default: the first of the round]",
    Whole(0, "all"),
    group="model",
)
@option("--clients", "clients: whose three models.  [default: the first of the round]", WholeNumbers(), group="model")
@option(
    "--round moment",
    "client: a model of the last round, before it was averaged, or of the one that would come next.",
    click.Choice(["last", "next"]),
    "last",
    group="model",
)
@option("--directions", "along: average over N random directions.", Whole(1), 10, group="evaluation")
@weights_option
@option("--out", "Folder to write.  [default: RUN/flatness]", click.Path(path_type=Path))
@option("--title", "Title of the figures.", str, "", group="figures")
@data_dir_option
@workers_option
@trust_option
@accept_data_option
def landscape(paths: tuple[Path, ...], out: Path | None, title: str, **options: Any) -> int:
    """Evaluate the loss of each RUN's model at many points and draw it: PNG, SVG, JSON, and a page to turn a surface.

    Several runs share one set of axes and the same raw random directions. Points are kept in RUN/flatness as they come:
    an evaluation that was interrupted goes on, and a finer grid uses what is there.
    """
    from flatfed.experiments.measuring.saved_runs import home_of, runs_named
    from flatfed.runs.records.files import is_writable

    _refuse_contradictions(options)
    view = _view(options)
    runs = runs_named(paths)
    # A picture of several runs lies with the first of them.
    folder = out or home_of(runs[0]) / "flatness"
    if not is_writable(folder):
        raise ConfigError(f"{folder} cannot be written; name another folder with --out")
    scene = _evaluate(runs, view, options)
    files = _write(scene, view, folder, title)
    for line in _summary(scene):
        echo(line)
    echo(f"written: {', '.join(map(str, files))}", err=True)
    return 0


def _refuse_contradictions(options: Options) -> None:
    """Refuse clients for a kind of picture that shows none."""
    kind = options["kind"]
    _refuse_client(kind, options["client"])
    if options["clients"] is not None and kind != "clients":
        raise ConfigError("--clients says whose models --kind clients shows; give that too")


def _refuse_client(kind: str, client: int | str | None) -> None:
    shows_client = kind in ("client", "client-plane")
    if client is not None and not shows_client:
        raise ConfigError("--client says whose model --kind client shows (or client-plane); give one of the two")


def _view(options: Options) -> View:
    """Return what is looked at."""
    from flatfed.experiments.measuring.landscapes import View

    return View(
        options["kind"],
        options["points"],
        options["extent"],
        at_most(options["samples"]),
        options["seed"],
        options["weights"],
        options["client"],
        options["directions"],
        options["moment"],
        options["clients"] and tuple(options["clients"]),
    )


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
    from flatfed.reports.landscape import draw
    from flatfed.runs.records.files import replace_file

    numbers = folder / f"{view.kind}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(numbers, f"{json.dumps(scene.to_dict())}\n".encode())
        return [numbers, *draw(view.kind, scene.grids, scene.lines, folder, title)]
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
