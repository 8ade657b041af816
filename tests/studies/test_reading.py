"""Studies as people write them: every mistake with its place, all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.studies.cells import Cell, Resolver
from flatfed.studies.parts import Selection
from flatfed.studies.reading import StudyMistakes, read_study, study_of
from flatfed.studies.study import Study, log_range
from studies.bench import small

HEAD = "dataset: digits\nrounds: 2\n"
METHODS = "methods: [fedavg]\n"
WIDE = "\U0001f600"

MISTAKES = {
    "an unknown entry": (f"{HEAD}roundz: 3\n{METHODS}", 3, "unknown entry 'roundz'; did you mean 'rounds'"),
    "of a setting": (f"{HEAD}{METHODS}settings:\n  a:\n    alfa: 0\n", 6, "did you mean 'alpha'"),
    "of select": (f"{HEAD}{METHODS}select:\n  seedz: 3\n", 5, "did you mean 'seeds'"),
    "of report": (f"{HEAD}{METHODS}report: {{acuracy: best}}\n", 4, "did you mean 'accuracy'"),
    "of the grid": (f"{HEAD}{METHODS}grid:\n  fedvg: {{rho: [1, 2]}}\n", 5, "did you mean 'fedavg'"),
    "a word for a number": (f"{HEAD}lr: abc\n{METHODS}", 3, "lr: 'abc' is not a number"),
    "a list for a number": (f"{HEAD}lr: [1, 2]\n{METHODS}", 3, "lr"),
    "no whole number": (f"{HEAD}clients: 2.5\n{METHODS}", 3, "clients"),
    "a data set that is no name": (f"dataset: 3\n{METHODS}", 1, "dataset must be a name"),
    "a method that is none": (f"{HEAD}methods:\n  a: fedavg\n  b: fedsma\n", 5, "did you mean 'fedsam'"),
    "a method with a slip": (f"{HEAD}methods:\n  a: fedsam(rho=\n", 4, ""),
    "a method that is a number": (f"{HEAD}methods:\n  a: 3\n", 4, "written as text"),
    "no methods": (HEAD, 1, "methods must be a list"),
    "an empty list": (f"{HEAD}methods: []\n", 3, "there is none"),
    "names twice in a list": (f"{HEAD}methods: [fedavg, fedavg]\n", 3, "stands there twice"),
    "names twice": (f"{HEAD}methods:\n  a: fedavg\n  a: fedsam\n", 5, "stands there a second time"),
    "the same folder": (f"{HEAD}methods:\n  FedAvg: fedavg\n  fedavg: fedsam\n", 5, "the same folder"),
    "no folder": (f"{HEAD}methods:\n  a/b: fedavg\n", 4, "a character that a folder cannot have"),
    "a hidden folder": (f"{HEAD}methods:\n  .a: fedavg\n", 4, "a space or a point"),
    "a parent folder": (f"{HEAD}{METHODS}settings:\n  '..': {{}}\n", 5, "a space or a point"),
    "a long name": (f"{HEAD}methods:\n  {'x' * 81}: fedavg\n", 4, "longer than 80"),
    "many bytes": (f"{HEAD}methods:\n  {WIDE * 60}: fedavg\n", 4, "longer than 80"),
    "the name of all": (f"{HEAD}methods:\n  all: fedavg\n", 4, "every method in a grid"),
    "an empty name": (f"{HEAD}{METHODS}settings:\n  '': {{}}\n  a: {{}}\n", 5, "is empty"),
    "seeds twice": (f"{HEAD}{METHODS}seeds: 0, 0\n", 4, "different whole numbers"),
    "no seeds": (f"{HEAD}{METHODS}seeds: []\n", 4, "different whole numbers"),
    "words for seeds": (f"{HEAD}{METHODS}seeds: a\n", 4, "is not a seed"),
    "seeds backwards": (f"{HEAD}{METHODS}seeds: 4..0\n", 4, "is not a seed"),
    "seeds without end": (f"{HEAD}{METHODS}seeds: 0..99999999999\n", 4, "is not a seed"),
    "a negative seed": (f"{HEAD}{METHODS}seeds: [-1]\n", 4, "is not a seed"),
    "a log range upside down": (f"{HEAD}{METHODS}grid:\n  all:\n    lr: {{log: [1, 0.1, 3]}}\n", 6, "log range"),
    "a log range of words": (f"{HEAD}{METHODS}grid:\n  all: {{lr: {{log: [a, b, c]}}}}\n", 5, "log range"),
    "an endless log range": (f"{HEAD}{METHODS}grid:\n  all: {{lr: {{log: [1, 2, 999999999]}}}}\n", 5, "log range"),
    "no values": (f"{HEAD}{METHODS}grid:\n  all: {{lr: []}}\n", 5, "the values to try"),
    "values twice": (f"{HEAD}{METHODS}grid:\n  all: {{lr: [0.1, 0.1]}}\n", 5, "0.1 stands there twice"),
    "values of another kind": (f"{HEAD}{METHODS}grid:\n  all: {{lr: [0.1, x]}}\n", 5, "'x' is not a number"),
    "values that are lists": (f"{HEAD}{METHODS}grid:\n  all: {{lr: [[1], 2]}}\n", 5, "not a value to try"),
    "values that are no folders": (f"{HEAD}{METHODS}grid:\n  fedavg: {{x: [a/b, c]}}\n", 5, "the name of a folder"),
    "chosen by what is reported": (
        f"{HEAD}{METHODS}grid: {{all: {{lr: [0.1, 1]}}}}\nselect:\n  seeds: [7, 0]\n",
        6,
        "seed 0 is reported too",
    ),
    "chosen in an unknown way": (f"{HEAD}{METHODS}select:\n  by: test\n", 5, "by must be seeds or validation"),
    "a share of all": (f"{HEAD}{METHODS}select: {{share: 1}}\n", 4, "between 0 and 1"),
    "chosen by no rounds": (f"{HEAD}{METHODS}select: {{rounds: 0}}\n", 4, "at least 1"),
    "select that is a word": (f"{HEAD}{METHODS}select: seeds\n", 4, "must be `name: value` lines"),
    "a truth value for a number": (f"{HEAD}{METHODS}select: {{share: true}}\n", 4, "not a value of share"),
    "an unknown accuracy": (f"{HEAD}{METHODS}report: {{accuracy: mean}}\n", 4, "last, final, best or round N"),
    "round 0": (f"{HEAD}{METHODS}report: {{accuracy: round 0}}\n", 4, "last, final, best or round N"),
    "an unknown reference": (f"{HEAD}{METHODS}report: {{reference: fedvg}}\n", 4, "did you mean 'fedavg'"),
    "targets that are words": (f"{HEAD}{METHODS}report: {{targets: [a]}}\n", 4, "is not a number"),
    "two ways to sample": (f"{HEAD}{METHODS}settings:\n  a: {{per_round: 2, bernoulli: 0.5}}\n", 5, "give one of them"),
    "an option twice": (f"{HEAD}{METHODS}batch_size: 1\nbatch-size: 2\n", 1, "are the same option"),
    "a setting that is a list": (f"{HEAD}{METHODS}settings:\n  a: [1]\n", 5, "a setting holds options"),
    "settings that are a list": (f"{HEAD}{METHODS}settings: [a]\n", 4, "settings must be names"),
    "an empty file": ("", 1, "`name: value` lines"),
    "a list": ("- 1\n", 1, "`name: value` lines"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_file_and_line(name: str, tmp_path: Path) -> None:
    text, line, words = MISTAKES[name]
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8")
    outcome = flatfed("study", "check", file)
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert "defect" not in outcome.err
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert f"line {line}" in outcome.err
    assert words in outcome.err


@pytest.mark.parametrize("text", ["a: [", "a: *b", "a: &x [1]\nb: *x\n", "\t: :", "a: !!python/name:os.system", "\x00"])
def test_what_is_no_yaml_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    outcome = flatfed("study", "check", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert "is not YAML that can be used" in outcome.err


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"title: \xfc\n")
    for name in ("none.yaml", "latin.yaml", "."):
        outcome = flatfed("study", "check", tmp_path / name)
        assert (outcome.code, outcome.out) == (2, "")
        assert "Traceback" not in outcome.err


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "dataset: digits\nroundz: 3\nlr: x\nmethods:\n  a: fedsma\n  b/c: fedavg\nsettings:\n  s: {alfa: 1}\n"
        "seeds: 0, 0\nselect: {by: luck}\nreport: {reference: z, acuracy: 1}\ngrid: {d: {rho: 1}}\n"
    )
    outcome = flatfed("study", "run", file, "--out", tmp_path / "out")
    assert outcome.code == 2
    lines = [int(line.split("line ")[1].split(":")[0]) for line in outcome.err.splitlines()]
    assert sorted(lines) == [2, 3, 5, 6, 8, 9, 10, 11, 11, 12]
    assert not (tmp_path / "out").exists()


def test_all_mistakes_of_the_report_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    lines = {
        "acuracy: best": "did you mean 'accuracy'",
        "accuracy: mean": "last, final, best or round N",
        "metrics: [loss, loss]": "a metric stands there twice",
        "reference: fedvg": "did you mean 'fedavg'",
        "targets: nothing": "percentages or reference",
        "flatness: lambda_mx, lpf(samples=20), trce": "did you mean 'lambda_max'",
        "flatness_samples: 0": "at least 1",
        "published: fedgloss/table-33": "table-33",
        "against: lr": "no two settings",
        "curves: [3]": "not a value of curves",
        "figures: {a: {draw: landscpe}, b: {draw: landscape, methods: [fedvg]}}": "did you mean 'landscape'",
    }
    head = f"{HEAD}{METHODS}settings: {{a: {{alpha: 0}}, b: {{alpha: 1}}}}\nreport:\n"
    file.write_text(head + "".join(f"  {line}\n" for line in lines))
    outcome = flatfed("study", "check", file)
    assert outcome.code == 2
    told = outcome.err.splitlines()
    for number, words in enumerate(lines.values(), start=6):
        assert any(f"line {number}:" in line and words in line for line in told), (number, words, outcome.err)
    # Two of one line, twice: both measurements, and both figures.
    assert any("did you mean 'trace'" in line for line in told)
    assert any("line 16:" in line and "did you mean 'fedavg'" in line for line in told)
    assert len(told) == len(lines) + 2


def test_what_follows_from_a_mistake_is_not_told(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}methods: 3\nreport: {{reference: fedavg, figures: {{a: {{draw: landscape}}}}}}\n")
    assert len(flatfed("study", "check", file).err.splitlines()) == 1
    file.write_text(
        f"{HEAD}{METHODS}settings: {{a: {{alpha: x}}, b: {{alpha: 1}}}}\nreport: {{accuracy: 3, against: alpha}}\n"
    )
    assert len(flatfed("study", "check", file).err.splitlines()) == 2


def test_a_study_in_python() -> None:
    study = study_of(
        small(methods=["fedavg", {"mine": "fedsam(rho=0.1)"}], seeds="0..2", grid={"mine": {"rho": [1, 2]}})
    )
    assert study.methods == {"fedavg": "fedavg", "mine": "fedsam(rho=0.1)"}
    assert study.seeds == (0, 1, 2)
    assert study.points("mine") == [(("rho", 1),), (("rho", 2),)]
    assert study.points("fedavg") == [()]
    with pytest.raises(StudyMistakes) as caught:
        study_of(small(settings={"a": {"alfa": 1}}, seeds="x"))
    assert [mistake.partition(":")[0] for mistake in caught.value.mistakes] == ["settings.a.alfa", "seeds"]
    with pytest.raises(ConfigError, match="different whole numbers"):
        Study({"fedavg": "fedavg"}, {"dataset": "digits"}, seeds=())


@pytest.mark.parametrize(
    ("written", "seeds"),
    [(3, (3,)), ("0, 1,2", (0, 1, 2)), ("0..3", (0, 1, 2, 3)), ([4, 2], (4, 2)), ("5..5", (5,)), ("7", (7,))],
)
def test_seeds(written: Any, seeds: tuple[int, ...]) -> None:
    assert study_of(small(seeds=written)).seeds == seeds


def test_numbers_that_yaml_takes_for_words(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}methods: [fedsam]\ngrid: {{fedsam: {{rho: [1e-3, 1e-2]}}}}\n")
    assert read_study(file).grid == {"fedsam": {"rho": (1e-3, 1e-2)}}


def test_what_is_set_for_a_variant_by_its_name() -> None:
    methods = {"with SAM": "feddyn+sam", "without": "feddyn"}
    study = study_of(small(methods=methods, set={"with SAM:client_opt.rho": 0.3, "alpha": 0.2}))
    found = [Resolver(study).comparison(Cell("", name, 0)).methods[0].algorithm.to_dict() for name in methods]
    assert [entry["alpha"] for entry in found] == [0.2, 0.2]
    assert found[0]["client_opt"]["rho"] == 0.3
    # One that its method does not take is no setting for others: it is a mistake.
    study = study_of(small(methods=methods, set={"with SAM:rho": 0.3}))
    with pytest.raises(ConfigError, match="unknown parameter 'rho'"):
        Resolver(study).comparison(Cell("", "with SAM", 0))
    Resolver(study).comparison(Cell("", "without", 0))


def test_log_ranges() -> None:
    assert log_range(0.01, 1, 3) == (0.01, 0.1, 1)
    assert log_range(1e-4, 1e-3, 2) == (1e-4, 1e-3)
    for bad in ((0, 1, 3), (1, 1, 3), (0.1, 1, 1), (float("nan"), 1, 3), (1, float("inf"), 3)):
        with pytest.raises(ConfigError):
            log_range(*bad)


def test_the_rule_in_words() -> None:
    assert "seed 1000" in Selection().sentence
    assert "10 % of the training examples" in Selection(by="validation").sentence


def test_points_that_a_method_does_not_take_are_found_by_check(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    text = f"{HEAD}clients: 5\nper_round: 2\nmodel: logreg\nmethods: [fedavg, fedsam]\ngrid:\n"
    file.write_text(f"{text}  fedsam: {{rho: [0.1, -5]}}\n  fedavg: {{lr: [0.1, 0.5]}}\n")
    outcome = flatfed("study", "check", file)
    assert outcome.code == 2
    assert outcome.err.count("Error: ") == 1
    assert "rho" in outcome.err
    file.write_text(f"{text}  fedavg: {{lr: [0.1, 0.5]}}\nselect: {{metric: acuracy}}\n")
    outcome = flatfed("study", "check", file)
    assert outcome.code == 2
    assert "did you mean 'accuracy'" in outcome.err


def test_check_says_what_a_study_takes(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        f"{HEAD}clients: 5\nper_round: 2\nmodel: logreg\n{METHODS}seeds: 0..3\ngrid: {{all: {{lr: [1, 2]}}}}\n"
    )
    outcome = flatfed("study", "check", file, "--json", "--jobs", 1)
    assert outcome.code == 0, outcome.err
    assert (outcome.json["cells"], outcome.json["choosing"]) == (6, 2)
    assert outcome.json["seconds"] > 0
    assert not (tmp_path / "runs").exists()
