"""Figures of a study as people write them: every mistake with its place, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from flatfed.studies.drawing.figure import Figure
from flatfed.studies.reading import StudyMistakes, study_of
from studies.bench import small

HEAD = """\
dataset: digits
rounds: 2
methods: [fedavg, fedsam, feddyn, scaffold]
settings: {a: {alpha: 0}, b: {alpha: 1}}
report:
  figures:
"""
LAST = HEAD.count("\n")
FEW = "methods: [fedavg, fedsam]"

MISTAKES = {
    "nothing to draw": ("x: {points: 3}", 1, "say what it draws"),
    "a word": ("x: landscape", 1, "say what it draws"),
    "an unknown drawing": ("x: {draw: landscap}", 1, "did you mean 'landscape'"),
    "a drawing that is a list": ("x: {draw: [landscape]}", 1, "unknown drawing"),
    "an unknown option": ("x:\n      draw: landscape\n      point: 5", 3, "did you mean 'points'"),
    "an option of another drawing": (
        "x:\n      draw: robustness\n      points: 5",
        3,
        "unknown entry of a figure that",
    ),
    "an option of none": ("x:\n      draw: class-distribution\n      seed: 5", 3, "unknown entry of a figure"),
    "an even number of points": ("x:\n      draw: landscape\n      points: 4", 3, "an odd number"),
    "a word for points": ("x:\n      draw: landscape\n      points: many", 3, "points: 'many' is not a whole number"),
    "an unknown kind": ("x: {draw: landscape, kind: surf}", 1, "kind: 'surf' is not one of"),
    "no extent": ("x:\n      draw: landscape\n      extent: 0", 3, "greater than 0"),
    "a client of no kind": (
        "x:\n      draw: landscape\n      client: 3",
        3,
        "client says whose model kind client shows",
    ),
    "clients of no kind": ("x: {draw: landscape, clients: [1, 2, 3]}", 1, "clients says whose models kind clients"),
    "two clients": ("x: {draw: landscape, kind: clients, clients: [1, 2]}", 1, "three clients"),
    "the next round": ("x: {draw: landscape, kind: clients, round: next}", 1, "only kind client has a next one"),
    "a line of all": ("x: {draw: landscape, kind: line}", 1, "kind line takes 2 runs, not 4; name as many methods"),
    "a plane of two": (f"x: {{draw: landscape, kind: plane, {FEW}}}", 1, "kind plane takes 3 runs, not 2"),
    "an unknown method": ("x:\n      draw: landscape\n      methods: [fedvg]", 3, "did you mean 'fedavg'"),
    "an unknown setting": ("x:\n      draw: flatness\n      settings: [c]", 3, "unknown setting 'c'; known: a, b"),
    "an unknown seed": ("x:\n      draw: flatness\n      seeds: [7]", 3, "unknown seed '7'; known: 0"),
    "a word for seeds": ("x:\n      draw: flatness\n      seeds: many", 3, "is not a seed; write 0, 1, 2 or 0..4"),
    "no seeds": ("x: {draw: flatness, seeds: []}", 1, "name a seed of the study"),
    "a seed twice": ("x: {draw: flatness, seeds: [0, 0]}", 1, "a seed stands there twice"),
    "a method twice": ("x: {draw: flatness, methods: [fedavg, fedavg]}", 1, "stands there twice"),
    "methods that are a mapping": ("x: {draw: flatness, methods: [{a: 1}]}", 1, "is not a list of names"),
    "no methods": ("x: {draw: flatness, methods: []}", 1, "is not a list of names"),
    "methods of classes": ("x: {draw: class-distribution, methods: fedavg}", 1, "leave methods out"),
    "an unknown measurement": ("x:\n      draw: flatness\n      measure: spectrm", 3, "did you mean 'spectrum'"),
    "a protocol and more": ("x: {draw: flatness, protocol: fedgloss, measure: trace}", 1, "leave out measure"),
    "a protocol and a space": ("x: {draw: flatness, protocol: fedgloss, space: full}", 1, "leave out space"),
    "many clients on a map": ("x: {draw: embedding, clients: 7}", 1, "at most 6"),
    "weights of a map of clients": ("x: {draw: embedding, clients: 2, weights: global}", 1, "leave out weights"),
    "a severity": ("x: {draw: robustness, severity: 6}", 1, "severity: '6' is not one of"),
    "a corruption": ("x: {draw: robustness, corruptions: [fog, snw]}", 1, "did you mean 'snow'"),
    "no name of a file": ("a/b: {draw: flatness}", 1, "a character that a folder cannot have"),
    "one file for two": ("x: {draw: flatness}\n    X: {draw: embedding}", 2, "the same folder"),
    "a part of another": (
        "x: {draw: landscape, settings: a}\n    x-a-contours: {draw: class-distribution}",
        2,
        "may be one of 'x' too",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    text, line, words = MISTAKES[name]
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}    {text}\n", encoding="utf-8")
    outcome = flatfed("study", "check", file)
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert "Traceback" not in outcome.err
    # A name that is taken may be wrong in two ways.
    first = outcome.err.splitlines()[0]
    assert f"line {LAST + line}:" in first, first
    assert words in first, first


@pytest.mark.parametrize("content", ["landscape", ["landscape"], 3])
def test_figures_are_names(content: Any) -> None:
    with pytest.raises(StudyMistakes, match="figures must be names"):
        study_of(small(report={"figures": content}))


def test_names_that_are_too_long_together() -> None:
    long = "x" * 79
    figures = {long: {"draw": "landscape", "kind": "clients"}}
    with pytest.raises(StudyMistakes, match="too long a name"):
        study_of(small(methods={long: "fedavg"}, settings={long: {}}, report={"figures": figures}))


def test_all_mistakes_come_at_once() -> None:
    figures = {"a": {"draw": "landscape", "points": 4, "kin": 1}, "b": {"draw": "x"}, "c": 3}
    with pytest.raises(StudyMistakes) as caught:
        study_of(small(report={"figures": figures}))
    places = [mistake.partition(":")[0] for mistake in caught.value.mistakes]
    # Options are judged together once each is right by itself.
    assert places == ["report.figures.a.kin", "report.figures.b.draw", "report.figures.c"]


def test_what_is_written_is_what_is_drawn() -> None:
    figures = {
        "one": {"draw": "landscape", "kind": "clients", "clients": "1,2,3", "samples": "all"},
        "two": {"draw": "flatness", "measure": ["spectrum(k=5)", "trace"], "methods": "fedavg"},
        "three": {"draw": "robustness", "severity": 3, "corruptions": ["fog", "gaussian-noise"]},
    }
    read = study_of(small(report={"figures": figures})).report.figures
    assert read["one"] == Figure("landscape", {"kind": "clients", "clients": [1, 2, 3], "samples": "all"})
    assert read["two"] == Figure("flatness", {"measure": "spectrum(k=5), trace"}, ("fedavg",))
    assert read["three"].options == {"severity": "3", "corruptions": "fog, gaussian-noise"}
    assert read["two"].values["samples"] == "all"
    assert read["one"].is_of_one_run
    assert not read["two"].is_of_one_run
