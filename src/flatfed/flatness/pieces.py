"""The arithmetic of a surface, piece by piece, wherever an engine runs it.

Each piece works on a stretch of a sample's examples and returns sums over it: batches count by their size, and by the
targets that are not to be ignored. The model is in inference mode; nothing is augmented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from flatfed.core.devices import CPU
from flatfed.core.evaluation import even_chunks
from flatfed.core.examples import Examples
from flatfed.core.layout import BUFFERS
from flatfed.core.metrics import add_up
from flatfed.core.randomness import key, torch_generator
from flatfed.core.trainer import Trainer
from flatfed.flatness.sample import Sample

Given = Mapping[str, Tensor]
Coefficients = tuple[float, ...]

_OPENED: WeakKeyDictionary[Trainer, dict[Sample, Examples]] = WeakKeyDictionary()


def loss(trainer: Trainer, given: Given, at: Coefficients, sample: Sample, first: int, count: int) -> Given:
    """Return the sums of loss and figures at `w + sum_i c_i d_i`, the directions being given as `d0`, `d1`, ..."""
    w, buffers = given["w"].clone(), dict(given)
    for number, coefficient in enumerate(at):
        if coefficient:
            w.add_(given[f"d{number}"], alpha=coefficient)
        if f"d{number}/{BUFFERS}" in given:
            buffers[BUFFERS] = buffers[BUFFERS] + coefficient * given[f"d{number}/{BUFFERS}"]
    if buffers.get(BUFFERS) is not given.get(BUFFERS):
        _keep_variances(trainer, buffers[BUFFERS])
    return _totals(trainer, w, buffers, sample, first, count)


def noisy_loss(trainer: Trainer, given: Given, sigma: float, seed: int, number: int, sample: Sample) -> Given:
    """Return the sums at `w + tau`, `tau ~ N(0, sigma^2 I)` the draw of this number."""
    w = given["w"]
    noise = torch.randn(w.shape, generator=torch_generator(seed, "lpf", number), dtype=w.dtype)
    return _totals(trainer, w + sigma * noise, given, sample, 0, sample.count(trainer.task))


def gradient(trainer: Trainer, given: Given, sample: Sample, first: int, count: int) -> Given:
    """Return the sum of the gradients of the examples' losses."""
    return _summed(trainer, given, sample, first, count, lambda slopes, parameters: slopes)


def product(trainer: Trainer, given: Given, sample: Sample, first: int, count: int) -> Given:
    """Return the sum of `H v` over the examples, `H` the Hessian of one's loss: the gradient of `<gradient, v>`."""
    v = torch.zeros_like(trainer.oracle.w)
    v[: trainer.layout.shared] = given["v"]
    directions = [piece.view(v) for piece in trainer.layout.parameters]

    def bend(slopes: Slopes, parameters: Sequence[Tensor]) -> Slopes:
        bent = [(g, d) for g, d in zip(slopes, directions, strict=True) if g is not None and g.requires_grad]
        if not bent:
            return [None] * len(parameters)  # linear in the parameters
        along, weights = zip(*bent, strict=True)
        return torch.autograd.grad(along, parameters, grad_outputs=weights, allow_unused=True)

    return _summed(trainer, given, sample, first, count, bend, twice=True)


Slopes = Sequence[Tensor | None]


def _summed(
    trainer: Trainer,
    given: Given,
    sample: Sample,
    first: int,
    count: int,
    of: Callable[[Slopes, Sequence[Tensor]], Slopes],
    twice: bool = False,
) -> Given:
    """Return the sum over batches of something made of the loss's gradient, and how many targets counted."""
    oracle, layout = trainer.oracle, trainer.layout
    named = dict(oracle.model.named_parameters())
    parameters = [named[piece.name] for piece in layout.parameters]
    total, weight = torch.zeros_like(oracle.w), 0.0
    trainer.show(given["w"], given)
    for inputs, targets in batches(trainer, sample, first, count):
        with trainer.inference():
            outputs = oracle.model(inputs)
            mean = trainer.task.loss(outputs, targets)
            slopes = torch.autograd.grad(mean, parameters, create_graph=twice, allow_unused=True)
            parts = of(slopes, parameters)
        with torch.no_grad():
            counted = float(trainer.task.metrics.measure(outputs, targets).get("counted", len(targets)))
        for piece, part in zip(layout.parameters, parts, strict=True):
            if part is not None and counted:
                piece.view(total).add_(part, alpha=counted)
        weight += counted
    return {"sum": total[: layout.shared].to(CPU), "counted": torch.tensor(weight, dtype=torch.float64)}


def output_norms(trainer: Trainer, given: Given, sample: Sample) -> Given:
    """Return the sum of the outputs' norms over all examples of a sample."""
    trainer.show(given["w"], given)
    count, total = sample.count(trainer.task), torch.zeros((), dtype=torch.float64)
    for inputs, _ in batches(trainer, sample, 0, count):
        with torch.no_grad(), trainer.inference():
            outputs = trainer.oracle.model(inputs)
            first = outputs[0] if isinstance(outputs, tuple | list) else outputs
            total += first.flatten(1).double().norm(dim=1).sum().to(CPU)
    return {"norms": total, "counted": torch.tensor(float(count), dtype=torch.float64)}


def _keep_variances(trainer: Trainer, buffers: Tensor) -> None:
    """Let no variance be negative: beyond two models, an affine combination of theirs may be."""
    for piece in trainer.layout.buffers:
        if piece.name.endswith("running_var") and piece.offset + piece.size <= len(buffers):
            piece.view(buffers).clamp_(min=0)


def _totals(trainer: Trainer, w: Tensor, given: Given, sample: Sample, first: int, count: int) -> Given:
    examples, parts = opened(trainer, sample), []
    for start, size in _stretches(trainer, sample, first, count):
        trainer.show(w, given)
        parts.append(trainer.totals(examples, start, size))
    return add_up(parts)


def batches(trainer: Trainer, sample: Sample, first: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the prepared batches of a stretch of a sample."""
    examples = opened(trainer, sample)
    for start, size in _stretches(trainer, sample, first, count):
        yield trainer.oracle.batch(*examples.batch(torch.arange(start, start + size)))


def _stretches(trainer: Trainer, sample: Sample, first: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the batches of a stretch; whatever a data set draws is keyed by where it is."""
    for start, size in even_chunks(count, trainer.task.test_batch):
        torch.default_generator.manual_seed(key(trainer.settings.seed, sample.of, first + start))
        yield first + start, size


def opened(trainer: Trainer, sample: Sample) -> Examples:
    """Return a sample's examples; they are looked up once."""
    known = _OPENED.setdefault(trainer, {})
    if sample not in known:
        known[sample] = sample.examples(trainer.task)
    return known[sample]
