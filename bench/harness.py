"""Cases that take turns: each does one round at a time, so that all see the same machine; medians and ratios count."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Target:
    """What a ratio of two cases' medians should be: at most (or at least) a bound."""

    what: str
    case: str
    than: str
    most: float | None = None
    least: float | None = None

    def line(self, results: dict[str, Result]) -> dict[str, Any]:
        """Return the ratio beside its bound. `least` reads: `case` is at least so many times as fast as `than`."""
        if self.case not in results or self.than not in results:
            return {}
        mine, other = results[self.case].median, results[self.than].median
        if self.most is not None:
            ratio = mine / other
            return {"what": self.what, "ratio": ratio, "bound": f"<= {self.most:g}", "met": ratio <= self.most}
        assert self.least is not None
        ratio = other / mine
        return {"what": self.what, "ratio": ratio, "bound": f">= {self.least:g}", "met": ratio >= self.least}


def take_turns(workload: str, makers: Sequence[Callable[[], Case]], repeats: int) -> dict[str, Result]:
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
