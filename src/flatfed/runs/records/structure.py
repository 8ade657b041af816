"""What the files of a run must look like: which names they hold, and values of which types.

Seals show whether a file is as it was written. This shows whether it can be read at all: a file may come from an
earlier version, or from somebody's hand. A value that does not fit is named by its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from flatfed.core.configuration.checking import fault as fault_of_values
from flatfed.core.configuration.checking import shown
from flatfed.core.errors import CheckpointError


class Shape(Protocol):
    """What a value must be."""

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value, beginning with the place inside of it; empty where it fits."""
        ...


@dataclass(frozen=True)
class ValueKind:
    """A value of one of some types; `what` says it in words."""

    what: str
    types: tuple[type, ...]

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        # To Python, True is the number 1.
        if isinstance(value, bool) and bool not in self.types:
            return f" is {value}, not {self.what}"
        if not isinstance(value, self.types):
            return f" is {shown(value)}, not {self.what}"
        return ""


@dataclass(frozen=True)
class Maybe:
    """Null, or a value of a shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if value is None:
            return ""
        return self.shape.fault(value)


@dataclass(frozen=True)
class AtLeast:
    """A whole number that is not below another."""

    least: int

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        problem = WHOLE.fault(value)
        if not problem and value < self.least:
            return f" is {value}, below {self.least}"
        return problem


@dataclass(frozen=True)
class Each:
    """A list of values of one shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if not isinstance(value, list):
            return f" is {shown(value)}, not a list"
        return _first_fault((f"[{place}]", self.shape, entry) for place, entry in enumerate(value))


@dataclass(frozen=True)
class Named:
    """A mapping of any names to values of one shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if not isinstance(value, Mapping):
            return f" is {shown(value)}, not an object"
        return _first_fault((f".{name}", self.shape, entry) for name, entry in value.items())


@dataclass(frozen=True)
class ByClient:
    """A mapping of clients, whose numbers JSON has as text, to values of one shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        problem = Named(self.shape).fault(value)
        if problem:
            return problem
        for name in value:
            if not (name.isascii() and name.isdecimal()):
                return f" holds {shown(name)}, which is no client's number"
        return ""


@dataclass(frozen=True)
class Written:
    """Text of a pattern; `what` says it in words."""

    what: str
    pattern: str

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        problem = TEXT.fault(value)
        if not problem and re.fullmatch(self.pattern, value) is None:
            return f" is {shown(value)}, not {self.what}"
        return problem


@dataclass(frozen=True)
class Record:
    """A mapping with names that it must hold, and some that it may; others are not looked at unless it is `closed`."""

    must: Mapping[str, Shape] = field(default_factory=dict)
    may: Mapping[str, Shape] = field(default_factory=dict)
    closed: bool = False

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if not isinstance(value, Mapping):
            return f" is {shown(value)}, not an object"
        missing = [name for name in self.must if name not in value]
        if missing:
            return f" lacks {', '.join(missing)}"
        known = {**self.must, **self.may}
        unknown = [name for name in value if name not in known]
        if self.closed and unknown:
            return f" holds {shown(unknown[0])}, which means nothing there"
        return _first_fault((f".{name}", known[name], entry) for name, entry in value.items() if name in known)


def _first_fault(parts: Iterable[tuple[str, Shape, Any]]) -> str:
    """Return what is wrong with the first part that does not fit, after its place."""
    for where, shape, value in parts:
        problem = shape.fault(value)
        if problem:
            return f"{where}{problem}"
    return ""


ANYTHING = ValueKind("anything", (object, bool))
TEXT = ValueKind("text", (str,))
TRUTH = ValueKind("true or false", (bool,))
WHOLE = ValueKind("a whole number", (int,))
NUMBER = ValueKind("a number", (int, float))
NUMBER_OR_TEXT = ValueKind("a number or the text of a schedule", (int, float, str))
OPTIONS = Named(ANYTHING)
CONFIGURED = Record({"id": TEXT})
COUNT, INDEX = AtLeast(1), AtLeast(0)


def fault_of(values: Any, shape: Shape) -> str:
    """Return what is wrong with what a file holds: values that nobody could use, then their types."""
    return fault_of_values(values) or shape.fault(values).removeprefix(".")


RECIPE = Record(
    {"dataset": TEXT},
    {
        "clients": Maybe(COUNT),
        "partition": CONFIGURED,
        "model": Maybe(TEXT),
        "metrics": Maybe(TEXT),
        "augment": ValueKind("true, false or text", (bool, str)),
        "seed": INDEX,
        "local_layers": Maybe(TEXT),
        "data_dir": Maybe(TEXT),
        "data_options": OPTIONS,
        "model_options": OPTIONS,
        "weights": Maybe(TEXT),
        "new_head": TRUTH,
        "partition_seed": Maybe(INDEX),
        "validation": Maybe(NUMBER),
        "validation_split": TEXT,
    },
)
"""A task of the catalogue."""


class Module:
    """A module of a model with those inside of it, or the name of one that was described before."""

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if isinstance(value, Mapping) and "same" in value:
            return SAME_MODULE.fault(value)
        return NEW_MODULE.fault(value)


PARAMETER = Record({"tensor": TEXT, "grad": TRUTH}, {"id": WHOLE})
SAME_MODULE = Record({"same": TEXT})
NEW_MODULE = Record({"class": TEXT, "parameters": Named(Maybe(PARAMETER)), "children": Named(Maybe(Module()))})

DESCRIBED = Record(
    {"model": NEW_MODULE, "clients": Record({"count": COUNT, "pool": TRUTH}, {"roster": Each(INDEX)})},
    {"name": TEXT, "class_names": Each(TEXT), "tests": OPTIONS, "test": Maybe(OPTIONS)},
)
"""A task that was given as tensors."""

IN_MEMORY = Record({}, {"name": TEXT, "reason": TEXT})

TASKS: Mapping[str, Shape] = {"catalogue": RECIPE, "tensors": DESCRIBED, "memory": IN_MEMORY}

SETTINGS = Record(
    {
        "rounds": COUNT,
        "seed": INDEX,
        "evaluate_last": Maybe(INDEX),
        "lr": NUMBER_OR_TEXT,
        "lr_decay": NUMBER_OR_TEXT,
        "weight_decay": NUMBER_OR_TEXT,
        "momentum": NUMBER_OR_TEXT,
        "clip": Maybe(NUMBER_OR_TEXT),
        "batch_size": Maybe(COUNT),
        "local_epochs": COUNT,
        "weighting": TEXT,
        "dtype": TEXT,
    }
)

SHOWN_METRIC = Record({}, {"label": TEXT, "unit": TEXT, "higher_is_better": Maybe(TRUTH)}, closed=True)
SAMPLE = Record({}, {"of": TEXT, "most": Maybe(COUNT), "seed": INDEX, "part": INDEX}, closed=True)
MONITOR = Record({"measurement": CONFIGURED, "every": COUNT, "sample": SAMPLE})
RANGE = Record({"min": NUMBER, "mean": NUMBER, "max": NUMBER})

SETTING = Record(
    {},
    {
        "data": Record(
            {"name": TEXT, "examples": INDEX, "classes": Maybe(INDEX), "tests": Named(INDEX)},
            {"options": Maybe(OPTIONS), "held_out": INDEX},
        ),
        "clients": Record({"count": INDEX, "examples": RANGE, "classes": Maybe(RANGE)}),
        "partition": Maybe(OPTIONS),
        "model": Record({"name": TEXT, "options": OPTIONS, "parameters": INDEX, "bytes": INDEX}, {"class": TEXT}),
        "augmentation": Record({"names": Each(TEXT)}, {"default": TRUTH}),
        "cost": Maybe(
            Record(
                {
                    "clients": NUMBER,
                    "vectors_down": NUMBER,
                    "vectors_up": NUMBER,
                    "bytes_down": NUMBER,
                    "bytes_up": NUMBER,
                    "backprops_per_step": ValueKind("a number or text", (int, float, str)),
                }
            )
        ),
    },
)
"""The description of a run for people; runs of earlier versions have less of it, or none."""

WORKERS = ValueKind("a whole number or auto", (int, str))

_OF_PACKAGE: dict[str, Shape] = {
    **dict.fromkeys(("package", "version", "sha256"), Maybe(TEXT)),
    **dict.fromkeys(("modules", "uses"), Maybe(Named(TEXT))),
}
ORIGIN = Record(dict.fromkeys(("family", "id", "module", "name"), TEXT), _OF_PACKAGE, closed=True)
"""Where a part comes from that is not flatfed's own."""

CONFIG = Record(
    {
        "run": TEXT,
        "method": TEXT,
        "algorithm": CONFIGURED,
        "average": Maybe(CONFIGURED),
        "sampler": CONFIGURED,
        "settings": SETTINGS,
        "workers": WORKERS,
        "task": Record({"kind": TEXT}),
    },
    {
        "engine": Maybe(CONFIGURED),
        "checkpoint_every": Maybe(COUNT),
        "keep_checkpoints": Each(INDEX),
        "watch": Each(MONITOR),
        "model_bytes": INDEX,
        "metrics": Maybe(Named(Maybe(SHOWN_METRIC))),
        "test_sets": Maybe(Each(TEXT)),
        "setting": SETTING,
        "about": Record({}, {"title": TEXT, "command": TEXT}),
        "replaces": Each(TEXT),
        "origins": Each(ORIGIN),
        "validation": Record({"share": NUMBER, "split": TEXT}, closed=True),
        "seams": Each(INDEX),
    },
)

COMPARISON = Record(
    {
        "methods": Each(Record({"spelling": TEXT, "algorithm": CONFIGURED, "average": Maybe(CONFIGURED)})),
        "seeds": Each(INDEX),
        "task": RECIPE,
        "settings": OPTIONS,
        "sampler": CONFIGURED,
        "about": Record(
            {"workers": WORKERS, "command": TEXT},
            {
                "engine": Maybe(CONFIGURED),
                "watch": Each(MONITOR),
                "flatness": Maybe(Record({"samples": Maybe(COUNT)}, closed=True)),
                "report": Maybe(Record({}, {"at": Each(COUNT), "targets": Each(TEXT), "baseline": Maybe(TEXT)})),
                "checkpoint_every": Maybe(COUNT),
                "keep_checkpoints": Each(INDEX),
                "origins": Each(ORIGIN),
            },
        ),
    }
)

ENVIRONMENT = Record({"python": TEXT, "packages": Named(Maybe(TEXT))})
HISTORY_MARK = Record({"rows": INDEX, "seal": TEXT})
STATUS = Record({"status": TEXT}, {"reason": TEXT, "history": HISTORY_MARK})

COLUMN = ValueKind("a number or a list", (int, float, list, type(None)))
"""What metrics and monitors put into a row beside the usual."""
COSTS = ("bytes_down", "bytes_up", "backprops", "seconds")
ROW = Record(
    {"round": INDEX},
    {
        **dict.fromkeys(COSTS, NUMBER),
        "clients": Each(INDEX),
        "attempts": COUNT,
        "rejected": Each(Record({"client": WHOLE, "reason": TEXT})),
        "watch": Named(Maybe(NUMBER)),
        "clients_watch": Named(ByClient(Maybe(NUMBER))),
        "sites": Named(Named(Maybe(NUMBER))),
    },
)

FILE_AND_DIGEST = Written("a file and its SHA-256", r"[^/:]+:[0-9a-f]{64}")
MARKS = Record({}, {"config": TEXT, "history": HISTORY_MARK})
FILE = Written("a file", r"[^/]+")
INDEX_MARK = Record({"file": FILE, "entries": INDEX, "sha256": TEXT})
STATES = Record({"file": FILE, "form": Each(Each(ANYTHING)), "index": INDEX_MARK, "new": INDEX})
MANIFEST = Record({"server": TEXT, "states": Named(STATES)}, {"marks": MARKS})
EARLIER_MANIFEST = Record({"server": TEXT, "states": Named(ByClient(FILE_AND_DIGEST))}, {"marks": MARKS})
"""With a file for each client's state."""
RESULT_KEY = Record({}, {"sample": SAMPLE, "round": INDEX, "measurement": OPTIONS, "weights": TEXT})
RESULT = Record(
    {
        "numbers": Named(Maybe(NUMBER)),
        "clients": Named(ByClient(Maybe(NUMBER))),
        "series": Named(Each(Maybe(NUMBER))),
        "remark": TEXT,
    }
)
POINT = Record({"at": Each(NUMBER), "metrics": Named(Maybe(NUMBER))})


def check(file: Path, values: Any, shape: Shape) -> None:
    """Refuse what a file holds, naming the file and what is wrong."""
    problem = fault_of(values, shape)
    if problem:
        raise CheckpointError(f"{file}: {problem.strip()}")


def check_config(file: Path, config: Mapping[str, Any]) -> None:
    """Refuse the record of a run that cannot be read."""
    check(file, config, CONFIG)
    kind = config["task"]["kind"]
    if kind not in TASKS:
        raise CheckpointError(f"{file}: task.kind is {shown(kind)}, not one of {', '.join(TASKS)}")
    problem = TASKS[kind].fault(config["task"])
    if problem:
        raise CheckpointError(f"{file}: task{problem}")


def fault_of_row(row: Mapping[str, Any]) -> str:
    """Return what is wrong with a row of a history; columns beside the usual are numbers or lists of them."""
    problem = fault_of(row, ROW)
    if problem:
        return problem
    others = {name: value for name, value in row.items() if name not in ROW.may}
    return Named(COLUMN).fault(others).removeprefix(".")


class RowsSoFar:
    """What is wrong with rows that are good one by one: their order, or a column of two kinds."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] | None = None
        self._lists: set[str] = set()
        self._numbers: set[str] = set()

    def fault(self, row: Mapping[str, Any]) -> str:
        """Return what is wrong with a row after those before it; nothing where it is good, and then it counts."""
        if self._last is not None and row["round"] <= self._last["round"]:
            return f"round {row['round']} comes after round {self._last['round']}"
        lists = self._lists | {name for name, value in row.items() if isinstance(value, list)}
        numbers = self._numbers | {name for name, value in row.items() if isinstance(value, int | float)}
        both = sorted(lists & numbers)
        if both:
            return f"{both[0]} is a number in one round and a list in another"
        self._last, self._lists, self._numbers = row, lists, numbers
        return ""
