"""The loss of a model over stated examples as a function of the flat parameter vector.

    L(w) = (1/n) sum_i l(w; x_i, y_i)          gradient(w) = grad L(w)          product(v, w) = H(w) v

Inference mode, no augmentation, every example counts once. An engine does the arithmetic, spread over its workers; the
result does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.metrics import Figure, Totals, add_up, figures
from flatfed.core.evaluation.statistics import even_chunks
from flatfed.core.method.vectors import is_finite
from flatfed.core.model.layout import Layout
from flatfed.core.round.engine import Engine
from flatfed.core.task.task import Task
from flatfed.flatness import pieces
from flatfed.flatness.sample import Sample

STRETCHES = 16
"""One gradient or product is divided into at most so many parts, whatever the number of workers."""

OnPoint = Callable[[int, dict[str, Figure]], None]


@dataclass(frozen=True)
class Surface:
    """A model, the examples its loss is taken over, and an engine to compute with.

    Attributes:
        engine: where the arithmetic runs.
        task: the model's shape, the loss, the data.
        w: the model: shared parameters in the layout's order.
        buffers: the statistics that go with it.
        sample: which examples.
        layout: where the parameters lie in the vectors.
    """

    engine: Engine
    task: Task
    w: Tensor
    buffers: Mapping[str, Tensor]
    sample: Sample
    layout: Layout

    def __post_init__(self) -> None:
        if not is_finite(self.w):
            raise ConfigError("the model's weights are not finite numbers: it has diverged, and has no flatness")
        self.sample.count(self.task)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.w)

    @property
    def note(self) -> str:
        """On which examples the loss is taken, for people."""
        return self.sample.describe(self.task)

    def over(self, sample: Sample | str) -> Surface:
        """Return the loss of the same model over other examples."""
        return replace(self, sample=Sample(sample) if isinstance(sample, str) else sample)

    def at(self, w: Tensor, buffers: Mapping[str, Tensor] | None = None) -> Surface:
        """Return the loss of another model of the same shape over the same examples."""
        if w.shape != self.w.shape:
            raise ConfigError(f"models of {len(self.w):,} and of {len(w):,} parameters have no common surface")
        return replace(self, w=w, buffers=self.buffers if buffers is None else buffers)

    def loss(self, w: Tensor | None = None) -> float:
        """Return `L(w)`."""
        found = self.figures(w)["loss"]
        assert isinstance(found, float)
        return found

    def figures(self, w: Tensor | None = None) -> dict[str, Figure]:
        """Return loss and figures (accuracy, ...) at `w`."""
        items = [((), self.sample, *stretch) for stretch in self._stretches()]
        found = dict(self.engine.compute(pieces.loss, self._given(w), items))
        return self._told([found[number] for number in range(len(items))])

    def figures_at(
        self,
        points: Sequence[pieces.Coefficients],
        directions: Sequence[Tensor],
        statistics: Sequence[Mapping[str, Tensor]] = (),
        on_point: OnPoint = lambda number, found: None,
    ) -> list[dict[str, Figure]]:
        """Return the figures at `w + sum_i c_i d_i` for each point; `on_point` hears of each as it comes.

        `statistics` are directions of the buffers that go with those of the weights.
        """
        given = self._given() | {f"d{number}": direction for number, direction in enumerate(directions)}
        given |= {f"d{number}/{name}": part for number, own in enumerate(statistics) for name, part in own.items()}
        count = self.sample.count(self.task)
        items = [(tuple(point), self.sample, 0, count) for point in points]
        return self._by_item(self.engine.compute(pieces.loss, given, items), len(items), on_point)

    def noisy_losses(self, sigma: float, samples: int, seed: int) -> Tensor:
        """Return `L(w + tau)` for so many draws of Gaussian noise."""
        items = [(sigma, seed, number, self.sample) for number in range(samples)]
        found = self._by_item(self.engine.compute(pieces.noisy_loss, self._given(), items), samples)
        return torch.tensor([one["loss"] for one in found], dtype=torch.float64)

    def gradient(self, w: Tensor | None = None) -> Tensor:
        """Return the gradient of `L` at `w`."""
        return self._mean(pieces.gradient, self._given(w))

    def product(self, v: Tensor, w: Tensor | None = None) -> Tensor:
        """Return `H(w) v`, `H` the Hessian of `L`."""
        return self._mean(pieces.product, self._given(w) | {"v": v})

    def stretches(self, piece: Callable[..., Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return what a piece finds in every stretch of the examples, one after the other."""
        items = [(self.sample, *stretch) for stretch in self._stretches()]
        found = dict(self.engine.compute(piece, self._given(), items))
        return {name: torch.cat([found[number][name] for number in range(len(items))]) for name in found[0]}

    def _given(self, w: Tensor | None = None) -> dict[str, Tensor]:
        return {"w": self.w if w is None else w, **self.buffers}

    def _mean(self, piece: Callable[..., Mapping[str, Tensor]], given: Mapping[str, Tensor]) -> Tensor:
        """Return a mean over the examples from sums over stretches, added in their order."""
        items = [(self.sample, *stretch) for stretch in self._stretches()]
        found = dict(self.engine.compute(piece, given, items))
        total = add_up(found[number] for number in range(len(items)))
        self._refuse_none(total)
        return total["sum"] / float(total["counted"])

    def _stretches(self) -> list[tuple[int, int]]:
        """Return the division of the examples: whole batches, in at most so many stretches of about one size."""
        count = self.sample.count(self.task)
        batches = even_chunks(count, self.task.test_batch)
        parts = even_chunks(len(batches), -(-len(batches) // STRETCHES))
        return [_span(batches[first : first + size]) for first, size in parts]

    def _by_item(
        self,
        results: Iterable[tuple[int, Totals]],
        count: int,
        on_point: OnPoint = lambda number, found: None,
    ) -> list[dict[str, Figure]]:
        found: dict[int, dict[str, Figure]] = {}
        for number, totals in results:
            found[number] = self._told([totals])
            on_point(number, found[number])
        return [found[number] for number in range(count)]

    def _told(self, parts: Sequence[Totals]) -> dict[str, Figure]:
        totals = add_up(parts)
        self._refuse_none(totals)
        return figures(self.task.metrics, totals)

    def _refuse_none(self, totals: Totals) -> None:
        if not totals["counted"] > 0:
            raise ConfigError(f"{self.sample.of}: no target of these examples counts, so there is no loss")


def _span(batches: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return batches[0][0], sum(size for _, size in batches)
