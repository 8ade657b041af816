"""Cases that take turns: each does one round at a time, so that all see the same machine; medians and ratios count."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Case(Protocol):
    """One way of doing a workload."""

    name: str

    def round(self) -> float:
        """Do one round and return its seconds."""
        ...

    def close(self) -> None:
        """End whatever was started."""
        ...


@dataclass
class Result:
    """The seconds of a case's rounds, and what else was measured."""

    workload: str
    case: str
    seconds: list[float]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def as_dict(self) -> dict[str, Any]:
        spread = {"low": min(self.seconds), "high": max(self.seconds), "rounds": len(self.seconds)}
        return {"workload": self.workload, "case": self.case, "seconds": self.median} | spread | self.facts


Results = dict[str, Result]
Maker = Callable[[], Case]


@dataclass(frozen=True)
class Target:
    """A figure made from the results, and what it should be at most or at least.

    `needs` is a case that may be missing: the data or the library that it takes are not everywhere.
    """

    what: str
    figure: Callable[[Results], float]
    most: float | None = None
    least: float | None = None
    unit: str = ""
    needs: str = ""

    def is_possible(self, results: Results) -> bool:
        """Say whether the case that it needs is there."""
        return not self.needs or self.needs in results

    def line(self, results: Results) -> dict[str, Any]:
        """Return the figure beside its bound."""
        value = self.figure(results)
        met = value <= self.most if self.most is not None else value >= (self.least or 0.0)
        bound = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"
        return {"what": self.what, "value": value, "unit": self.unit, "bound": bound, "met": met}


def ratio(case: str, than: str) -> Callable[[Results], float]:
    """Return how a case's time compares: 1.1 is a tenth longer."""
    return lambda results: results[case].median / results[than].median


def speed(case: str, than: str) -> Callable[[Results], float]:
    """Return how many times as fast a case is."""
    return lambda results: results[than].median / results[case].median


def extra_seconds(case: str, than: str) -> Callable[[Results], float]:
    """Return how much longer a case takes."""
    return lambda results: results[case].median - results[than].median


def extra_memory(case: str, than: str) -> Callable[[Results], float]:
    """Return how many megabytes more a case holds in memory."""
    return lambda results: results[case].facts["resident_mb"] - results[than].facts["resident_mb"]


def fact(case: str, name: str, than: str | None = None) -> Callable[[Results], float]:
    """Return something else that was measured, perhaps as a multiple of another."""
    return lambda results: results[case].facts[name] / (results[case].facts[than] if than else 1)


def fact_ratio(name: str, case: str, than: str) -> Callable[[Results], float]:
    """Return how something else that was measured compares; no number where it was not."""

    def figure(results: Results) -> float:
        other = results[than].facts[name]
        return results[case].facts[name] / other if other else math.nan

    return figure


def take_turns(workload: str, makers: Sequence[Maker], repeats: int) -> dict[str, Result]:
    """Let the cases do a round each, again and again; the first round of each warms up and does not count."""
    cases = [make() for make in makers]
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    try:
        for case in cases:
            case.round()
        for number in range(repeats):
            for case in cases:
                seconds[case.name].append(case.round())
            print(f"\r{workload}: {number + 1} of {repeats}", end="", file=sys.stderr, flush=True)
    finally:
        for case in cases:
            case.close()
    print(file=sys.stderr)
    return {name: Result(workload, name, times) for name, times in seconds.items()}


def table(name: str, about: str, found: dict[str, Any]) -> str:
    """Return a workload's results as Markdown."""
    first = found["cases"][0]["seconds"]
    memory = any("resident_mb" in case for case in found["cases"])
    lines = [
        f"**{name}**: {about}",
        "",
        "| case | median | low to high | of the first |" + (" memory |" if memory else ""),
    ]
    lines.append("|---|---:|---:|---:|" + ("---:|" if memory else ""))
    for case in found["cases"]:
        cells = [
            case["case"],
            f"{case['seconds'] * 1e3:,.1f} ms",
            f"{case['low'] * 1e3:,.1f} to {case['high'] * 1e3:,.1f}",
        ]
        cells += [f"{case['seconds'] / first:.2f}"] + ([f"{case['resident_mb']:,.0f} MB"] if memory else [])
        lines.append("| " + " | ".join(cells) + " |")
    if found["targets"]:
        lines += ["", "| target | bound | measured | |", "|---|---|---:|---|"]
        for line in found["targets"]:
            value, remark = f"{line['value']:.3g} {line['unit']}".strip(), "met" if line["met"] else "**not met**"
            lines.append(f"| {line['what']} | {line['bound']} {line['unit']} | {value} | {remark} |")
    return "\n".join(lines) + "\n"
