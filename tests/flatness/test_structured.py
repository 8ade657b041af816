"""Hessian products, flatness and landscapes of models with several inputs, attention and recurrence; dense truths."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import flatfed as ff
from core.bench import seeded, train
from flatfed.flatness import products
from flatfed.flatness.spectra.stochastic import trace
from flatness.problems import close

CLASSES, WORDS, WIDTH = 2, 4, 4
LENGTHS = ((3, 2), (1, 3))


class Attention(nn.Module):
    """One block of attention with torch's own function, which has no second derivative as a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.three, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        x = self.words(input_ids)
        parts = self.three(self.norm(x)).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        mask = attention_mask.bool()[:, None, None, :]
        mixed = F.scaled_dot_product_attention(*parts, attn_mask=mask).transpose(1, 2).flatten(2)
        kept = attention_mask.unsqueeze(-1).to(x.dtype)
        pooled = ((x + mixed) * kept).sum(dim=1) / kept.sum(dim=1)
        return {"logits": self.out(pooled), "hidden": mixed}


class Causal(Attention):
    """The same for the next word, each place seeing those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Any:
        x = self.words(input_ids)
        parts = self.three(self.norm(x)).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        logits = self.out(x + mixed)
        loss = {} if labels is None else {"loss": ff.causal_cross_entropy(logits, labels)}
        return {**loss, "logits": logits}


class Recurrent(nn.Module):
    """An LSTM, and the mean of its states."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.steps = nn.Embedding(WORDS, 2), nn.LSTM(2, 2, batch_first=True)
        self.out = nn.Linear(2, CLASSES)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        states, _ = self.steps(self.words(input_ids))
        kept = attention_mask.unsqueeze(-1).to(states.dtype)
        return self.out((states * kept).sum(dim=1) / kept.sum(dim=1)), states


class ConvNeXt(nn.Module):
    """A block as in ConvNeXt: depthwise convolution, LayerNorm over channels, two linear layers, a learnt scale."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depthwise = nn.Conv2d(1, 3, 2, stride=2), nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.norm, self.wide, self.narrow = nn.LayerNorm(3), nn.Linear(3, 4), nn.Linear(4, 3)
        self.scale, self.out = nn.Parameter(torch.full((3,), 0.5)), nn.Linear(3, CLASSES)

    def forward(self, pixel_values: Tensor) -> Any:
        x = self.stem(pixel_values)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = (self.scale * self.narrow(F.gelu(self.wide(y)))).permute(0, 3, 1, 2)
        return {"logits": self.out((x + y).mean(dim=(2, 3)))}


def texts(seed: int, lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(0, WORDS, (n,), generator=generator).tolist() for n in lengths]
    return [{"input_ids": row, "attention_mask": [1] * len(row), "labels": i % CLASSES} for i, row in enumerate(ids)]


def task(kind: str, **changes: Any) -> ff.Task:
    """Return a task whose clients hold texts of different length, or images by name."""
    if kind == "convnext":
        generator = torch.Generator().manual_seed(0)
        pixels = torch.randn(4, 1, 4, 4, generator=generator).double()
        whole = {"pixel_values": pixels, "labels": torch.arange(4) % CLASSES}
        sources: Any = [{name: value[part] for name, value in whole.items()} for part in (slice(1), slice(1, 4))]
        return ff.Task(seeded(ConvNeXt).double(), sources, test_batch=2)
    sources = [texts(seed, lengths) for seed, lengths in enumerate(LENGTHS)]
    if kind.startswith("causal"):
        sources = [[{"input_ids": example["input_ids"]} for example in examples] for examples in sources]
        own = {"loss": ff.model_loss, "metrics": ff.CausalLanguageModel()} if kind == "causal, own loss" else {}
        changes = {"loss": ff.causal_cross_entropy, **own, **changes}
    models = {"attention": Attention, "lstm": Recurrent}
    return ff.Task(seeded(models.get(kind, Causal)).double(), sources, pad=0, test_batch=2, **changes)


KINDS = ("attention", "lstm", "convnext", "causal", "causal, own loss")


def opened(problem: ff.Task, workers: int = 0) -> Any:
    """Return the laboratory of a model that has been trained for a round."""
    return ff.laboratory(train(problem, cohorts=[[0, 1]], lr=0.1), workers=workers)


class Dense:
    """The mean loss over all examples, each alone and so without anything that fills rows up."""

    def __init__(self, problem: ff.Task, kind: str) -> None:
        self.model, self.layout = problem.fresh_model(torch.float64).eval(), problem.layout()
        self.is_causal = kind.startswith("causal")
        whole = [problem.examples(k).batch(torch.tensor([i])) for k in range(2) for i in range(problem.samples(k))]
        self.examples = [(self._inputs(inputs), targets) for inputs, targets in whole]

    def _inputs(self, inputs: Any) -> Any:
        return {name: value for name, value in inputs.items() if name != "labels"}

    def loss(self, w: Tensor) -> Tensor:
        values = {piece.name: piece.view(w) for piece in self.layout.parameters}
        total, count = w.new_zeros(()), 0
        for inputs, targets in self.examples:
            outputs = torch.func.functional_call(self.model, values, (), inputs)
            scores = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
            if self.is_causal:
                scores, targets = scores[0, :-1], targets[0, 1:]
            total, count = total + F.cross_entropy(scores, targets, reduction="sum"), count + len(targets)
        return total / count

    def hessian(self, w: Tensor) -> Tensor:
        with products.plain_attention():
            found: Any = torch.autograd.functional.hessian(self.loss, w)
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_eigenvalue_trace_and_products_are_those_of_the_dense_hessian(kind: str) -> None:
    problem = task(kind)
    with opened(problem) as lab:
        truth, surface = Dense(problem, kind), lab.surface
        hessian = truth.hessian(surface.w)
        v = torch.randn(surface.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        close(surface.product(v), hessian @ v)
        assert surface.loss() == pytest.approx(float(truth.loss(surface.w)), rel=1e-12)
        results = lab.measure("lambda_max(tolerance=1e-6)", "trace(samples=3)")
        largest = float(torch.linalg.eigvalsh(hessian)[-1])
        assert results["lambda_max"].numbers["lambda_max"] == pytest.approx(largest, rel=1e-6)
        # The same random vectors, so that the estimates are the same.
        expected = trace(lambda v: hessian @ v, surface.size, samples=3, dtype=torch.float64)
        assert results["trace"].numbers["trace"] == pytest.approx(expected.value, rel=1e-9)


@pytest.mark.parametrize("kind", ["attention", "lstm", "causal"])
def test_gradient_and_gauss_newton(kind: str) -> None:
    problem = task(kind)
    with opened(problem) as lab:
        truth, surface = Dense(problem, kind), lab.surface
        w = surface.w.clone().requires_grad_()
        close(surface.gradient(), torch.autograd.grad(truth.loss(w), w)[0])
        v = torch.ones(surface.size, dtype=torch.float64)
        # Positive semidefinite, and the Hessian where outputs are linear: in the last layer's parameters.
        product = surface.gauss_newton_product(v)
        assert float(product @ v) > 0
        last = [piece for piece in surface.layout.parameters if piece.name.startswith("out")]
        u = torch.zeros_like(v)
        for piece in last:
            piece.view(u).normal_(generator=torch.Generator().manual_seed(2))
        bent, newton = truth.hessian(surface.w) @ u, surface.gauss_newton_product(u)
        for piece in last:
            close(piece.view(newton), piece.view(bent))


def test_a_model_with_its_own_loss_has_no_gauss_newton_matrix() -> None:
    with opened(task("causal, own loss")) as lab, pytest.raises(ff.ConfigError, match="computes its loss itself"):
        lab.surface.gauss_newton_product(lab.surface.w)


def test_fused_attention_is_left_alone_elsewhere() -> None:
    before = torch.backends.cuda.flash_sdp_enabled()
    with opened(task("attention")) as lab:
        lab.surface.product(lab.surface.w)
    assert torch.backends.cuda.flash_sdp_enabled() == before


def test_landscapes_and_workers() -> None:
    problem = task("causal")
    with opened(problem) as alone, opened(problem, workers=2) as together:
        direction = torch.ones_like(alone.surface.w)
        points = [(0.0,), (0.1,), (-0.2,)]
        metrics = [lab.surface.metrics_at(points, [direction]) for lab in (alone, together)]
        assert metrics[0] == metrics[1]
        truth = Dense(problem, "causal")
        for (step,), found in zip(points, metrics[0], strict=True):
            expected = float(truth.loss(alone.surface.w + step * direction))
            assert found["loss"] == pytest.approx(expected, rel=1e-12)
            assert found["perplexity"] == pytest.approx(float(torch.tensor(expected).exp()), rel=1e-6)
        assert torch.equal(alone.surface.product(direction), together.surface.product(direction))
