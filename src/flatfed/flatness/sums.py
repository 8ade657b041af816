"""Sums over examples: which examples a loss is taken over, and what an engine computes for a surface.

A `Sample` is everyone's examples, one client's or a test set's: all of them or a fixed random part. Each function works
on a stretch of a sample's examples, in whichever process, and returns sums over it: batches count by their size, and by
the targets that are not to be ignored. The model is in inference mode; nothing is augmented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError, nearest
from flatfed.core.evaluation.evaluator import Evaluator, Statistics, batch_statistics, even_chunks
from flatfed.core.method.state import State
from flatfed.core.model.devices import CPU
from flatfed.core.model.layout import BUFFERS, LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.randomness import key, key_global_generators, preserved_global_state, torch_generator
from flatfed.core.task.examples import Examples, PartExamples, joined
from flatfed.core.task.metrics import add_up
from flatfed.core.task.outputs import scores
from flatfed.core.task.structures import Batch, Structure, call, mapped
from flatfed.core.task.structures import count as examples_in
from flatfed.core.task.task import Task
from flatfed.flatness import products
from flatfed.flatness.products import BatchLoss, Bent, ProductRule, Slopes, plain_attention, tangents_agree

TRAIN, CLIENT = "train", "client"


@dataclass(frozen=True)
class Sample:
    """A set of examples by name.

    Attributes:
        of: `train` (all clients' examples), `client 3` (one client's), or the name of a test set.
        most: take this number at random, if there are more; None is all.
        seed: key of that draw.
        part: which of the draws that have no example in common, from 0.
    """

    of: str = TRAIN
    most: int | None = None
    seed: int = 0
    part: int = 0

    def __post_init__(self) -> None:
        if self.most is None:
            return
        is_whole = isinstance(self.most, int) and not isinstance(self.most, bool)
        if not is_whole or self.most < 1:
            raise ConfigError(f"the number of examples must be a whole number of at least 1, not {self.most!r}")

    def examples(self, task: Task) -> Examples:
        """Return the examples."""
        whole = self._whole(task)
        if self._is_all_of(len(whole)):
            return whole
        # The draws of one seed are parts of one permutation: they have no example in common.
        order = torch.randperm(len(whole), generator=torch_generator(self.seed, "sample", self.of))
        assert self.most is not None
        chosen = order[self.part * self.most : (self.part + 1) * self.most]
        # Sorted: only the set is random, and not the order of sums over it.
        return PartExamples(whole, chosen.sort().values)

    def _is_all_of(self, count: int) -> bool:
        return self.most is None or count <= self.most

    def _whole(self, task: Task) -> Examples:
        """Return the examples that are drawn from."""
        if self.of == TRAIN:
            return joined(task.clients)
        client = self._client()
        if client is not None:
            return _examples_of(task, client)
        if self.of not in task.test_sets:
            known = [TRAIN, *task.test_sets, "client 0"]
            raise ConfigError(nearest(self.of, known, "set of examples"))
        return task.test_sets[self.of]

    def _client(self) -> int | None:
        """Return which client's examples these are, if one's."""
        kind, _, number = self.of.partition(" ")
        # `isdigit` alone admits digits that `int` refuses.
        if kind == CLIENT and number.isascii() and number.isdigit():
            return int(number)
        return None

    def count(self, task: Task) -> int:
        """Return how many examples there are, and refuse an empty set."""
        count = len(self._whole(task))
        if count == 0:
            raise ConfigError(f"{self.of} holds no examples to take a loss over")
        if self.most is None:
            return count
        return min(count, self.most)

    def describe(self, task: Task) -> str:
        """Return the same for people."""
        whole = len(self._whole(task))
        if self._is_all_of(whole):
            return f"{self._name()}, all {whole:,} examples"
        return f"{self._name()}, {self.most:,} of {whole:,} examples (seed {self.seed})"

    def _name(self) -> str:
        if self.of == TRAIN:
            return "training data of all clients"
        if " " in self.of:
            return self.of
        return f"{self.of} set"


def _examples_of(task: Task, client: int) -> Examples:
    if client >= task.population:
        raise ConfigError(f"there is no client {client}; they are 0 to {task.population - 1}")
    return task.examples(client)


def own(client: int, most: int | None = None, seed: int = 0, part: int = 0) -> Sample:
    """Return one client's examples, or a part of them."""
    return Sample(f"{CLIENT} {client}", most, seed, part)


Tensors = Mapping[str, Tensor]
Coefficients = tuple[float, ...]

TRIED = 4
"""Examples of the trial of tangents, at most."""

# Weakly, so that the examples go when their evaluator does.
_OPENED: WeakKeyDictionary[Evaluator, dict[Sample, Examples]] = WeakKeyDictionary()
_TRIED: WeakKeyDictionary[Evaluator, dict[Sample, bool]] = WeakKeyDictionary()


def loss(evaluator: Evaluator, model: Tensors, point: Coefficients, sample: Sample, first: int, count: int) -> Tensors:
    """Return the sums of loss and metrics at `w + sum_i c_i d_i`; the directions are in `model` as `d0`, `d1`, ..."""
    w = _moved_weights(model, point)
    return _totals(evaluator, w, _moved_statistics(evaluator, model, point), sample, first, count)


def noisy_loss(evaluator: Evaluator, model: Tensors, sigma: float, seed: int, number: int, sample: Sample) -> Tensors:
    """Return the sums at `w + tau`, `tau ~ N(0, sigma^2 I)` the draw of this number."""
    w = model["w"]
    # Keyed by its number, so that the draw is the same in whichever process it is taken.
    noise = torch.randn(w.shape, generator=torch_generator(seed, "lpf", number), dtype=w.dtype)
    return _totals(evaluator, w + sigma * noise, model, sample, 0, sample.count(evaluator.task))


def gradient(evaluator: Evaluator, model: Tensors, sample: Sample, first: int, count: int) -> Tensors:
    """Return the sum of the gradients of the examples' losses."""
    return _summed(evaluator, model, sample, first, count, products.gradient)


def hessian_product(evaluator: Evaluator, model: Tensors, sample: Sample, first: int, count: int) -> Tensors:
    """Return the sum of `H v` over the examples, `H` the Hessian of one's loss."""
    ways = products.hessian_by_tangents, products.hessian_by_double_backward
    return _product(evaluator, model, sample, first, count, ways)


def gauss_newton_product(evaluator: Evaluator, model: Tensors, sample: Sample, first: int, count: int) -> Tensors:
    """Return the sum of `G v` over the examples, `G` the Gauss-Newton matrix of one's loss."""
    ways = products.gauss_newton_by_tangents, products.gauss_newton_by_double_backward
    return _product(evaluator, model, sample, first, count, ways)


def output_norms(evaluator: Evaluator, model: Tensors, sample: Sample, first: int, count: int) -> Tensors:
    """Return the norm of the outputs of each example."""
    policy = show(evaluator, model["w"], model)
    norms = []
    for inputs, _ in batches(evaluator, sample, first, count):
        with torch.no_grad(), evaluator.inference(policy):
            outputs = evaluator.inferred(inputs)
        norms.append(scores(outputs).flatten(1).double().norm(dim=1).to(CPU))
    return {"norms": torch.cat(norms)}


def show(evaluator: Evaluator, w: Tensor, model: Tensors) -> Statistics | None:
    """Put the model into inference mode with these tensors, a client's own parts included.

    Return the policy for BatchNorm: a client with statistics of its own is measured with these.
    """
    own = [name for name in (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS) if name in model]
    kept = State({name: model[name] for name in own})
    evaluator.show(w, model, kept)
    return "running" if LOCAL_BUFFERS in kept else None


def batches(evaluator: Evaluator, sample: Sample, first: int, count: int) -> Iterator[Batch]:
    """Yield the prepared batches of a stretch of a sample."""
    examples = _examples(evaluator, sample)
    for start, size in _chunks(evaluator, sample, first, count):
        yield evaluator.oracle.batch(*examples.batch(torch.arange(start, start + size)))


# --- where on the surface -----------------------------------------------------------------------------------


def _moved_weights(model: Tensors, point: Coefficients) -> Tensor:
    """Return `w + sum_i c_i d_i`."""
    w = model["w"].clone()
    for number, coefficient in enumerate(point):
        # The model itself is a point of every grid; there its weights are to stay the same to the bit.
        if coefficient:
            w.add_(model[f"d{number}"], alpha=coefficient)
    return w


def _moved_statistics(evaluator: Evaluator, model: Tensors, point: Coefficients) -> Tensors:
    """Return the model with `b + sum_i c_i s_i` for its statistics, where directions have such."""
    moving = [(c, model[name]) for c, name in zip(point, _statistics_names(point), strict=True) if name in model]
    if not moving:
        return model
    statistics = model[BUFFERS]
    for coefficient, direction in moving:
        statistics = statistics + coefficient * direction
    _keep_variances(evaluator, statistics)
    return {**model, BUFFERS: statistics}


def _statistics_names(point: Coefficients) -> list[str]:
    return [f"d{number}/{BUFFERS}" for number in range(len(point))]


def _keep_variances(evaluator: Evaluator, buffers: Tensor) -> None:
    """Let no variance be negative: beyond two models, an affine combination of theirs may be."""
    for piece in evaluator.layout.buffers:
        if piece.name.endswith("running_var") and piece.offset + piece.size <= len(buffers):
            piece.view(buffers).clamp_(min=0)


# --- sums ---------------------------------------------------------------------------------------------------


def _totals(evaluator: Evaluator, w: Tensor, model: Tensors, sample: Sample, first: int, count: int) -> Tensors:
    examples = _examples(evaluator, sample)
    parts = []
    for start, size in _chunks(evaluator, sample, first, count):
        parts.append(evaluator.totals(examples, start, size, show(evaluator, w, model)))
    return add_up(parts)


def _product(
    evaluator: Evaluator, model: Tensors, sample: Sample, first: int, count: int, ways: tuple[ProductRule, ProductRule]
) -> Tensors:
    """Return a sum of products: with tangents where the trial of these examples shows that they can be had."""
    rule = ways[0] if _carries_tangents(evaluator, sample) else ways[1]
    # Parameters that stay on the clients do not vary: the product is taken over the shared ones.
    pieces = evaluator.layout.parameters
    v = [None if piece.local else piece.view(model["v"].to(evaluator.oracle.device)) for piece in pieces]
    with plain_attention():
        return _summed(evaluator, model, sample, first, count, lambda batch: rule(batch, v))


def _carries_tangents(evaluator: Evaluator, sample: Sample) -> bool:
    """Say whether tangents give the right products for this model; it is tried once for a set of examples.

    By the task and the set alone, so that every process comes to the same answer.
    """
    known = _TRIED.setdefault(evaluator, {})
    tried = _tried_for(sample)
    if tried not in known:
        with preserved_global_state(), plain_attention():
            known[tried] = all(tangents_agree(trial) for trial in _trials(evaluator, tried))
    return known[tried]


def _tried_for(sample: Sample) -> Sample:
    """Return the whole set that a sample is of; a trial for all clients serves for each."""
    is_test = sample.of != TRAIN and not sample.of.startswith(f"{CLIENT} ")
    return Sample(sample.of) if is_test else Sample()


def _trials(evaluator: Evaluator, sample: Sample) -> Iterator[BatchLoss]:
    """Yield the loss of a few examples in float64; also with the batch's own statistics, where they are used."""
    examples = _examples(evaluator, sample)
    key_global_generators(key(evaluator.settings.seed, sample.of, 0))
    raw = examples.batch(torch.arange(min(TRIED, len(examples))))
    inputs, targets = (mapped(_precise, part) for part in evaluator.oracle.batch(*raw))
    model = _moved_model(evaluator)
    parameters = [p for p in model.parameters() if p.requires_grad]
    trial = _batch_loss(evaluator, lambda: call(model, inputs), targets, parameters)
    yield trial
    if evaluator.statistics == "batch-stats":
        with batch_statistics(model):
            yield trial


def _precise(values: Tensor) -> Tensor:
    return values.double() if values.is_floating_point() else values


def _moved_model(evaluator: Evaluator) -> nn.Module:
    """Return the initial model with other values: some of the initial ones may be zero and hide a layer."""
    model = evaluator.task.fresh_model(torch.float64).to(evaluator.oracle.device).eval()
    generator = torch_generator(0, "trial of tangents")
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(noise.to(parameter.device), alpha=0.05)
    return model


def _summed(
    evaluator: Evaluator,
    model: Tensors,
    sample: Sample,
    first: int,
    count: int,
    of: Callable[[BatchLoss], Bent],
) -> Tensors:
    """Return the sum over batches of something made of the loss's derivatives, and how many targets counted."""
    named = dict(evaluator.oracle.model.named_parameters())
    parameters = [named[piece.name] for piece in evaluator.layout.parameters]
    total = torch.zeros_like(evaluator.oracle.w)
    weight = 0.0
    policy = show(evaluator, model["w"], model)
    for inputs, targets in batches(evaluator, sample, first, count):
        with evaluator.inference(policy):
            outputs, parts = of(_batch_loss(evaluator, partial(evaluator.inferred, inputs), targets, parameters))
        with torch.no_grad():
            by_loss = evaluator.task.criterion.counted(targets, examples_in(targets))
            counted = float(evaluator.task.metrics.measure(outputs, targets).get("counted", by_loss))
        _add(evaluator, total, parts, counted)
        weight += counted
    shared = total[: evaluator.layout.shared].to(CPU)
    return {"sum": shared, "counted": torch.tensor(weight, dtype=torch.float64)}


def _batch_loss(
    evaluator: Evaluator, forward: Callable[[], Any], targets: Structure, parameters: Sequence[Tensor]
) -> BatchLoss:
    criterion = evaluator.task.criterion
    return BatchLoss(forward, lambda seen: criterion.of(seen, targets), parameters, criterion.seen)


def _add(evaluator: Evaluator, total: Tensor, parts: Slopes, counted: float) -> None:
    """Add a batch's mean as often as it has targets; where none counts, its mean is not a number."""
    if not counted:
        return
    for piece, part in zip(evaluator.layout.parameters, parts, strict=True):
        if part is not None:
            piece.view(total).add_(part, alpha=counted)


def _chunks(evaluator: Evaluator, sample: Sample, first: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the batches of a stretch, out of the one division that a sample has.

    The division does not depend on the stretch, nor a data set's draws on the order: both are keyed by place. So sums
    are the same however the work is spread.
    """
    for start, size in even_chunks(len(_examples(evaluator, sample)), evaluator.task.test_batch):
        if first <= start < first + count:
            key_global_generators(key(evaluator.settings.seed, sample.of, start))
            yield start, size


def _examples(evaluator: Evaluator, sample: Sample) -> Examples:
    """Return a sample's examples; they are looked up once."""
    known = _OPENED.setdefault(evaluator, {})
    if sample not in known:
        known[sample] = sample.examples(evaluator.task)
    return known[sample]
