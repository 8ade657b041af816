"""The test set, points of landscapes and Hessian products, beside bare ones."""

from __future__ import annotations

import time
from functools import partial

import torch
from bare import bare_evaluation
from curvature import BareProducts, Points, Steps, Ways, eigenvalue_facts, lambda_max_facts
from federated import Rounds, task_of
from harness import Maker, Result, take_turns
from problems import CONV

from flatfed.core.evaluation.evaluator import Evaluation as TestFigures


class Evaluation:
    """The figures of the papers' CNN on 10,000 images."""

    def __init__(self, name: str, workers: int) -> None:
        test = torch.randn(10_000, 3, 32, 32), torch.randint(0, 10, (10_000,))
        self.name, self._rounds = name, Rounds(name, CONV, workers=workers, task=task_of(CONV, test))

    def round(self) -> float:
        federation, started = self._rounds.federation, time.perf_counter()
        rounds, model, buffers = self._rounds, federation.evaluated, federation.server.buffers
        TestFigures(rounds.engine, rounds.plan.task, rounds.plan.settings, model, buffers).metrics()
        return time.perf_counter() - started

    def close(self) -> None:
        self._rounds.close()


ONE_AFTER_OTHER = "round, then evaluation, 2 workers"
IN_GAPS = "evaluation in the gaps of the next round, 2 workers"


class EvaluatedRounds:
    """Rounds of which each is evaluated: at once, or in the gaps of the next."""

    def __init__(self, name: str, at_once: bool) -> None:
        test = torch.randn(10_000, 3, 32, 32), torch.randint(0, 10, (10_000,))
        self.name, self._rounds = name, Rounds(name, CONV, workers=2, task=task_of(CONV, test), evaluate_every=1)
        if at_once:
            self._rounds.engine.gaps = False  # the loop then waits for each evaluation

    def round(self) -> float:
        return self._rounds.round()

    def close(self) -> None:
        self._rounds.close()


class BareEvaluation:
    def __init__(self) -> None:
        self.name, self.model = "bare evaluation", CONV.fresh_model().to(memory_format=torch.channels_last)
        self.test = torch.randn(10_000, 3, 32, 32), torch.randint(0, 10, (10_000,))

    def round(self) -> float:
        started = time.perf_counter()
        bare_evaluation(self.model, *self.test, 512)
        return time.perf_counter() - started

    def close(self) -> None:
        pass


def evaluate(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        BareEvaluation,
        partial(Evaluation, "in process", 0),
        partial(Evaluation, "2 workers", 2),
        partial(EvaluatedRounds, ONE_AFTER_OTHER, at_once=True),
        partial(EvaluatedRounds, IN_GAPS, at_once=False),
    ]
    return take_turns("evaluate", makers, repeats)


PRODUCTS, STEPS = "bare product, 2 processes", "lambda_max, 2 workers, per product"
POINT, POINTS = "landscape, in process, per point", "landscape, 2 workers, per point"


def flatness(repeats: int) -> dict[str, Result]:
    makers: list[Maker] = [
        partial(BareProducts, 2),
        partial(Steps, 2),
        BareEvaluation,
        partial(Points, 0),
        partial(Points, 2),
    ]
    results = take_turns("flatness", makers, min(repeats, 5))
    results[STEPS].facts |= eigenvalue_facts()
    return results


FORWARD, DOUBLE, TANGENTS = "forward pass", "Hessian, double backward", "Hessian, tangents"
GAUSS_NEWTON = "Gauss-Newton, tangents"


def products(repeats: int) -> dict[str, Result]:
    from flatfed.flatness import products as rules

    makers: list[Maker] = [
        partial(Ways, FORWARD, None),
        partial(Ways, DOUBLE, rules.hessian_by_double_backward),
        partial(Ways, TANGENTS, rules.hessian_by_tangents),
        partial(Ways, GAUSS_NEWTON, rules.gauss_newton_by_tangents),
    ]
    results = take_turns("products", makers, repeats)
    results[TANGENTS].facts |= lambda_max_facts()
    return results
