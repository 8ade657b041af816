"""A claim of a paper in a form that runs can be held against, and the settings in which it is made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flatfed.published.claims.rules import Rule

KINDS = {
    "exact": "an identity or a count, which a test proves without training to the end",
    "trend": "a sign or an order of numbers that training gives",
    "counter": "printed numbers that cut against what is claimed elsewhere; the opposite must not be asserted",
}

EXACT = "exact"

METRICS = {
    "accuracy": "on the test set, in per cent",
    "miou": "mean intersection over union, in per cent",
    "lambda_max": "the largest eigenvalue of the Hessian of the global loss",
    "lambda_ratio": "lambda_max / lambda_5",
    "lambda_local": "lambda_max of a client's model on its own examples",
    "lambda_global": "lambda_max of a client's model on everyone's examples",
    "lambda_global_over_local": "the two of a client's model, divided",
    "lpf": "the mean loss under Gaussian noise on the weights",
    "discrepancy": "flatness discrepancy of the global model against the clients' own",
    "incompatibility": "flatness incompatibility of the clients' perturbations",
    "tracking_error": "distance of a method's global ascent from the gradient of the global loss",
    "perturbation_gap": "distance of FedGloSS's perturbation from the one it stands for",
    "parameter_norm": "the norm of the model's parameters",
    "rounds_to_target": "rounds until an accuracy is reached; infinite where it never is",
    "bytes_to_target": "bytes sent until then",
    "bytes_per_round": "bytes down and up per client and round",
    "backprops": "forward and backward passes per local step",
    "client_seconds": "time of a client's training in a round",
    "barrier": "the largest rise of the loss on the line between two models",
    "c": "FedGF's interpolation between local and global perturbation",
    "parameters": "the model itself, number by number",
}
"""What claims are about, each with its meaning."""

TARGET_COSTS = ("rounds_to_target", "bytes_to_target")
"""Metrics that are known to the round of an evaluation only: two that are equal may differ in between."""

BETWEEN = "between"
"""The paper of claims about several papers."""
OF = " of "
"""Between a metric and a method, where a quantity of a rule is not of the claim's metric: `accuracy of fedsam`."""
PLACES = re.compile(r"(FedGloSS|FedSAM|FedGF|FedWMSAM|FedVSSAM)|(Table|Figure)s? (\d+(?:(?:, | and )\d+)*)")
"""A paper's name before its places, or tables and figures: `Tables 2, 3 and 6`."""


@dataclass(frozen=True)
class Setting:
    """Under which conditions numbers were printed, by the columns of the papers' tables; None is not stated.

    Attributes:
        name: what claims call it: `cifar10-0`.
        extras: what else belongs to it, as the tables have it: `mixup`, `client=1`.
    """

    name: str
    dataset: str | None = None
    model: str | None = None
    partition: str | None = None
    partition_value: str | None = None
    clients_total: int | None = None
    clients_per_round: int | None = None
    rounds: int | None = None
    local_epochs: int | None = None
    target: str | None = None
    extras: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The same for people."""
        counted = {
            "of {} clients": self.clients_total,
            "{} clients per round": self.clients_per_round,
            "{} rounds": self.rounds,
            "{} local epochs": self.local_epochs,
        }
        counts = [text.format(number) for text, number in counted.items() if number is not None]
        partition = " ".join(filter(None, (self.partition, self.partition_value)))
        target = f"target {self.target.replace('_', ' ')}" if self.target else None
        parts = (self.dataset, self.model, partition, *counts, target, *self.extras)
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        id: the paper's id and a number that no other claim has: `fedgloss-05`; `between` papers for the last ones.
        statement: what is claimed, in few words.
        where: the paper's tables, figures and sections.
        kind: one of `KINDS`.
        metric: one of `METRICS`.
        rules: what must hold, all of it; empty for a claim that runs cannot decide.
        settings: the names of the settings in which rules are meant that name none themselves.
        tables: the tables of the published numbers that hold its numbers.
        named: the methods that it is about, where its rules do not name them.
        tests: for an exact claim, the tests that prove it: `tests/.../test_costs.py::test_...`.
        not_checked: why no rule says it, for a claim without one.
        left_out: what of the statement the rules do not say.
        our_reading: numbers in the rules that the paper does not name: what counts as much, or as equal.
        against: printed numbers that cut against it.
        changed: what of its statement or rules was changed when runs had been seen, and what the outcome was before.
        line: where the claim stands in its file.
    """

    id: str
    statement: str
    where: str
    kind: str
    metric: str
    rules: tuple[Rule, ...] = ()
    settings: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    not_checked: str = ""
    left_out: str = ""
    our_reading: str = ""
    against: str = ""
    changed: str = ""
    line: int = field(default=0, compare=False)

    @property
    def paper(self) -> str:
        """The paper's id, or `between`."""
        return self.id.rpartition("-")[0]

    @property
    def number(self) -> int:
        """Its number among all claims."""
        return int(self.id.rpartition("-")[2])

    @property
    def quantities(self) -> tuple[str, ...]:
        """What its rules compare: methods, some perhaps with a metric of their own."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.methods))

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it is about, as flatfed spells them."""
        in_rules = [self.metric_and_method(name)[1] for name in self.quantities]
        return tuple(dict.fromkeys([*in_rules, *self.named]))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Its metric, and those that quantities of its rules have of their own."""
        return tuple(dict.fromkeys([self.metric, *(self.metric_and_method(name)[0] for name in self.quantities)]))

    def metric_and_method(self, quantity: str) -> tuple[str, str]:
        """Return what a quantity is of: `accuracy of fedsam` says its metric, and `fedsam` has that of the claim."""
        metric, of, method = quantity.partition(OF)
        return (metric, method) if of else (self.metric, quantity)

    @property
    def studies(self) -> tuple[str, ...]:
        """The paper's tables and figures, by whose studies it can be judged: `fedgloss/table-8`."""
        paper, found = self.paper, list[str]()
        # Where several papers are meant, the tables do not say of which they are.
        tables = () if paper == BETWEEN else self.tables
        for match in PLACES.finditer(", ".join([self.where, *tables])):
            named, kind, numbers = match.groups()
            if named:
                paper = named.lower()
                continue
            of = "table" if kind == "Table" else "fig"
            found += [f"{paper}/{of}-{number}" for number in re.findall(r"\d+", numbers)]
        return tuple(dict.fromkeys(found))

    @property
    def every_setting(self) -> tuple[str, ...]:
        """The settings it is about: its own, and those that its rules name."""
        in_rules = [setting for rule in self.rules for setting in rule.settings]
        return tuple(dict.fromkeys([*self.settings, *in_rules]))
