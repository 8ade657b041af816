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
from flatfed.core.evaluation.evaluator import calibrated, even_chunks, has_batch_norm
from flatfed.core.method.engine import Engine, Item, WorkFunction
from flatfed.core.method.vectors import is_finite
from flatfed.core.model.layout import Layout
from flatfed.core.round.federation import Federation
from flatfed.core.task.losses import model_loss
from flatfed.core.task.metrics import MetricValue, Totals, add_up, metric_values
from flatfed.core.task.task import Task
from flatfed.flatness import sums
from flatfed.flatness.sums import Sample

STRETCHES = 16
"""One gradient or product is divided into at most n parts, whatever the number of workers: so are the roundings."""

OnPoint = Callable[[int, dict[str, MetricValue]], None]


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
        # Counting refuses unknown and empty samples, before any work is done.
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
        if isinstance(sample, str):
            sample = Sample(sample)
        return replace(self, sample=sample)

    def at(self, w: Tensor, buffers: Mapping[str, Tensor] | None = None) -> Surface:
        """Return the loss of another model of the same shape over the same examples."""
        if w.shape != self.w.shape:
            raise ConfigError(f"models of {len(self.w):,} and of {len(w):,} parameters have no common surface")
        if buffers is None:
            buffers = self.buffers
        return replace(self, w=w, buffers=buffers)

    def loss(self, w: Tensor | None = None) -> float:
        """Return `L(w)`."""
        value = self.metrics(w)["loss"]
        assert isinstance(value, float)
        return value

    def metrics(self, w: Tensor | None = None) -> dict[str, MetricValue]:
        """Return loss and metrics (accuracy, ...) at `w`."""
        items = [((), self.sample, *stretch) for stretch in self._stretches()]
        return self._metrics(self._in_order(sums.loss, self._model(w), items))

    def metrics_at(
        self,
        points: Sequence[sums.Coefficients],
        directions: Sequence[Tensor],
        statistics: Sequence[Mapping[str, Tensor]] = (),
        on_point: OnPoint = lambda number, metrics: None,
    ) -> list[dict[str, MetricValue]]:
        """Return the metrics at `w + sum_i c_i d_i` for each point; `on_point` hears of each as it comes.

        `statistics` are directions of the buffers that go with those of the weights.
        """
        model = self._model() | _numbered(directions, statistics)
        count = self.sample.count(self.task)
        # A piece for each point, because there are enough of them for all workers.
        items = [(tuple(point), self.sample, 0, count) for point in points]
        return self._by_item(self.engine.compute(sums.loss, model, items), len(items), on_point)

    def noisy_losses(self, sigma: float, samples: int, seed: int) -> Tensor:
        """Return `L(w + tau)` for n draws of Gaussian noise."""
        items = [(sigma, seed, number, self.sample) for number in range(samples)]
        draws = self._by_item(self.engine.compute(sums.noisy_loss, self._model(), items), samples)
        return torch.tensor([metrics["loss"] for metrics in draws], dtype=torch.float64)

    def gradient(self, w: Tensor | None = None) -> Tensor:
        """Return the gradient of `L` at `w`."""
        return self._mean(sums.gradient, self._model(w))

    def product(self, v: Tensor, w: Tensor | None = None) -> Tensor:
        """Return `H(w) v`, `H` the Hessian of `L`."""
        return self._mean(sums.hessian_product, self._model(w) | {"v": v})

    def gauss_newton_product(self, v: Tensor, w: Tensor | None = None) -> Tensor:
        """Return `G(w) v`, `G = (1/n) sum_i J_i^T M_i J_i` the Gauss-Newton matrix of `L`.

        `J_i` is the derivative of the outputs for an example, `M_i` the Hessian of its loss in the outputs.
        """
        if self.task.loss is model_loss:
            raise ConfigError(
                "the Gauss-Newton matrix is of a loss of the outputs, and this model computes its loss itself; take "
                "another loss for the task, such as ff.causal_cross_entropy"
            )
        return self._mean(sums.gauss_newton_product, self._model(w) | {"v": v})

    def stretches(self, work: WorkFunction) -> dict[str, Tensor]:
        """Return what a function finds in every stretch of the examples, one after the other."""
        items = [(self.sample, *stretch) for stretch in self._stretches()]
        parts = self._in_order(work, self._model(), items)
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _model(self, w: Tensor | None = None) -> dict[str, Tensor]:
        """Return the tensors that every worker needs: the weights and what goes with them."""
        if w is None:
            w = self.w
        return {"w": w, **self.buffers}

    def _mean(self, work: WorkFunction, model: Mapping[str, Tensor]) -> Tensor:
        """Return a mean over the examples from sums over stretches."""
        items = [(self.sample, *stretch) for stretch in self._stretches()]
        total = add_up(self._in_order(work, model, items))
        self._refuse_uncounted(total)
        return total["sum"] / float(total["counted"])

    def _in_order(self, work: WorkFunction, model: Mapping[str, Tensor], items: Sequence[Item]) -> list[Totals]:
        """Return the result of every item, in the order of the items.

        Workers answer in any order, and a sum of floats depends on its order: only a fixed one gives the same bits on
        any number of workers.
        """
        results = dict(self.engine.compute(work, model, items))
        return [results[number] for number in range(len(items))]

    def _stretches(self) -> list[tuple[int, int]]:
        """Return the division of the examples: whole batches, in at most `STRETCHES` parts of about one size."""
        count = self.sample.count(self.task)
        batches = even_chunks(count, self.task.test_batch)
        parts = even_chunks(len(batches), -(-len(batches) // STRETCHES))
        return [_span(batches[first : first + size]) for first, size in parts]

    def _by_item(
        self,
        results: Iterable[tuple[int, Totals]],
        count: int,
        on_point: OnPoint = lambda number, metrics: None,
    ) -> list[dict[str, MetricValue]]:
        by_number: dict[int, dict[str, MetricValue]] = {}
        for number, totals in results:
            by_number[number] = self._metrics([totals])
            on_point(number, by_number[number])
        return [by_number[number] for number in range(count)]

    def _metrics(self, parts: Sequence[Totals]) -> dict[str, MetricValue]:
        totals = add_up(parts)
        self._refuse_uncounted(totals)
        return metric_values(self.task.metrics, totals)

    def _refuse_uncounted(self, totals: Totals) -> None:
        """Refuse examples of which no target counts: there is nothing to take a mean over."""
        if not totals["counted"] > 0:
            raise ConfigError(f"{self.sample.of}: no target of these examples counts, so there is no loss")


def _numbered(directions: Sequence[Tensor], statistics: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return directions under the names that workers know them by: `d0`, `d1`, ..., and `d0/buffers` beside them."""
    tensors = {f"d{number}": direction for number, direction in enumerate(directions)}
    for number, parts in enumerate(statistics):
        tensors |= {f"d{number}/{name}": part for name, part in parts.items()}
    return tensors


def _span(batches: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return where consecutive batches begin, and how many examples they hold."""
    first, _ = batches[0]
    return first, sum(size for _, size in batches)


def surface_at(federation: Federation, w: Tensor, sample: Sample) -> Surface:
    """Return the loss of a global model, with the statistics that evaluation would use."""
    task, engine = federation.task, federation.engine
    buffers = federation.server.buffers
    surface = Surface(engine, task, w, dict(buffers), sample, task.layout())
    recalibrates = federation.settings.eval_stats == "recalibrate"
    if recalibrates and has_batch_norm(task.model):
        return surface.at(w, calibrated(engine, task, w, buffers))
    return surface
