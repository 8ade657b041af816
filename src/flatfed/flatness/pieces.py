"""The arithmetic of a surface, piece by piece, wherever an engine runs it.

Each piece works on a stretch of a sample's examples and returns sums over it: batches count by their size, and by the
targets that are not to be ignored. The model is in inference mode; nothing is augmented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from flatfed.core.evaluation.metrics import add_up
from flatfed.core.evaluation.statistics import Statistics, even_chunks
from flatfed.core.method.state import State
from flatfed.core.model.devices import CPU
from flatfed.core.model.layout import BUFFERS, LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS
from flatfed.core.randomness import key, torch_generator
from flatfed.core.round.trainer import Trainer
from flatfed.core.task.examples import Examples
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
    policy = shown(trainer, given["w"], given)
    for inputs, targets in batches(trainer, sample, first, count):
        with trainer.inference(policy):
            outputs = trainer.inferred(inputs)
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


def output_norms(trainer: Trainer, given: Given, sample: Sample, first: int, count: int) -> Given:
    """Return the norm of the outputs of each example."""
    policy, found = shown(trainer, given["w"], given), []
    for inputs, _ in batches(trainer, sample, first, count):
        with torch.no_grad(), trainer.inference(policy):
            outputs = trainer.inferred(inputs)
        scores = outputs[0] if isinstance(outputs, tuple | list) else outputs
        found.append(scores.flatten(1).double().norm(dim=1).to(CPU))
    return {"norms": torch.cat(found)}


def shown(trainer: Trainer, w: Tensor, given: Given) -> Statistics | None:
    """Put the model into inference mode with what is given, a client's own parts included.

    Return the policy for BatchNorm: a client with statistics of its own is measured with these.
    """
    kept = State({name: given[name] for name in (LOCAL_PARAMETERS, LOCAL_BUFFERS, LOCAL_COUNTERS) if name in given})
    trainer.show(w, given, kept)
    return "running" if LOCAL_BUFFERS in kept else None


def _keep_variances(trainer: Trainer, buffers: Tensor) -> None:
    """Let no variance be negative: beyond two models, an affine combination of theirs may be."""
    for piece in trainer.layout.buffers:
        if piece.name.endswith("running_var") and piece.offset + piece.size <= len(buffers):
            piece.view(buffers).clamp_(min=0)


def _totals(trainer: Trainer, w: Tensor, given: Given, sample: Sample, first: int, count: int) -> Given:
    examples, parts = opened(trainer, sample), []
    for start, size in _stretches(trainer, sample, first, count):
        parts.append(trainer.totals(examples, start, size, shown(trainer, w, given)))
    return add_up(parts)


def batches(trainer: Trainer, sample: Sample, first: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the prepared batches of a stretch of a sample."""
    examples = opened(trainer, sample)
    for start, size in _stretches(trainer, sample, first, count):
        yield trainer.oracle.batch(*examples.batch(torch.arange(start, start + size)))


def _stretches(trainer: Trainer, sample: Sample, first: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the batches of a stretch, of the one division that a sample has; a data set's draws are keyed by place."""
    for start, size in even_chunks(len(opened(trainer, sample)), trainer.task.test_batch):
        if first <= start < first + count:
            torch.default_generator.manual_seed(key(trainer.settings.seed, sample.of, start))
            yield start, size


def opened(trainer: Trainer, sample: Sample) -> Examples:
    """Return a sample's examples; they are looked up once."""
    known = _OPENED.setdefault(trainer, {})
    if sample not in known:
        known[sample] = sample.examples(trainer.task)
    return known[sample]
