"""LoRA: adapters alone are trained, travel and are counted; flatness in their space and in that of all parameters."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from torch import nn

import flatfed as ff
from flatfed.hub_models.adapters import in_full_space
from flatfed.hub_models.hub_libraries import without_deprecations
from hugging_face.test_models import SMALL, dense_hessian
from hugging_face.tiny import bert, gpt2, rows, tokenizer

RANK = 2
LORA = {"r": RANK, "target_modules": ["query", "value"]}


def task(model: nn.Module | None = None, lora: Any = LORA) -> ff.Task:
    clients = [rows(0), rows(1), rows(3)]
    return ff.hugging_face(model or bert(), tokenizer(), clients=clients, test=rows(2), lora=lora)


def trained(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("method", ["fedsam", "scaffold"])
def test_adapters_alone_travel_and_are_counted(method: str) -> None:
    problem = task()
    # Two matrices for each of query and value, and the head of the classes.
    size = 2 * 2 * 8 * RANK + 3 * 8 + 3
    run = ff.train(problem, method, **SMALL)
    assert len(run.vector) == size == trained(problem.model)
    vectors = 2 if method == "scaffold" else 1
    # To two clients: vectors of four bytes per entry, and two numbers of eight bytes.
    assert run.history[-1]["bytes_down"] == 2 * (vectors * 4 * size + 2 * 8)
    before, after = problem.model.state_dict(), run.model().state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and all("lora_" in name or "modules_to_save" in name for name in moved)


def test_workers_and_resumed_runs_come_to_the_same_bits(tmp_path: Path) -> None:
    problem = task(bert(dropout=0.1))
    run = ff.train(problem, "fedsam", **SMALL)
    assert torch.equal(ff.train(problem, "fedsam", **{**SMALL, "workers": 2}).vector, run.vector)
    ff.train(problem, "fedsam", **{**SMALL, "rounds": 1}, out=tmp_path / "run")
    assert torch.equal(ff.resume(tmp_path / "run", rounds=2, task=problem).vector, run.vector)


def test_a_model_with_adapters_is_taken_as_it_is() -> None:
    config = peft.LoraConfig(lora_alpha=2 * RANK, modules_to_save=["classifier"], **LORA)
    with without_deprecations():
        adapted = peft.get_peft_model(bert(), config)
    own = task(adapted, lora=None)
    assert own.layout().order == task().layout().order
    assert trained(own.model) == trained(task().model)
    assert trained(task(lora=config).model) == trained(own.model)


def test_a_causal_model_has_adapters_too() -> None:
    problem = ff.hugging_face(gpt2(), tokenizer(), clients=[rows(), rows(1)], lora={"r": 1, "fan_in_fan_out": True})
    run = ff.train(problem, "fedavg", **SMALL)
    assert len(run.vector) == 8 + 24


def largest(lab: Any) -> Any:
    return lab.measure("lambda_max(tolerance=1e-6)")["lambda_max"]


def test_both_spaces_have_the_eigenvalue_of_their_dense_hessian(tmp_path: Path) -> None:
    problem = task(bert().double())
    run = ff.train(problem, "fedsam", **SMALL, dtype=torch.float64, out=tmp_path / "run")
    found = {}
    for space in ("trained", "full"):
        with ff.laboratory(run, space=space, workers=0) as lab:
            result = largest(lab)
            at = lab.surface.w
            of = lab.surface.task
            found[space] = result.numbers["lambda_max"]
            expected = float(torch.linalg.eigvalsh(dense_hessian(_at(of, at), at))[-1])
            assert found[space] == pytest.approx(expected, rel=1e-6)
            assert f"in the {space} space" in result.remark
            size = sum(p.numel() for p in bert().parameters()) if space == "full" else len(run.vector)
            assert len(at) == size
    assert found["full"] != pytest.approx(found["trained"], rel=0.01)
    # Kept results of the two are not mistaken for each other.
    with ff.laboratory(tmp_path / "run", task=problem, space="full", workers=0) as lab:
        assert largest(lab).numbers["lambda_max"] == found["full"]
    with ff.laboratory(tmp_path / "run", task=problem, workers=0) as lab:
        assert largest(lab).numbers["lambda_max"] == found["trained"]


def _at(problem: ff.Task, w: torch.Tensor) -> ff.Task:
    problem.layout().write(w, problem.model)
    return problem


def test_the_card_of_adapters_loads_them(tmp_path: Path) -> None:
    run = ff.train(task(), "fedavg", **SMALL)
    files = run.export(tmp_path / "adapters", "hf")
    assert len(set(files)) == len(files)
    bert().save_pretrained(tmp_path / "base")
    code = (tmp_path / "adapters/README.md").read_text().split("```")[1].removeprefix("python")
    for name in ("base", "adapters"):
        code = code.replace({"base": '"BASE"', "adapters": '"FOLDER"'}[name], repr(str(tmp_path / name)))
    loaded: dict[str, Any] = {}
    with without_deprecations():
        exec(code, loaded)
    tokens = torch.tensor([[5, 6, 7]])
    expected = run.model()(input_ids=tokens)["logits"]
    assert torch.equal(loaded["model"].eval()(input_ids=tokens).logits, expected)


def test_merging_changes_no_loss() -> None:
    problem = task(bert().double())
    run = ff.train(problem, "fedavg", **SMALL, dtype=torch.float64)
    losses = []
    for space in ("trained", "full"):
        with ff.laboratory(run, space=space, workers=0) as lab:
            losses.append(lab.surface.loss())
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_the_full_space_of_frozen_layers_has_them_all() -> None:
    model = bert()
    for parameter in model.bert.parameters():
        parameter.requires_grad_(False)
    problem = ff.hugging_face(model, tokenizer(), clients=[rows()])
    assert in_full_space(problem).layout().size == sum(parameter.numel() for parameter in model.parameters())
    assert problem.layout().size == 3 * 8 + 3


def test_the_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "lora.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert float(printed.split()[1].rstrip(";")) > 0.9
    assert "290 of 2836" in printed and "in the full space" in printed


MISTAKES: dict[str, tuple[Any, str]] = {
    "layers": ({"target_modules": ["nowhere"]}, "name the layers"),
    "argument": ({"rank": 2}, "rank"),
    "kind": ("8", "a rank"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_sentences(name: str) -> None:
    lora, sentence = MISTAKES[name]
    with pytest.raises(ff.ConfigError, match=sentence):
        task(lora=lora)
    with pytest.raises(ff.ConfigError, match="'trained' or 'full'"):
        ff.laboratory(task(lora=None), space="all")  # type: ignore[arg-type]
