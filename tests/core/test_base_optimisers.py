"""Base optimisers against torch's own, and Muon against NumPy; what is kept, resumed and recorded; who warns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from core.bench import close, conv_net, flat, images, net, pairs, same_run, task, train
from flatfed.core.configuration.base_optimiser import BaseOptimiser, SGDStep, StepState
from flatfed.core.configuration.settings import Settings, without_later
from flatfed.core.method.client import Client
from flatfed.core.method.state import vector
from flatfed.core.task.examples import epoch_batches
from flatfed.runs.directory import RunDirectory

ONE = pairs((11,))
LR, ROUNDS, EPOCHS, SIZE = 0.02, 3, 2, 4
HERE: dict[str, Any] = {"cohorts": [[0]] * ROUNDS, "lr": LR, "local_epochs": EPOCHS, "batch_size": SIZE}
Moves = Callable[[nn.Module], torch.optim.Optimizer]


def batches(round: int, n: int = 11, client: int = 0) -> Iterator[Tensor]:
    """Yield the index batches of a round."""
    for epoch in range(EPOCHS):
        yield from epoch_batches(n, SIZE, (0, "shuffle", round, 0, client, epoch))


def by_torch(make: Moves, keep: bool = False, clip: float | None = None) -> Tensor:
    """Return where an optimiser of torch leads on the client's batches, made anew in every round unless kept."""
    model, (x, y) = net(), ONE[0]
    optimiser = make(model)
    for round in range(ROUNDS):
        optimiser = optimiser if keep else make(model)
        for indices in batches(round):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[indices]), y[indices]).backward()
            if clip is not None:
                length = float(torch.cat([p.grad.flatten() for p in model.parameters()]).norm())
                for p in model.parameters():
                    p.grad.mul_(min(1.0, clip / length))
            optimiser.step()
    return flat(model)


PAIRS: dict[str, tuple[Any, dict[str, Any], Moves]] = {
    "adam": (
        ff.Adam(),
        {"weight_decay": 0.1},
        lambda model: torch.optim.Adam(model.parameters(), lr=LR, weight_decay=0.1),
    ),
    "adam with other parameters": (
        "adam(beta1=0.5, beta2=0.8, eps=1e-4)",
        {},
        lambda model: torch.optim.Adam(model.parameters(), lr=LR, betas=(0.5, 0.8), eps=1e-4),
    ),
    "adamw": (
        ff.AdamW(beta2=0.99),
        {"weight_decay": 0.1},
        lambda model: torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.99), weight_decay=0.1),
    ),
    "nesterov": (
        ff.SGDStep(nesterov=True),
        {"weight_decay": 0.1, "momentum": 0.8},
        lambda model: torch.optim.SGD(model.parameters(), lr=LR, momentum=0.8, weight_decay=0.1, nesterov=True),
    ),
    "momentum": (
        "sgd",
        {"momentum": 0.8},
        lambda model: torch.optim.SGD(model.parameters(), lr=LR, momentum=0.8),
    ),
}


@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_one_client_goes_where_torch_goes(name: str, keep: bool, clip: float | None) -> None:
    base, settings, moves = PAIRS[name]
    base = Settings(rounds=1, lr=0.1, base_opt=base).base_opt.replace(keep=keep)
    run = train(task(clients=ONE), base_opt=base, clip=clip, **HERE, **settings)
    torch.testing.assert_close(run.vector, by_torch(moves, keep, clip), rtol=1e-12, atol=1e-12)


def newton_schulz(matrix: np.ndarray, iterations: int = 5) -> np.ndarray:
    """Return the polynomial of the singular values, by a decomposition instead of products."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    s = s / np.sqrt((s**2).sum())
    for _ in range(iterations):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ np.diag(s) @ v


def by_numpy(fallback: str, rounds: int, keep: bool, nesterov: bool, decay: float) -> Tensor:
    """Return where Muon leads on a network with a convolution."""
    model, (x, y) = conv_net(), images()
    state: dict[str, list[Any]] = {}
    for _ in range(rounds):
        state = state if keep else {}
        for _ in range(EPOCHS):
            model.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            for name, p in model.named_parameters():
                m, v, t = state.get(name, [0.0, 0.0, 0])
                g, t = p.grad.numpy(), t + 1
                w = p.detach().numpy() * (1 - LR * decay)
                if g.ndim == 1 and fallback == "adamw":
                    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                    w = w - 0.5 * LR * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
                else:
                    m = 0.95 * m + 0.05 * g
                    step = 0.05 * g + 0.95 * m if nesterov else m
                    if g.ndim > 1:
                        matrix = newton_schulz(step.reshape(len(g), -1))
                        w = w - LR * max(1, matrix.shape[0] / matrix.shape[1]) ** 0.5 * matrix.reshape(g.shape)
                    else:
                        w = w - 0.5 * LR * step
                state[name] = [m, v, t]
                p.data = torch.from_numpy(w)
    return flat(model)


@pytest.mark.parametrize(("fallback", "keep", "nesterov"), [("adamw", True, True), ("sgd", False, False)])
def test_muon_goes_where_numpy_goes(fallback: str, keep: bool, nesterov: bool) -> None:
    base = ff.Muon(fallback=fallback, fallback_lr=0.5, keep=keep, nesterov=nesterov)
    run = train(
        task(conv_net(), clients=[images()], test=images()),
        cohorts=[[0]] * 2,
        lr=LR,
        local_epochs=EPOCHS,
        weight_decay=0.1,
        base_opt=base,
    )
    expected = by_numpy(fallback, 2, keep, nesterov, 0.1)
    torch.testing.assert_close(run.vector, expected, rtol=1e-10, atol=1e-12)


def test_muon_leaves_matrices_by_name_to_the_fallback() -> None:
    all_named = train(task(clients=ONE), base_opt=ff.Muon(fallback_for="weight"), **HERE)
    close(all_named.vector, train(task(clients=ONE), base_opt=ff.AdamW(), **HERE).vector)


BASES = ["adam", "adamw(keep=true)", "sgd(nesterov=true, keep=true)", "muon", "muon(keep=true)"]


def settings_for(base: str) -> dict[str, Any]:
    return {"base_opt": base, "momentum": 0.7 if base.startswith("sgd") else 0.0}


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("method", ["fedavg", "feddyn+sam"])
def test_vectorised_clients_go_where_each_goes_alone(method: str, base: str, clip: float | None) -> None:
    clients, cohorts = pairs((6,) * 8), [list(range(8)), [0, 1, 2, 3, 4, 5], list(range(8))]
    common = {"cohorts": cohorts, "lr": LR, "local_epochs": 2, "batch_size": 4, "clip": clip, **settings_for(base)}
    together = train(task(clients=clients), method, vectorised=True, **common)
    alone = train(task(clients=clients), method, **common)
    torch.testing.assert_close(together.vector, alone.vector, rtol=1e-8, atol=1e-10)
    for name, value in alone.client_state(7).items():
        torch.testing.assert_close(together.client_state(7)[name], value, rtol=1e-7, atol=1e-9)
    assert [row["backprops"] for row in together.history] == [row["backprops"] for row in alone.history]


@pytest.mark.parametrize("base", ["adamw(keep=true)", "muon(keep=true)"])
def test_workers_and_resuming_change_no_bit(base: str, tmp_path: Any) -> None:
    common = {"cohorts": [[0, 2], [1, 2, 3], [0, 1, 2]], "lr": LR, "batch_size": 4, "base_opt": base}
    whole = train(task(), "feddyn+sam", **common)
    spread = train(task(), "feddyn+sam", workers=2, out=tmp_path / "run", checkpoint_every=1, **common)
    assert same_run(whole, spread, 4)
    assert set(whole.client_state(2)) == {"h", "base_m", "base_v", "base_steps"}
    assert whole.client_state(2)["base_steps"] == 3  # 3 examples: one step in each of three rounds

    class Enough(Exception):
        """The run is stopped after its second round."""

    def stop(row: Any) -> None:
        if row["round"] == 1:
            raise Enough

    with pytest.raises(Enough):
        train(task(), "feddyn+sam", out=tmp_path / "part", checkpoint_every=1, on_round=stop, **common)
    assert same_run(whole, ff.resume(tmp_path / "part"), 4)


def test_a_probe_keeps_nothing() -> None:
    """naivefedgloss asks twice per round; what is kept has the steps of the second exchange alone."""
    run = train(task(), "naivefedgloss", cohorts=[[0, 1]] * 2, base_opt="adam(keep=true)", local_epochs=2, lr=LR)
    assert run.client_state(0)["base_steps"] == 4


def test_the_default_is_what_was_before() -> None:
    assert Settings(rounds=1, lr=0.1).base_opt == SGDStep()
    recorded = Settings(rounds=1, lr=0.1).to_dict()
    assert "base_opt" not in without_later(recorded)
    assert "base_opt" in without_later(recorded | {"base_opt": "adam"})


@pytest.mark.parametrize(
    "base", [SGDStep(), ff.AdamW(beta2=0.99), ff.Muon(fallback_for="head embed"), "adam(beta1=ramp(0.5, 0.9, 10))"]
)
def test_what_is_recorded_is_read_again(base: Any) -> None:
    settings = Settings(rounds=1, lr=0.1, base_opt=base)
    recorded = settings.to_dict()["base_opt"]
    assert isinstance(recorded, str)
    again = Settings(rounds=1, lr=0.1, base_opt=recorded)
    assert again.base_opt == settings.base_opt
    assert Settings(rounds=1, lr=0.1, base_opt=str(settings.base_opt)) == settings


def test_every_one_writes_itself_whole() -> None:
    for cls in BaseOptimiser.registry.values():
        assert Settings(rounds=1, lr=0.1, base_opt=cls().recorded()).base_opt == cls()


def test_a_parameter_may_follow_a_schedule() -> None:
    varying = train(task(), base_opt="adam(beta1=steps(0:0.5, 2:0.9))", cohorts=[[0, 1]] * 2)
    assert torch.equal(varying.vector, train(task(), base_opt=ff.Adam(beta1=0.5), cohorts=[[0, 1]] * 2).vector)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_opt": "adm"}, "adam"),
        ({"base_opt": "adam(beta3=1)"}, "beta2"),
        ({"base_opt": "adam(beta1=1.5)"}, "less than 1"),
        ({"base_opt": "adam", "momentum": 0.9}, "momentum of its own"),
        ({"base_opt": "sgd(nesterov=true)"}, "needs a momentum"),
        ({"base_opt": 3}, "BaseOptimiser"),
    ],
)
def test_what_cannot_be_is_a_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ff.ConfigError, match=words):
        train(task(), **settings)


@pytest.mark.parametrize(
    ("method", "base", "warns"),
    [
        ("scaffold", "adam", True),
        ("fedcm", "muon", True),
        ("scaffold", "sgd", False),
        ("fedavg", "adam", False),
        ("fednova", "adam", True),
        ("fednova", "sgd", False),
    ],
)
def test_methods_that_assume_plain_steps_say_so(method: str, base: str, warns: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(task(), method, base_opt=base, cohorts=[[0, 1]])
    assert any(f"base_opt={base}" in str(warning.message) for warning in caught) == warns


class SignStep(BaseOptimiser):
    """A base optimiser from outside: `w <- w - lr sign(q)`."""

    power: float = 1.0

    def step(self, client: Client, q: Tensor, scale: float, held: StepState) -> None:
        client.w.add_(q.sign(), alpha=-client.lr * self.power)


def test_one_from_outside_is_named_by_its_path_and_resumes(tmp_path: Any) -> None:
    run = train(
        task(), base_opt=f"{__name__}:SignStep(power=2.0)", cohorts=[[0]] * 2, lr=0.01, out=tmp_path, checkpoint_every=1
    )
    record = RunDirectory.open(tmp_path).config
    assert record["settings"]["base_opt"] == "signstep(power=2.0, keep=false)"
    assert [(origin["family"], origin["name"]) for origin in record["origins"]] == [("base optimiser", "SignStep")]
    assert torch.equal(run.vector, ff.resume(tmp_path).vector)
    moved = ((run.vector - flat(net())) / 0.02).abs()  # two steps, there and on or there and back
    close(torch.minimum(moved, (moved - 2).abs()), torch.zeros_like(moved))


def test_kept_names_may_not_meet_those_of_a_method() -> None:
    class Clashing(ff.Algorithm):
        """Keeps what AdamW keeps."""

        def client_state(self) -> Any:
            return {"base_m": vector()}

    with pytest.raises(ff.ConfigError, match="both keep 'base_m'"):
        train(task(), Clashing(), base_opt=ff.AdamW(keep=True))
