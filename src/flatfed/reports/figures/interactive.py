"""Loss surfaces to turn with the mouse: one page that needs nothing but a browser."""

from __future__ import annotations

import html
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.core.errors import ConfigError
from flatfed.flatness.drawable import Grid
from flatfed.reports.figures.drawing.scales import finite, is_wide, with_gaps
from flatfed.reports.figures.drawing.style import GREY, INK, colour, named, one_note, require_some, short
from flatfed.reports.figures.surfaces import centre_loss, mesh_lines
from flatfed.runs.records.files import replace_file

GLASS = 0.25
"""Opacity of the surface behind a mesh."""
# The browser itself keeps the page from asking anyone for anything. Evaluation is for older releases of plotly, whose
# traces in three dimensions compile functions.
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
html {{ height: 100%; }}
body {{ margin: 0; height: 100%; box-sizing: border-box; padding: 0.6rem 1rem; display: flex; flex-direction: column;
  font-family: system-ui, sans-serif; color: {ink}; }}
h1 {{ font-size: 1.2rem; font-weight: 600; margin: 0; }}
p {{ margin: 0.2rem 0 0.4rem; }}
figure {{ margin: 0; flex: 1; min-height: 18rem; display: flex; flex-direction: column; }}
figure > div {{ flex: 1; min-height: 0; }}
figcaption {{ color: {grey}; font-size: 0.85rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
{about}<noscript><p>The surfaces are drawn by a script of this page, and scripts are switched off.</p></noscript>
<figure>
{plot}
<figcaption>{caption}</figcaption>
</figure>
</body>
</html>
"""


def write_surface_page(grids: Sequence[Grid], file: Path, title: str = "", about: str = "") -> None:
    """Write a page with the loss surfaces, the first solid and further ones as translucent meshes.

    `about` says of what the models are, under the title: the data set and the round. The surfaces fill the window.
    The page holds all it needs: it works from a disk, and asks the network for nothing. The scale is logarithmic where
    the losses span more than two decades; a loss that is not finite leaves a hole.
    """
    if importlib.util.find_spec("plotly") is None:
        raise ConfigError("interactive figures need plotly; pip install 'flatfed[plots]'")
    require_some(grids)
    # Titles and labels are the user's words, and no markup.
    words = {"title": html.escape(title or _title(grids)), "caption": html.escape(_caption(grids))}
    words["about"] = f"<p>{html.escape(about)}</p>\n" if about else ""
    page = PAGE.format(policy=POLICY, ink=INK, grey=GREY, plot=_plot(grids), **words)
    replace_file(Path(file), page.encode())


def _plot(grids: Sequence[Grid]) -> str:
    """Return the surfaces and the library that draws them, as HTML."""
    # No server is named to which the figure could be sent.
    settings = {"displaylogo": False, "responsive": True, "plotlyServerURL": "", "showSendToCloud": False}
    text: str = _figure(grids).to_html(
        full_html=False,
        include_plotlyjs=True,
        include_mathjax=False,
        div_id="surfaces",
        config=settings,
        default_height="100%",
    )
    return text


def _figure(grids: Sequence[Grid]) -> Any:
    plotly = importlib.import_module("plotly.graph_objects")
    log = is_wide(finite(grid.losses for grid in grids))
    figure = plotly.Figure(layout=_layout(grids, log))
    for index, grid in enumerate(grids):
        figure.add_trace(plotly.Surface(**_surface(index, grid)))
        if index:  # the first surface is solid and needs no mesh
            figure.add_trace(plotly.Scatter3d(**_mesh(index, grid)))
    return figure


def _title(grids: Sequence[Grid]) -> str:
    """Name the methods."""
    return f"Loss surfaces of {' and '.join(dict.fromkeys(grid.label for grid in grids))}"


def _caption(grids: Sequence[Grid]) -> str:
    how = "Drag to turn, scroll to come nearer; a click in the legend hides a surface."
    note = one_note(grids)
    if not note:
        return how
    return f"{note}. {how}"


def _shared(index: int, grid: Grid, in_legend: bool) -> dict[str, Any]:
    """Return what a surface and its mesh have in common: they are switched on and off together."""
    name = f"{html.escape(grid.label)}: loss {short(centre_loss(grid))} at the centre"
    return {"name": name, "legendgroup": str(index), "showlegend": in_legend}


def _surface(index: int, grid: Grid) -> dict[str, Any]:
    """Return what plotly needs for a surface of one colour."""
    shade = colour(index)
    return {
        "x": grid.xs,
        "y": grid.ys,
        "z": with_gaps(grid.losses),
        "showscale": False,
        "colorscale": [[0, shade], [1, shade]],
        "opacity": GLASS if index else 1.0,
        "lighting": {"ambient": 0.7, "diffuse": 0.6, "specular": 0.1, "roughness": 0.9},
        "hovertemplate": f"{html.escape(grid.label)}<br>loss %{{z:.4g}}<br>at (%{{x:.3g}}, %{{y:.3g}})<extra></extra>",
        # For the others their meshes stand in the legend.
        **_shared(index, grid, index == 0),
    }


def _mesh(index: int, grid: Grid) -> dict[str, Any]:
    """Return what plotly needs for the lines of a surface."""
    xs, ys = np.meshgrid(grid.xs, grid.ys)
    places = np.stack([xs, ys, with_gaps(grid.losses)], axis=-1)
    # NaN lifts the pen: a line would run on to the next one.
    lines = np.concatenate([np.insert(line, len(line), np.nan, axis=0) for line in mesh_lines(places)])
    look = {"mode": "lines", "line": {"color": colour(index), "width": 2}, "hoverinfo": "skip"}
    return {"x": lines[:, 0], "y": lines[:, 1], "z": lines[:, 2], **look, **_shared(index, grid, True)}


def _layout(grids: Sequence[Grid], log: bool) -> dict[str, Any]:
    losses: dict[str, Any] = {"title": named("loss", log)}
    if log:
        losses |= {"type": "log", "dtick": 1, "tickformat": "~g"}  # whole decades, as plain numbers
    scene = {
        "xaxis": {"title": html.escape(grids[0].x_name)},
        "yaxis": {"title": html.escape(grids[0].y_name)},
        "zaxis": losses,
        "aspectratio": {"x": 1, "y": 1, "z": 0.8},
        "camera": {"eye": {"x": 0.95, "y": -1.4, "z": 0.95}, "center": {"x": 0, "y": 0, "z": -0.12}},
    }
    legend = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0}
    return {"scene": scene, "legend": legend, "margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "template": "plotly_white"}
