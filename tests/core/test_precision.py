"""Mixed precision: autocast against a loop of torch, loss scaling with SAM, overflows; compiled models."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from core.bench import net, pairs, same_run, seeded, task, train
from flatfed.core.model.precision import FIRST_SCALE, AutocastForward

SIZES, LR, RHO = (8, 8, 4), 0.2, 0.5
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
HERE: dict[str, Any] = {
    "cohorts": [[0, 1, 2]] * 2,
    "lr": LR,
    "batch_size": 4,
    "dtype": torch.float32,
}


def problem(model: nn.Module | None = None) -> ff.Task:
    clients = pairs(SIZES, dtype=torch.float32)
    return task((model or net()).float(), clients=clients, test=clients[0])


def flat_gradient(model: nn.Module, x: Tensor, y: Tensor, dtype: torch.dtype, scale: float) -> Tensor:
    """Return a gradient under autocast, of the scaled loss, unscaled."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=dtype):
        outputs = model(x)
    (scale * nn.functional.cross_entropy(outputs.float(), y)).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()]) / scale


class Loud(nn.Module):
    """A layer that makes gradients large: times the first scale they are beyond fp16."""

    def forward(self, x: Tensor) -> Tensor:
        return 100 * x


def loud(*middle: nn.Module) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(4, 5), *middle, Loud(), nn.Linear(5, 3)))


def put(model: nn.Module, w: Tensor) -> None:
    nn.utils.vector_to_parameters(w, model.parameters())


@pytest.mark.parametrize("precision", TYPES)
def test_sam_in_mixed_precision_is_a_loop_of_torch(precision: str) -> None:
    scale = FIRST_SCALE if precision == "fp16" else 1.0
    (x, y), model = pairs((6,), dtype=torch.float32)[0], net().float()
    run = train(
        task(net().float(), clients=[(x, y)], test=(x, y)),
        ff.make("fedavg", client_opt=ff.SAM(rho=RHO)),
        cohorts=[[0]] * 3,
        lr=LR,
        precision=precision,
        dtype=torch.float32,
    )
    w = nn.utils.parameters_to_vector(model.parameters()).detach()
    for _ in range(3):
        put(model, w)
        ascent = flat_gradient(model, x, y, TYPES[precision], scale)
        put(model, w + RHO * ascent / (ascent.norm() + 1e-16))
        w = w - LR * flat_gradient(model, x, y, TYPES[precision], scale)
    torch.testing.assert_close(run.vector, w, rtol=1e-5, atol=1e-6)
    # It is another way than that of float32, and not far from it.
    exact = train(problem(), cohorts=[[0]], dtype=torch.float32).vector
    mixed = train(problem(), cohorts=[[0]], dtype=torch.float32, precision=precision).vector
    assert mixed.dtype == torch.float32
    assert not torch.equal(exact, mixed)
    torch.testing.assert_close(exact, mixed, rtol=0.05, atol=0.02)


def test_an_overflow_repeats_the_pass_with_half_the_scale() -> None:
    method = ff.make("fedavg", client_opt=ff.SAM(rho=RHO))
    run = train(problem(loud()), method, precision="fp16", **(HERE | {"lr": 1e-4}))
    steps = sum(size // 4 for size in SIZES)
    for row in run.history:
        repeated = round(len(SIZES) * row["watch"]["overflows"])
        assert repeated > 0
        assert row["backprops"] == 2 * steps + repeated
    exact = train(problem(loud()), method, **(HERE | {"lr": 1e-4}))
    torch.testing.assert_close(run.vector, exact.vector, rtol=0.02, atol=0.02)


def test_a_repeated_pass_moves_statistics_once() -> None:
    run, exact = (
        train(problem(loud(nn.BatchNorm1d(5))), precision=precision, **(HERE | {"lr": 0.0}))
        for precision in ("fp16", "float32")
    )
    assert run.history[0]["watch"]["overflows"] > 0
    for name, value in exact._federation.server.buffers.items():  # the number of batches among them
        torch.testing.assert_close(run._federation.server.buffers[name], value, rtol=0.01, atol=0.001)


def test_a_repeated_pass_has_the_same_dropout() -> None:
    """Then one step is that of float32, which has no pass repeated, to rounding."""
    step = HERE | {"lr": 1e-4, "cohorts": [[2]]}
    run, exact = (
        train(problem(loud(nn.Dropout(0.5))), precision=precision, **step) for precision in ("fp16", "float32")
    )
    assert run.history[0]["watch"]["overflows"] > 0
    start = nn.utils.parameters_to_vector(loud(nn.Dropout(0.5)).parameters()).detach()
    assert float((run.vector - exact.vector).norm()) < 0.02 * float((exact.vector - start).norm())


@pytest.mark.parametrize("precision", TYPES)
def test_workers_and_resuming_change_no_bit(precision: str, tmp_path: Any) -> None:
    common = HERE | {"precision": precision, "cohorts": [[0, 1], [1, 2], [0, 2]]}
    whole = train(problem(loud(nn.BatchNorm1d(5))), "fedavg+sam", **common)
    spread = train(problem(loud(nn.BatchNorm1d(5))), "fedavg+sam", workers=2, **common)
    assert same_run(whole, spread, len(SIZES))
    assert [row.get("watch") for row in whole.history] == [row.get("watch") for row in spread.history]

    class Enough(Exception):
        """The run is stopped after its second round."""

    def stop(row: Any) -> None:
        if row["round"] == 1:
            raise Enough

    with pytest.raises(Enough):
        train(problem(loud(nn.BatchNorm1d(5))), "fedavg+sam", out=tmp_path, checkpoint_every=1, on_round=stop, **common)
    assert same_run(whole, ff.resume(tmp_path), len(SIZES))


def test_evaluation_and_measurements_are_in_float32() -> None:
    run = train(problem(), precision="bf16", watch="loss:1", **HERE)
    (x, y), model = pairs(SIZES, dtype=torch.float32)[0], net().float()
    put(model, run.vector)
    with torch.no_grad():
        exact = float(nn.functional.cross_entropy(model(x), y))
    assert run.history[-1]["test_loss"] == pytest.approx(exact, rel=1e-6)


def test_many_clients_in_mixed_precision_go_one_by_one() -> None:
    clients = pairs((4,) * 8, dtype=torch.float32)
    common = {"cohorts": [list(range(8))], "dtype": torch.float32, "precision": "bf16"}
    assert not train(task(net().float(), clients), **common, vectorised=None)._federation.settings.vectorised
    with pytest.raises(ff.ConfigError, match="trained in bf16"):
        train(task(net().float(), clients), **common, vectorised=True)


class OnlyInFloat32(nn.Module):
    """A model that does not take shorter numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        if y.dtype == torch.float16:
            raise RuntimeError('"mine" not implemented for Half')
        return y


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        (net, {"precision": "bf16", "dtype": torch.float64}, "leave dtype at float32"),
        (net, {"precision": "bf8"}, "one of 'float32', 'bf16', 'fp16'"),
        (net, {"compile": True, "batch_size": None}, "needs a batch size"),
        (OnlyInFloat32, {"precision": "fp16"}, "does not run in fp16 here .* not implemented for Half.* leave it out"),
    ],
)
def test_what_cannot_be_is_a_sentence(model: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ff.ConfigError, match=words):
        train(problem(seeded(model)), **(HERE | settings))


@pytest.mark.parametrize("pad", [0, None])
def test_rows_that_are_filled_up_are_not_compiled(pad: int | None) -> None:
    """Each length would be compiled for itself, and beyond a number of them none: what came before would decide."""
    texts = [([1, 2, 3], 0), ([1], 1), ([2, 0], 1)]
    clients = [texts] if pad is not None else [(ff.Ragged([x for x, _ in texts]), torch.tensor([0, 1, 1]))]
    words = nn.Sequential(nn.Embedding(4, 3), nn.Flatten(), nn.Linear(9, 2))
    with pytest.raises(ff.ConfigError, match="compile takes examples of one tensor"):
        train(ff.Task(words, clients, pad=pad), **(HERE | {"cohorts": [[0]], "compile": True, "batch_size": 2}))


def test_outputs_of_every_form_are_float32() -> None:
    half = torch.ones(2, dtype=torch.float16)
    whole = torch.ones(2, dtype=torch.int64)
    forward = AutocastForward(lambda: {"a": half, "b": (half, [whole])}, torch.float16, "cpu")
    outputs = forward()
    assert outputs["a"].dtype == outputs["b"][0].dtype == torch.float32
    assert outputs["b"][1][0].dtype == torch.int64


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, while it compiles
def test_a_compiled_model_is_the_same_to_rounding_on_any_number_of_workers() -> None:
    """Slow: the compiler runs."""
    plain = train(problem(), "fedavg+sam", **HERE)
    compiled = train(problem(), "fedavg+sam", compile=True, **HERE)
    torch.testing.assert_close(compiled.vector, plain.vector, rtol=1e-5, atol=1e-6)
    assert compiled._federation.settings.to_dict()["compile"] is True
    spread = train(problem(), "fedavg+sam", compile=True, workers=1, **HERE)
    assert same_run(compiled, spread, len(SIZES))
