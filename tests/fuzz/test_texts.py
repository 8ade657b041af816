"""What people write, in whatever way: methods, schedules, settings, YAML; read, or refused with a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError
from fuzz.grammars import KEYS, NUMBERS, READERS, texts
from fuzz.mutations import ODD_VALUES
from fuzz.readers import answered, good_or_refused

MANY = bool(os.environ.get("FLATFED_FUZZ"))


@pytest.mark.parametrize("reader", READERS)
@given(text=texts)
@settings(max_examples=1500 if MANY else 40)
def test_grammars(reader: str, text: str) -> None:
    good_or_refused(lambda: READERS[reader](text))


OPTIONS = ["rounds", "lr", "clients", "set", "seed", "augment", "partition", "batch_size", "watch", "workers", "config"]
yaml_texts = st.one_of(
    st.text(max_size=60),
    st.dictionaries(st.sampled_from([*OPTIONS, *KEYS]), st.sampled_from(ODD_VALUES), max_size=4).map(json.dumps),
    st.lists(st.tuples(st.sampled_from([*OPTIONS, "? ", "- "]), st.sampled_from(NUMBERS)), max_size=4).map(
        lambda lines: "\n".join(f"{name}: {value}" for name, value in lines)
    ),
)


@given(text=yaml_texts)
@settings(max_examples=3000 if MANY else 60)
def test_yaml(text: str) -> None:
    good_or_refused(lambda: read_yaml(text))


@given(data=st.data())
@settings(max_examples=600 if MANY else 15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_configuration_files(tmp_path: Path, data: st.DataObject) -> None:
    """The data set is none, so that nothing is ever trained."""
    file = tmp_path / "c.yaml"
    raw = data.draw(
        st.one_of(yaml_texts.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=60))
    )
    file.write_bytes(raw)
    outcome = answered("run", "no-data-set", "fedavg", "--config", file)
    assert outcome.code == 2


BILLION = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
)

HOSTILE_YAML = {
    "an alias for each of 2^24": BILLION,
    "lists without end": "lr: " + "[" * 20_000,
    "mappings without end": "lr: " + "{a: " * 20_000,
    "no date": "lr: 2020-13-45",
    "400 digits": "rounds: " + "9" * 400,
    "5000 digits": "rounds: " + "9" * 5000,
    "a set": "lr: !!set {a, b}",
    "bytes": "lr: !!binary aGVsbG8=",
    "a Python object": "lr: !!python/object/apply:os.getcwd []",
    "a NUL": 'out: "a\\0b"',
    "half a character": 'out: "\\ud800"',
}


@pytest.mark.parametrize("name", HOSTILE_YAML)
def test_hostile_yaml(name: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HOSTILE_YAML[name])
    outcome = answered("run", "digits", "fedavg", "--config", file, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert not (tmp_path / "out").exists()


def test_a_date_is_text_and_an_alias_is_refused() -> None:
    assert read_yaml("a: 2020-12-01") == {"a": "2020-12-01"}
    with pytest.raises(ConfigError, match="line 2: aliases"):
        read_yaml("a: &x 1\nb: *x")
