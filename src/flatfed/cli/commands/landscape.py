"""`flatfed landscape`: see the loss around, between and through models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from flatfed.cli.options.training import weights_option
from flatfed.cli.options.values import Number, Seeds, Whole
from flatfed.cli.output.progress import Steps
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.measuring.laboratory import Weights
    from flatfed.experiments.measuring.landscapes import Kind, Landscape, View

KINDS = ("surface", "line", "plane", "along", "client", "clients", "client-plane")


@click.command(short_help="See the loss around, between and through models.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="surface",
    show_default=True,
    help="surface: around each model, along filter-normalised random directions; line: between two, with the barrier; "
    "plane: through three; along: at growing distance; client: a client's model, on its own and all examples, in one "
    "run or several; clients: the plane through three clients' models; client-plane: a client's loss and everyone's on "
    "the plane through the global model, the client's and the one before the round.",
)
@click.option("--points", type=Whole(3), default=21, show_default=True, help="Points an axis, odd.")
@click.option("--extent", type=Number(), default=1.0, show_default=True, help="How far: in filter norms, or distance.")
@click.option("--samples", type=Whole(1, "all"), default=5_000, show_default=True, help="Examples that a loss is over.")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Key of directions and examples.")
@click.option(
    "--client",
    type=Whole(0, "all"),
    default=None,
    help="client, client-plane: whose model; client: or a picture of each.  [default: the first of the round]",
)
@click.option(
    "--clients",
    type=Seeds(),
    default=None,
    help="clients: whose three models.  [default: the first of the round]",
)
@click.option(
    "--round",
    "moment",
    type=click.Choice(["last", "next"]),
    default="last",
    show_default=True,
    help="client: a model of the last round, before it was averaged, or of the one that would come next.",
)
@click.option("--directions", type=Whole(1), default=10, show_default=True, help="along: random directions averaged.")
@weights_option
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Folder to write.  [default: RUN/flatness]")
@click.option("--title", default="", help="Title of the figures.")
@click.option("--data-dir", default=None, help="Where the data sets lie, if no longer where they were.")
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as the run]")
def landscape(
    paths: tuple[Path, ...],
    kind: Kind,
    points: int,
    extent: float,
    samples: int | str,
    seed: int,
    client: int | Literal["all"] | None,
    clients: list[int] | None,
    moment: Literal["last", "next"],
    directions: int,
    weights: Weights,
    out: Path | None,
    title: str,
    data_dir: str | None,
    workers: int | str | None,
) -> int:
    """Evaluate the loss of each RUN's model at many points and draw it: PNG, SVG, JSON, and a page to turn a surface.

    Several runs share one set of axes and the same raw random directions. Points are kept in RUN/flatness as they come:
    an evaluation that was interrupted goes on, and a finer grid uses what is there.
    """
    from flatfed.experiments.measuring.flatness import home_of, runs_named
    from flatfed.experiments.measuring.landscapes import View
    from flatfed.experiments.measuring.landscapes import landscape as look

    if client is not None and kind not in ("client", "client-plane"):
        raise ConfigError("--client says whose model --kind client shows (or client-plane); give one of the two")
    if clients is not None and kind != "clients":
        raise ConfigError("--clients says whose models --kind clients shows; give that too")
    most = None if isinstance(samples, str) else samples
    three = None if clients is None else tuple(clients)
    view = View(kind, points, extent, most, seed, weights, client, directions, moment, three)
    runs = runs_named(paths)
    with Steps("points", at_once=False) as progress:
        try:
            found = look(runs, view, workers=workers, data_dir=data_dir, on_point=progress.show, say=progress.say)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the points so far are kept, and the same command goes on") from None
    folder = out or home_of(runs[0]) / "flatness"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = _write(found, view, folder, title)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None
    _tell(found)
    click.echo(f"written: {', '.join(str(file) for file in files)}", err=True)
    return 0


def _write(found: Landscape, view: View, folder: Path, title: str) -> list[Path]:
    from flatfed.reports.landscape import draw

    numbers = folder / f"{view.kind}.json"
    numbers.write_text(json.dumps(found.to_dict()) + "\n", encoding="utf-8")
    return [numbers, *draw(view.kind, found.grids, found.lines, folder, title)]


def _tell(found: Landscape) -> None:
    """Print the numbers that say which is flatter."""
    for grid in found.grids:
        if grid.at_marks:
            told = ", ".join(f"{loss:.4f} at {name}" for name, loss in grid.at_marks.items())
            click.echo(f"{grid.name}: loss {told} ({grid.note})")
            continue
        middle = grid.losses[len(grid.ys) // 2, len(grid.xs) // 2]
        edge = _mean([grid.losses[0], grid.losses[-1], grid.losses[:, 0], grid.losses[:, -1]])
        click.echo(f"{grid.name}: loss {middle:.4f} in the middle, {edge:.4f} on average at the edge ({grid.note})")
    for line in found.lines:
        for name, barrier in line.barriers.items():
            click.echo(f"{line.label}, {name}: barrier {barrier:.4f}")


def _mean(parts: list[Any]) -> float:
    import numpy as np

    values = np.concatenate([np.asarray(part).ravel() for part in parts])
    return float(values.mean())
