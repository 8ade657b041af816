"""A site's file: every mistake is one sentence, and `flatfed site check` finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.site.config import read_site, site_of
from flatfed.site.data import load_data
from sites.bench import site_in

GOOD: dict[str, Any] = {"site": "clinic-a", "data": "digits"}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"site": "Clinic A"}, "lower-case letters"),
    "name-number": ({"site": 5}, "site"),
    "name-long": ({"site": "a" * 64}, "lower-case letters"),
    "name-path": ({"site": "../a"}, "lower-case letters"),
    "name-none": ({"site": None}, "site"),
    "data-number": ({"data": 5}, "data"),
    "options-list": ({"data_options": [1]}, "data_options"),
    "options-keys": ({"data_options": {1: 2}}, "data_options"),
    "clients": ({"clients": 0}, "clients"),
    "clients-word": ({"clients": "many"}, "clients"),
    "folder": ({"folder": 3}, "folder"),
    "socket": ({"socket": []}, "socket"),
    "device": ({"device": 1}, "device"),
    "unknown": ({"sokcet": "x"}, "did you mean"),
    "limits": ({"limits": 3}, "limits"),
    "limits-unknown": ({"limits": {"method": ["fedavg"]}}, "did you mean"),
    "limits-methods": ({"limits": {"methods": 3}}, "methods must be a list of words"),
    "limits-methods-numbers": ({"limits": {"methods": [3]}}, "methods must be a list of words"),
    "limits-batch": ({"limits": {"min_batch": 0}}, "min_batch"),
    "limits-batch-real": ({"limits": {"min_batch": 1.5}}, "min_batch"),
    "limits-message": ({"limits": {"largest_message": "big"}}, "largest_message"),
    "limits-rounds": ({"limits": {"rounds_per_day": -1}}, "rounds_per_day"),
}


@pytest.mark.parametrize(("changes", "reason"), BAD.values(), ids=BAD.keys())
def test_a_mistake_is_one_sentence_in_every_command(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(GOOD | changes))
    check = flatfed("site", "check", "--config", file)
    assert check.code == 1
    assert check.out.startswith("FAULT    configuration: ")
    assert reason in check.out
    assert len(check.out.splitlines()) == 1
    for command in ("run", "health"):
        found = flatfed("site", command, "--config", file)
        assert found.code == 2
        assert reason in found.err
        assert "Traceback" not in found.err + found.out


TEXTS = {
    "empty": b"",
    "word": b"site",
    "list": b"- site",
    "number": b"3",
    "binary": b"\xff\xfe\0",
    "open": b"site: [",
    "tag": b"site: !!python/object/apply:os.system [ls]",
    "deep": b"[" * 5000,
    "no-data": b"site: a",
    "no-site": b"data: digits",
    "numbers": b"1: 2",
    "twice": b"site: a\nsite: b\ndata: digits",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_file_that_is_something_else(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"site\.yaml") as caught:
        read_site(file)
    assert "Traceback" not in str(caught.value)
    assert flatfed("site", "check", "--config", file).code == 1
    assert flatfed("site", "run", "--config", file).code == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    found = flatfed("site", "run", "--config", tmp_path / "site.yaml")
    assert found.code == 2
    assert "make one with `flatfed deploy init`" in found.err
    assert flatfed("site", "check", "--config", tmp_path).code == 1


LATE: dict[str, tuple[dict[str, Any], str, str]] = {
    "socket": ({"socket": "s" * 120}, "configuration", "is too long"),
    "device": ({"device": "abacus"}, "configuration", "abacus"),
    "data": ({"data": "digitz"}, "data", "did you mean"),
    "option": ({"data_options": {"colour": "red"}}, "data", "colour"),
    "partition": ({"partition": "idd"}, "data", "did you mean"),
    "clients": ({"clients": 3}, "data", "name the partition too"),
    "examples": ({"limits": {"min_examples": 10**6}}, "limits", "no run is taken"),
}


@pytest.mark.parametrize(("changes", "what", "reason"), LATE.values(), ids=LATE.keys())
def test_check_finds_what_only_a_run_would(changes: dict[str, Any], what: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(GOOD | changes))
    found = flatfed("site", "check", "--config", file, "--json")
    assert found.code == 1
    (fault,) = [finding for finding in found.json if finding["state"] == "fault"]
    assert fault["what"] == what
    assert reason in fault["text"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site.yaml"]


def test_a_site_does_not_scale_by_its_own_rows(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("age,risk\n" + "".join(f"{20 + n / 4},{('low', 'high')[n % 2]}\n" for n in range(40)))
    options = {"path": str(table), "target": "risk"}
    with pytest.raises(ConfigError, match=r"give what all sites agreed on: data\.preprocessing=FILE"):
        load_data(site_in(tmp_path, "a", data="table", data_options=options))
    agreed = ff.dataset("table", **options).preprocessing
    assert agreed is not None
    agreed.save(tmp_path / "agreed.json")
    data = load_data(site_in(tmp_path, "a", data="table", data_options=options | {"preprocessing": "agreed.json"}))
    assert data.pool.preprocessing == agreed.to_dict() and data.counts == [36]


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(plain, inner, max_size=2))
NAMES = ("site", "data", "data_options", "clients", "partition", "folder", "socket", "device", "limits")


@given(st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
def test_any_content_is_a_site_or_a_config_error(content: dict[str, Any]) -> None:
    try:
        site = site_of(GOOD | content, Path("/home"), "site.yaml")
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert site.limits.largest_bytes > 0


def test_a_site_with_a_name_and_data_of_its_own_needs_no_file() -> None:
    outcome = flatfed("site", "check", "--name", "here", "--data", "digits")
    assert outcome.code == 0
    assert "site here" in outcome.out
    assert "1,437 training examples" in outcome.out


def test_options_without_a_command_are_those_of_run() -> None:
    assert flatfed("site", "--config", "nowhere.yaml").err == flatfed("site", "run", "--config", "nowhere.yaml").err
    assert flatfed("site", "--data", "digitz", "--name", "here").code == 2
