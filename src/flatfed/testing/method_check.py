"""`check_method`: what a method must do, in one call."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flatfed as ff
from flatfed.core.method.algorithm import Algorithm
from flatfed.experiments.planning.setting import costs
from flatfed.testing.assertions import assert_agrees, assert_backprops, assert_same_run, assert_traffic
from flatfed.testing.bench import COHORTS, SETTINGS, SETUPS, SIZES, network_setup, train_network
from flatfed.testing.naive.model import DIMENSION
from flatfed.testing.naive.outcome import Outcome
from flatfed.testing.naive.training import Setup

Naive = Callable[..., Outcome]
Parameters = Mapping[str, Any]

STOPPED_AFTER = 3
"""Rounds that the run has behind it when it is stopped, to be resumed."""


@dataclass(frozen=True)
class MethodCosts:
    """What a method costs by its equations.

    Args:
        down: model-sized vectors that go to each client per round.
        up: model-sized vectors that come from it.
        backprops: per local step.
        passes: over all of a client's examples, per round, besides the local steps.
        down_at_first: vectors that go down in the first round, where they are others; None: as in all.
        exchanges: of messages per round.
        per_tensor: vectors with one number for each tensor of the model, each way.
    """

    down: int = 1
    up: int = 1
    backprops: int = 1
    passes: int = 0
    down_at_first: int | None = None
    exchanges: int = 1
    per_tensor: int = 0


def check_method(
    method: Callable[..., Algorithm] | str,
    naive: Naive,
    *,
    parameters: Sequence[Parameters] = ({},),
    costs: MethodCosts | None = None,
    workers: int = 2,
) -> None:
    """Refuse a method, with an `AssertionError` that says what is wrong, unless all of this holds in float64.

    - Agreement to 1e-10 with `naive` over six rounds, and in set-ups that each change one thing: weighting, clipping,
      momentum, one client, all clients, clients with one example, one local step, a loss that is constant.
    - Bytes are whole model-sized vectors and a few scalars, as many as `costs` says; so are backprops.
    - A run that was stopped and resumed has the same bits as one that was not.
    - A run with `workers` processes has the same bits as one without.

    Args:
        method: the class, a function that makes the method, or its id or import path; called with the parameters.
        naive: called with a `Setup` and the parameters; returns an `Outcome`: the models after each round, and what
            clients and server keep at the end, by the names that the method gives it.
        parameters: sets of parameters, each checked; values far from the defaults find most mistakes.
        costs: what the method costs by its equations. Where None, what is counted on a tiny run must hold in all runs.
        workers: processes of the last check; 0 leaves it out.
    """
    for values in parameters:
        MethodCheck(method, naive, values, costs).check(workers)


@dataclass(frozen=True)
class MethodCheck:
    """A method with one set of parameters, its naive computation, and what it should cost."""

    method: Callable[..., Algorithm] | str
    naive: Naive
    parameters: Parameters
    costs: MethodCosts | None

    def made(self) -> Algorithm:
        """Return the method."""
        if isinstance(self.method, str):
            return ff.make(self.method, **self.parameters)
        return self.method(**self.parameters)

    def check(self, workers: int) -> None:
        """Refuse the method unless everything holds."""
        setup = network_setup()
        run = self._trained(setup)
        with self._about("agreement over six rounds"):
            assert_agrees(run, self.naive(setup, **self.parameters))
        self._check_costs(run)
        for name, make in SETUPS.items():
            with self._about(f"agreement, {name}"):
                assert_agrees(self._trained(make()), self.naive(make(), **self.parameters))
        with self._about("resume"):
            assert_same_run(self._resumed(setup), run, len(SIZES))
        if workers:
            with self._about(f"{workers} workers"):
                assert_same_run(self._trained(setup, workers=workers), run, len(SIZES))

    def _trained(self, setup: Setup, **changes: Any) -> Any:
        with warnings.catch_warnings():
            # A method that divides by the number of steps warns of momentum; its formulas are used unchanged.
            warnings.filterwarnings("ignore", message=".*momentum")
            return train_network(self.made(), setup, **changes)

    def _check_costs(self, run: Any) -> None:
        expected = self.costs or counted(self.made(), run)
        first = expected.down if expected.down_at_first is None else expected.down_at_first
        with self._about("bytes"):
            counts = expected.up, expected.exchanges, expected.per_tensor
            assert_traffic(run, COHORTS, lambda t: expected.down if t else first, *counts)
        with self._about("backprops"):
            steps: int = SETTINGS["local_epochs"]
            assert_backprops(run, COHORTS, steps * expected.backprops + expected.passes)

    def _resumed(self, setup: Setup) -> Any:
        """Return a run that failed in the middle and went on."""
        if not self.made().id:
            raise AssertionError('it has no id, so no run could be resumed; write class MyMethod(..., id="my-method")')
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            try:
                self._trained(setup, out=out, checkpoint_every=1, on_round=_stop)
            except _StoppedOnPurpose:
                return ff.resume(out)
        raise AssertionError("the run could not be stopped")

    @contextmanager
    def _about(self, check: str) -> Iterator[None]:
        """Say of what fails which check it was, and with which parameters."""
        try:
            yield
        except AssertionError as error:
            values = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
            raise AssertionError(f"{self.made().id or self.method}({values}): {check}: {error}") from error


class _StoppedOnPurpose(Exception):
    """Ends a run in the middle."""


def _stop(row: Mapping[str, Any]) -> None:
    if row["round"] + 1 == STOPPED_AFTER:
        raise _StoppedOnPurpose


def counted(method: Algorithm, run: Any) -> MethodCosts:
    """Return what a method costs on a tiny run, from its second round on; what the first sends is as the run says."""
    tiny = costs(method)
    vector = DIMENSION * run.vector.dtype.itemsize * len(COHORTS[0])
    first: int = run.history[0]["bytes_down"] // vector
    small = len(method.uploads_per_tensor())
    return MethodCosts(tiny.down, tiny.up, tiny.backprops, tiny.passes, first, tiny.exchanges, small)
