"""The claims and their settings from `claims.yaml`: a bad entry is an error with the file's name and the line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from flatfed.core.configuration.values import read_yaml_with_lines
from flatfed.core.errors import ConfigError, nearest
from flatfed.published.claims.claim import KINDS, METRICS, Claim, Setting
from flatfed.published.claims.rules import Rule, read_rule
from flatfed.published.numbers import papers

FILE = "claims.yaml"
BETWEEN = "between"
"""The place of a paper in the id of a claim on several papers."""

TEXTS = ("statement", "where", "kind", "metric", "not_checked", "left_out", "our_reading", "against", "changed")
LISTS = ("settings", "tables", "tests")
REQUIRED = ("statement", "where", "kind", "metric")
ENTRIES = (*TEXTS, *LISTS, "methods", "rules")
COUNTS = ("clients_total", "clients_per_round", "rounds", "local_epochs")
WORDS = ("dataset", "model", "partition", "partition_value", "target")

Way = tuple[str, ...]


@cache
def _content() -> tuple[dict[str, Setting], dict[str, Claim]]:
    text = (files("flatfed.published") / "files" / FILE).read_text(encoding="utf-8")
    return read_claims(FILE, text)


def settings() -> dict[str, Setting]:
    """Return the settings by their names."""
    return _content()[0]


def claims(paper: str | None = None, kind: str | None = None) -> list[Claim]:
    """Return the claims, perhaps of one paper (or `between`) or of one kind; an unknown name is an error."""
    chosen = list(_content()[1].values())
    if paper is not None:
        _refuse_unknown(paper.lower(), [*papers(), BETWEEN], "paper")
        chosen = [claim for claim in chosen if claim.paper == paper.lower()]
    if kind is not None:
        _refuse_unknown(kind.lower(), KINDS, "kind of claim")
        chosen = [claim for claim in chosen if claim.kind == kind.lower()]
    return chosen


def find_claim(id: str) -> Claim:
    """Return a claim by its id, or by its number alone."""
    every = _content()[1]
    for claim in every.values():
        if id.lower() == claim.id or id.lstrip("0") == str(claim.number):
            return claim
    raise ConfigError(nearest(id, every, "claim"))


def read_claims(file: str, text: str) -> tuple[dict[str, Setting], dict[str, Claim]]:
    """Return the settings and the claims that a YAML text holds."""
    try:
        content, lines = read_yaml_with_lines(text)
    except ConfigError as error:
        raise error.within(file) from None
    return _ClaimsReader(file, lines).read(content)


class _ClaimsReader:
    """Reads the file and knows where everything stands in it."""

    def __init__(self, file: str, lines: Mapping[Way, int]) -> None:
        self.file, self.lines = file, lines

    def line(self, way: Way) -> int:
        """Return the line of an entry, or of the nearest around it."""
        while way and way not in self.lines:
            way = way[:-1]
        return self.lines.get(way, 1)

    @contextmanager
    def at(self, *way: str) -> Iterator[None]:
        """Put the place of an entry before an error in it."""
        try:
            yield
        except ConfigError as error:
            if str(error).startswith(f"{self.file}, line"):  # an entry below has said where
                raise
            raise error.within(f"{self.file}, line {self.line(way)}") from None

    def read(self, content: Any) -> tuple[dict[str, Setting], dict[str, Claim]]:
        """Return all of it."""
        with self.at():
            _refuse_others(content, ("settings", "claims"), ("settings", "claims"), "part")
        known = {}
        for name, entry in self._entries(content, "settings"):
            with self.at("settings", name):
                known[name] = self._setting(name, entry)
        found: dict[str, Claim] = {}
        for id, entry in self._entries(content, "claims"):
            with self.at("claims", id):
                found[id] = self._claim(id, entry, len(found) + 1)
                self._check(found[id], known)
        return known, found

    def _entries(self, content: Mapping[str, Any], part: str) -> Iterator[tuple[str, Any]]:
        with self.at(part):
            if not isinstance(content[part], Mapping):
                raise ConfigError(f"`{part}` holds `name: value` entries")
        for name, entry in content[part].items():
            yield str(name), entry

    def _setting(self, name: str, entry: Any) -> Setting:
        _refuse_others(entry, (*WORDS, *COUNTS, "extras"), (), "entry")
        given: dict[str, Any] = {}
        for field, value in entry.items():
            with self.at("settings", name, field):
                given[field] = _of_setting(field, value)
        return Setting(name, **given)

    def _claim(self, id: str, entry: Any, number: int) -> Claim:
        _check_id(id, number)
        _refuse_others(entry, ENTRIES, REQUIRED, "entry")
        way = ("claims", id)
        given: dict[str, Any] = {}
        for field in TEXTS:
            with self.at(*way, field):
                given[field] = _text(field, entry.get(field, ""), field in REQUIRED)
        for field in LISTS:
            with self.at(*way, field):
                given[field] = _texts(field, entry.get(field, []))
        with self.at(*way, "methods"):
            named = _texts("methods", entry.get("methods", []))
        with self.at(*way, "kind"):
            _refuse_unknown(given["kind"], KINDS, "kind of claim")
        with self.at(*way, "metric"):
            _refuse_unknown(given["metric"], METRICS, "metric of claims")
        rules = tuple(self._rules(way, entry.get("rules", [])))
        return Claim(id, rules=rules, named=named, line=self.line(way), **given)

    def _rules(self, way: Way, content: Any) -> Iterator[Rule]:
        with self.at(*way, "rules"):
            if not isinstance(content, list):
                raise ConfigError("`rules` must be a list")
        for number, entry in enumerate(content):
            with self.at(*way, "rules", str(number)):
                yield read_rule(entry)

    def _check(self, claim: Claim, known: Mapping[str, Setting]) -> None:
        """Refuse a claim whose parts do not go together."""
        for setting in claim.every_setting:
            _refuse_unknown(setting, known, "setting")
        for metric in claim.metrics:
            _refuse_unknown(metric, METRICS, "metric of claims")
        if not claim.methods:
            raise ConfigError("name the `methods`, for no rule names one")
        if not claim.rules and not claim.not_checked and not claim.tests:
            raise ConfigError("a claim has rules, or tests, or says in `not_checked` why it has none")
        if claim.rules and claim.not_checked:
            raise ConfigError("a claim that has rules is checked; put what they do not say into `left_out`")
        if claim.kind == "exact" and not claim.tests:
            raise ConfigError("an exact claim names the `tests` that prove it")
        if any(rule.needs_own_settings for rule in claim.rules) and not claim.settings:
            raise ConfigError("a rule leaves its setting to the claim, which names no `settings`")


def _check_id(id: str, number: int) -> None:
    paper, _, digits = id.rpartition("-")
    _refuse_unknown(paper, [*papers(), BETWEEN], "paper")
    if digits != f"{number:02d}":
        raise ConfigError(f"the number of {id} must be {number:02d}: claims are counted through")


def _refuse_others(entry: Any, known: Iterable[str], required: Iterable[str], kind: str) -> None:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"expected `name: value` entries, not {entry!r:.60}")
    for name in entry:
        _refuse_unknown(str(name), known, kind)
    for name in required:
        if name not in entry:
            raise ConfigError(f"`{name}` is missing")


def _refuse_unknown(name: str, known: Iterable[str], kind: str) -> None:
    known = list(known)
    if name not in known:
        raise ConfigError(nearest(name, known, kind))


def _of_setting(field: str, value: Any) -> Any:
    if field == "extras":
        return _texts(field, value)
    if field in COUNTS:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{field} must be a whole number from 1 on, not {value!r}")
        return value
    # A plain 0.05 is the text of the tables.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{field} must be a word or a number, not {value!r:.60}")
    return str(value)


def _text(field: str, value: Any, required: bool) -> str:
    if not isinstance(value, str) or (required and not value.strip()):
        raise ConfigError(f"`{field}` must be a text, not {value!r:.60}")
    return " ".join(value.split())


def _texts(field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ConfigError(f"`{field}` must be a list of texts, not {value!r:.60}")
    return tuple(value)
