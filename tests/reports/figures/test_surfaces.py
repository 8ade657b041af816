"""Loss surfaces: one scale for all, holes where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.drawing.style import colour
from flatfed.reports.figures.surfaces import draw_surface_panels, draw_surfaces, paler, pieces_of
from reports.figures.inputs import bowl, size, words


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_surfaces(count: int, tmp_path: Path) -> None:
    grids = [bowl(f"model {k}", k + 1.0, size=11 + 10 * k) for k in range(count)]
    draw_surfaces(grids, [tmp_path / "a.svg"])
    assert all(f"model {k}: loss 0.4 at the centre" in words(tmp_path / "a.svg") for k in range(count))


def test_panels_have_scales_of_their_own(figures: list[Any]) -> None:
    draw_surface_panels({"own": [bowl(), bowl("b")], "all": [bowl(base=50), bowl("b", base=60)]}, [])
    own, everyones = figures[0].axes
    assert own.get_zlim()[1] < everyones.get_zlim()[0]


def test_a_loss_close_to_0_looks_close_to_0_beside_another(figures: list[Any]) -> None:
    low = bowl(curvature=1e-4, base=1e-4)
    draw_surface_panels({"own": [low, bowl()]}, [])
    bottom, top = figures[0].axes[0].get_zlim()
    assert bottom < 0.1 and top > 5


def test_the_scale_holds_all_surfaces(figures: list[Any]) -> None:
    draw_surfaces([bowl("flat", 1.0), bowl("sharp", 9.0)], [])
    low, high = figures[0].axes[0].get_zlim()
    assert low < 0.4 and high > 0.4 + 9 * 1.7


@pytest.mark.parametrize(("factor", "log"), [(200.0, True), (50.0, False)])
def test_a_wide_range_has_a_logarithmic_scale_and_says_so(factor: float, log: bool, tmp_path: Path) -> None:
    grid = bowl(curvature=(factor - 1) / 1.7, base=1.0)
    draw_surfaces([grid], [tmp_path / "a.svg"])
    assert ("loss (log scale)" in words(tmp_path / "a.svg")) == log


def test_a_loss_of_zero_keeps_the_scale_linear(tmp_path: Path) -> None:
    draw_surfaces([bowl(base=0.0)], [tmp_path / "a.svg"])
    assert "log scale" not in words(tmp_path / "a.svg")


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_leaves_a_hole(bad: float, index: int) -> None:
    losses = bowl(size=49).losses.copy()
    whole = pieces_of(index, bowl(size=49), False, (0.0, 8.0))[0]
    losses[20, 30] = bad
    holed = pieces_of(index, replace(bowl(size=49), losses=losses), False, (0.0, 8.0))[0]
    assert np.isfinite(holed).all()
    faces = 4  # each place is a corner of four
    assert len(whole) - len(holed) == faces + (4 if index else 0)  # and an end of four lines of the mesh


def test_a_hole_of_a_coarse_grid_is_not_larger_than_its_cells() -> None:
    grid = bowl(size=5)
    losses = grid.losses.copy()
    losses[0, 0] = np.nan
    whole, holed = (pieces_of(0, replace(grid, losses=part), False, (0.0, 8.0))[0] for part in (grid.losses, losses))
    assert len(holed) / len(whole) == pytest.approx(15 / 16)


@pytest.mark.parametrize("value", [0.7, 0.0, np.nan])
def test_nothing_to_see_is_no_error(value: float, tmp_path: Path) -> None:
    grid = bowl()
    draw_surfaces([replace(grid, losses=np.full_like(grid.losses, value))], [tmp_path / "a.png"])
    assert size(tmp_path / "a.png")


def test_no_grid_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_surfaces([], [tmp_path / "a.png"])


def test_a_nearer_surface_is_drawn_later_wherever_they_cross(figures: list[Any]) -> None:
    """The pieces of all surfaces are in one collection: only then does the library sort them together."""
    draw_surfaces([bowl("flat", 1.0), bowl("sharp", 9.0, 0.3)], [])
    collection, _ = figures[0].axes[0].collections
    colours = {tuple(np.round(colour, 3)) for colour in collection.get_edgecolor()}
    assert len(colours) > 2


def test_a_mesh_is_seen_above_a_solid_surface_which_is_lighter_than_its_colour(figures: list[Any]) -> None:
    draw_surfaces([bowl("low", 1.0), bowl("high", 1.0, 3.0)], [])
    faces, net = figures[0].axes[0].collections
    assert net.get_zorder() > faces.get_zorder()
    assert not figures[0].axes[0].computed_zorder  # else the library would decide by depth
    assert np.allclose(net.get_color()[0, :3], to_rgb(colour(1)))
    assert sum(to_rgb(paler(0))) > sum(to_rgb(colour(0))) + 0.5
