"""Texts in the grammars of the command line: near to what people write, and far from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.configuration.values import parse_value
from flatfed.data.augment.spelling import named
from flatfed.experiments.spelling.methods import parse_measurements, parse_methods, parse_setting, parse_watch
from flatfed.reports.tables.extras import Target

NAMES = [
    *("fedavg", "feddyn", "fedsam", "fedadam", "scaffold", "sam", "asam", "swa", "wima", "centralised"),
    *(
        "lambda_max",
        "lpf",
        "sharpness",
        "trace",
        "crop",
        "flip",
        "cutout",
        "mixup",
        "ramp",
        "cosine",
        "steps",
        "linear",
    ),
]
KEYS = ["rho", "alpha", "tau", "start", "samples", "size", "client_opt", "average.start", "data.path", "model.width"]
NUMBERS = [
    *("0", "1", "-1", "0.1", "1e30", "1e400", "nan", "inf", "-inf", "9" * 25, "9" * 400, "9" * 5000, "0x10", "1_0"),
    *(
        "2020-13-45",
        "2020-12-01",
        "yes",
        "null",
        "~",
        "[]",
        "{}",
        "[1",
        "'",
        '"a\\0b"',
        '"\\ud800"',
        "&a [*a]",
        "!!set {a}",
    ),
    *("٣", "1:30", "75%", "fedavg:final", "((", "))", "()", "=", "=1", ",", "+", ":", "", " ", "\n", "\t", "é"),
]
words = st.one_of(st.sampled_from([*NAMES, *KEYS, *NUMBERS]), st.text(max_size=6))
signs = st.sampled_from([*"()+,=:.-* ", "", "(", ")", "="])


@st.composite
def near(draw: st.DrawFn) -> str:
    """A call or several, with arguments of any kind."""
    parts = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.lists(st.tuples(words, words), max_size=3)), max_size=3))
    calls = []
    for name, arguments in parts:
        inside = ",".join(f"{key}={value}" if draw(st.booleans()) else value for key, value in arguments)
        calls.append(f"{name}({inside})" if arguments else name)
    return draw(st.sampled_from(["+", ",", ":"])).join(calls)


texts = st.one_of(
    st.text(max_size=30),
    near(),
    st.lists(st.tuples(words, signs), max_size=8).map(lambda pairs: "".join(word + sign for word, sign in pairs)),
    st.integers(1, 400).map(lambda depth: "(" * depth + ")" * depth),
    st.integers(1, 400).map(lambda depth: "a(" * depth + ")" * depth),
    st.integers(1, 400).map(lambda depth: "[" * depth),
)

FACTS = {"classes": 10, "image_size": 8, "in_channels": 1}


def setting_of_methods(text: str) -> Any:
    """Read `--set TEXT` for two methods."""
    return parse_methods(["fedadam+swa", "fedsam"], dict([parse_setting(text)]))


READERS: dict[str, Callable[[str], Any]] = {
    "method": parse_method,
    "schedule": Schedule.parse,
    "measurements": parse_measurements,
    "watch": parse_watch,
    "augmentation": lambda text: named(text, FACTS),
    "setting": parse_setting,
    "setting of methods": setting_of_methods,
    "value": parse_value,
    "target": Target.parse,
}
