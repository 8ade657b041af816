"""The full space of real models: a step by merged weights, and adapters of which there is no full space."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.hub_models.hub_libraries import without_deprecations
from hugging_face.test_models import arguments, written_model, written_texts
from hugging_face.tiny import KINDS, bert, gpt2, rows, tokenizer, written

RHO, LR, RANK, SCALE = 0.3, 0.5, 2, 2.0
TARGETS = {"gpt2": ["c_attn", "c_proj"], "vit": ["q_proj", "v_proj"], "t5": ["q", "v", "wi"]}


def problem(kind: str) -> ff.Task:
    """Return a task of one client and one batch, whose adapters are not zero."""
    make, source = KINDS[kind]
    lora = {"r": RANK, "target_modules": TARGETS[kind], "fan_in_fan_out": kind == "gpt2"}
    with without_deprecations():
        task = ff.hugging_face(make().double(), tokenizer(), clients=[source(0)], lora=lora)
    generator = torch.Generator().manual_seed(1)
    for parameter in task.model.parameters():
        if parameter.requires_grad:
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data.copy_(0.5 * drawn)
    return task


def merged(run: ff.Run) -> nn.Module:
    with without_deprecations():
        model: nn.Module = run.model().merge_and_unload()  # type: ignore[operator]  # of a model of peft
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model


def gradients(model: nn.Module, batch: Any, task: ff.Task) -> dict[str, Tensor]:
    """Return the gradient of the loss by each parameter that it depends on."""
    inputs, targets = batch
    named = dict(model.named_parameters())
    loss = task.criterion(model(**inputs), targets)
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(named, found, strict=True) if gradient is not None}


@pytest.mark.parametrize("kind", TARGETS)
def test_a_step_follows_from_the_gradients_of_the_merged_model(kind: str) -> None:
    task = problem(kind)
    how: dict[str, Any] = {"sampling": 1, "weight_decay": 0.0, "batch_size": None, "dtype": torch.float64, "workers": 0}
    still = ff.train(task, "fedavg", rounds=1, lr=1e-300, **how)
    moved = ff.train(task, f"fedsam(rho={RHO},space=full)", rounds=1, lr=LR, **how)
    model = merged(still)
    batch = task.examples(0).batch(torch.arange(len(task.examples(0))))
    uphill = gradients(model, batch, task)
    length = torch.sqrt(torch.stack([gradient.square().sum() for gradient in uphill.values()]).sum())
    for name, parameter in model.named_parameters():
        if name in uphill:
            parameter.data.add_(uphill[name], alpha=float(RHO / length))
    there = gradients(model, batch, task)
    before, after = dict(still.model().named_parameters()), dict(moved.model().named_parameters())
    compared = 0
    for name, parameter in before.items():
        plain = name.removeprefix("base_model.model.")
        if ".lora_A." in name:
            whole = there[plain.replace("lora_A.default.", "")]
            # A layer of GPT-2 holds its weight the other way round.
            whole = whole.T if kind == "gpt2" else whole
            B, A = before[name.replace("lora_A", "lora_B")], parameter
            steps = {name: SCALE * B.T @ whole, name.replace("lora_A", "lora_B"): SCALE * whole @ A.T}
        elif "modules_to_save" in name:
            steps = {name: there[plain.replace("modules_to_save.default.", "")]}
        else:
            continue
        for of, step in steps.items():
            torch.testing.assert_close(after[of], before[of] - LR * step, rtol=1e-9, atol=1e-11)
            assert float(step.detach().abs().max()) > 1e-6
            compared += 1
    assert compared >= 4


WITHOUT: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "the embedding of a tied head": (gpt2, rows, {"target_modules": ["wte"]}, "that another layer shares"),
    "a tied head": (gpt2, rows, {"target_modules": ["lm_head"]}, "that another layer shares"),
    "a bias of its own": (
        KINDS["t5"][0],
        written,
        {"target_modules": ["q"], "lora_bias": True},
        "a bias where the layer has none",
    ),
}


@pytest.mark.parametrize("case", WITHOUT)
def test_adapters_without_a_full_space_are_refused(case: str) -> None:
    make, source, lora, message = WITHOUT[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft says that such adapters cannot be merged well
        task = ff.hugging_face(make(), tokenizer(), clients=[source(0)], lora={"r": RANK, **lora})
    run = ff.train(task, "fedsam", rounds=1, sampling=1, lr=0.1, workers=0)
    with pytest.raises(ConfigError, match=message):
        ff.train(task, "fedsam(space=full)", rounds=1, sampling=1, lr=0.1, workers=0)
    with pytest.raises(ConfigError, match=message):
        ff.laboratory(run, space="full")


# --- statistics ----------------------------------------------------------------------------------------------


def normalised(**local: Any) -> ff.Task:
    """Return a task whose model has BatchNorm behind a frozen layer, and clients with other means."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    for number, parameter in enumerate(model.parameters()):
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
        parameter.requires_grad_(number > 1)
    clients = [(torch.randn(8, 3, generator=generator).double() + shift, torch.arange(8) % 3) for shift in (0, 1, 2)]
    return ff.Task(model, clients, **local)


@pytest.mark.parametrize(
    ("local", "statistics"),
    [(None, "running"), (None, "batch-stats"), (None, "recalibrate"), ("bn", None), ("bn-stats", None)],
)
def test_a_model_has_the_statistics_in_both_spaces_that_it_is_evaluated_with(local: Any, statistics: Any) -> None:
    how: dict[str, Any] = {"rounds": 2, "sampling": 3, "lr": 0.1, "batch_size": 4, "dtype": torch.float64, "workers": 0}
    task = normalised(local=local) if local else normalised()
    run = ff.train(task, "fedsam(space=full)", **how, eval_stats=statistics)
    losses = []
    for space in ("trained", "full"):
        with ff.laboratory(run, space=space, workers=0) as lab:
            losses.append(lab.surface.loss())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


def test_clients_with_statistics_of_their_own_are_not_lifted() -> None:
    task = normalised(local="bn-stats")
    run = ff.train(task, "fedavg", rounds=1, sampling=3, lr=0.1, batch_size=4, dtype=torch.float64, workers=0)
    with ff.laboratory(run, space="full", workers=0) as lab, pytest.raises(ConfigError, match="stay on the clients"):
        lab.lift(lab.run.server.w)


def test_what_cannot_be_trained_is_said_before_a_run_begins(tmp_path: Path) -> None:
    texts, model = written_texts(tmp_path), written_model(tmp_path, bert())
    for method in ("fedsam(space=full)", "scaffold+sam(space=full)"):
        words = arguments(texts, model, tmp_path / "run", "--set", 'model.lora={"r": 2, "use_dora": true}')
        words[words.index("fedsam")] = method
        refused = flatfed(*words, "--workers", 2)
        assert refused.code == 2
        assert "does not only add to a weight; choose the trained space" in refused.err
        assert not (tmp_path / "run").exists()
