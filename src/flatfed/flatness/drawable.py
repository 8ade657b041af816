"""What measurements give to tables and figures: plain numbers, with a note that says on which data they were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """The loss along one line through weight space.

    Attributes:
        label: whose it is: a method, or two with an arrow.
        xs: places on the line.
        losses: the loss at each place, by data set: `{"train": ..., "test": ...}`.
        x_name: what the axis means.
        marks: places of models on the line, by name.
        barriers: how far the loss rises above the straight line between two models, by data set.
        note: data, number of examples, seed.
    """

    label: str
    xs: Floats
    losses: Mapping[str, Floats]
    x_name: str
    marks: Mapping[str, float] = field(default_factory=dict)
    barriers: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Grid:
    """The loss over a plane in weight space.

    Attributes:
        label: whose it is: a method, or what the plane goes through.
        xs, ys: places on the axes.
        losses: the loss, a row for each of `ys`.
        errors: the share of wrong predictions, between 0 and 1, where there are classes.
        x_name, y_name: what the axes mean.
        marks: places of models in the plane, by name.
        note: data, number of examples, seed.
        panel: what grids of one panel have in common; they are drawn on one set of axes.
        sheet: what panels of one figure have in common.
        at_marks: the loss of the models that are marked, where they were evaluated themselves.
    """

    label: str
    xs: Floats
    ys: Floats
    losses: Floats
    errors: Floats | None
    x_name: str
    y_name: str
    marks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    note: str = ""
    panel: str = ""
    sheet: str = ""
    at_marks: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Whose it is and of what, where it stands by itself."""
        return f"{self.label}, {self.sheet}: {self.panel}" if self.panel else self.label


@dataclass(frozen=True)
class Spectrum:
    """The largest eigenvalues of a model's Hessian, and where it was asked for the density of all of them.

    Attributes:
        label: whose it is.
        values, residuals: in descending order; a true eigenvalue is at most a residual away.
        points, weights: a quadrature rule of the whole spectrum (weights add up to 1), or empty.
        note: data, number of examples, seed.
    """

    label: str
    values: Floats
    residuals: Floats
    points: Floats
    weights: Floats
    note: str = ""


@dataclass(frozen=True)
class Embedding:
    """Penultimate features of examples, brought down to two dimensions.

    Attributes:
        label: whose model it is.
        places: a row of two coordinates for each example.
        classes: the class of each.
        note: data, number of examples, seed.
        models: the models of a map of several, or none.
        whose: the place among them of the model that each point's features come from, or none.
        class_names: the name of each class, where they are known.
    """

    label: str
    places: Floats
    classes: npt.NDArray[np.int64]
    note: str = ""
    models: tuple[str, ...] = ()
    whose: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    class_names: Sequence[str] = ()
