"""A variant with options of its own: read, told where it is wrong, trained, made longer, written and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.studies.cells import Cell, Resolver
from flatfed.studies.entering import recorded_study
from flatfed.studies.folder import StudyFolder
from flatfed.studies.presets import find_preset
from flatfed.studies.reading import study_of
from flatfed.studies.study import Study
from studies.bench import small, written

OWN: dict[str, Any] = {
    "methods": {
        "fedavg": None,
        "all data": {"method": "centralised+sam", "rounds": 2, "set": {"client_opt.rho": 0.1}},
        "fedsam": {"rounds": 1},
    },
    "settings": {"a": {}, "b": {"rounds": 4, "methods": {"all data": {"rounds": 1, "lr": 0.01}}}},
    "set": {"client_opt.rho": 0.5, "centralised+sam:client_opt.rho": 0.7, "fedsam:rho": 0.3},
}


def options(study: Study, setting: str, variant: str) -> Any:
    return Resolver(study)._options(Cell(setting, variant, 0))


def test_what_is_nearer_to_a_cell_goes_before() -> None:
    study = study_of(small(**OWN))
    assert study.methods == {"fedavg": "fedavg", "all data": "centralised+sam", "fedsam": "fedsam"}
    found = {key: options(study, *key)["rounds"] for key in study.columns()}
    assert found == {
        ("a", "fedavg"): 3,
        ("a", "all data"): 2,
        ("a", "fedsam"): 1,
        ("b", "fedavg"): 4,
        ("b", "all data"): 1,
        ("b", "fedsam"): 1,
    }
    assert options(study, "b", "all data")["lr"] == 0.01
    method = Resolver(study).comparison(Cell("a", "all data", 0)).methods[0]
    assert method.algorithm.to_dict()["client_opt"]["rho"] == 0.1


def test_a_point_and_a_variants_name_go_before_what_names_the_method() -> None:
    content = small(
        methods={"mine": "fedsam", "other": "fedsam"},
        set={"fedsam:rho": 0.3, "other:rho": 0.4},
        grid={"mine": {"rho": [0.1]}},
    )
    resolver = Resolver(study_of(content))
    found = {
        cell.variant: resolver.comparison(cell).methods[0].algorithm.to_dict()["rho"]
        for cell in (Cell("", "mine", 0, (("rho", 0.1),)), Cell("", "other", 0))
    }
    assert found == {"mine": 0.1, "other": 0.4}


HEAD = "dataset: digits\nmethods:\n  fedavg:\n"
MISTAKES = {
    "an unknown option": (f"{HEAD}  b:\n    method: fedsam\n    roundz: 3\n", 6, "did you mean 'rounds'"),
    "a value of another kind": (f"{HEAD}  fedsam: {{rounds: x}}\n", 4, "rounds"),
    "a spelling with a slip": (f"{HEAD}  b:\n    rounds: 3\n    method: fedsma\n", 6, "did you mean 'fedsam'"),
    "a spelling that is none": (f"{HEAD}  b: {{method: 3}}\n", 4, "written as text"),
    "a name that is no spelling": (f"{HEAD}  b: {{rounds: 3}}\n", 4, "unknown"),
    "data of its own": (f"{HEAD}  fedsam: {{dataset: cifar10}}\n", 4, "make it a setting"),
    "an unknown method in a setting": (
        f"{HEAD}settings:\n  s:\n    methods:\n      fedvg: {{rounds: 3}}\n",
        7,
        "did you mean 'fedavg'",
    ),
    "an unknown option in a setting": (
        f"{HEAD}settings:\n  s:\n    methods:\n      fedavg:\n        roundz: 3\n",
        8,
        "did you mean 'rounds'",
    ),
    "no options in a setting": (f"{HEAD}settings:\n  s: {{methods: {{fedavg: 3}}}}\n", 5, "the options that it has"),
    "a list in a setting": (f"{HEAD}settings:\n  s: {{methods: [fedavg]}}\n", 5, "write methods with the options"),
    "two ways to say one thing": (f"{HEAD}  fedsam: {{alpha: 1, beta: 2}}\n", 4, "give one of them"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_line(name: str, tmp_path: Path) -> None:
    text, line, words = MISTAKES[name]
    file = tmp_path / "s.yaml"
    file.write_text(text)
    outcome = flatfed("study", "check", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert f"line {line}:" in outcome.err
    assert words in outcome.err


def test_in_python() -> None:
    study = ff.Study(
        methods={"fedavg": "fedavg", "all data": "centralised"},
        options={"dataset": "digits", "rounds": 3},
        method_options={"all data": {"rounds": 1}},
    )
    assert options(study, "", "all data")["rounds"] == 1
    with pytest.raises(ConfigError, match="did you mean 'fedavg'"):
        ff.Study(methods={"fedavg": "fedavg"}, options={}, method_options={"fedvg": {}})


def rounds(folder: Path) -> dict[str, int]:
    files = (folder / "out").glob("cells/*/seed-0/history.jsonl")
    return {file.parent.parent.name: len(file.read_text().splitlines()) for file in files}


def test_a_variant_is_made_longer_in_place_and_the_others_stay(tmp_path: Path) -> None:
    def run(count: int) -> None:
        methods = {"fedavg": None, "all data": {"method": "centralised", "rounds": count}}
        done = flatfed("study", "run", written(tmp_path, methods=methods), "--out", tmp_path / "out", "--jobs", 1)
        assert done.code == 0, done.err

    run(1)
    assert rounds(tmp_path) == {"fedavg": 3, "all data": 1}
    before = (tmp_path / "out/cells/fedavg/seed-0/history.jsonl").read_bytes()
    run(2)
    assert rounds(tmp_path) == {"fedavg": 3, "all data": 2}
    assert (tmp_path / "out/cells/fedavg/seed-0/history.jsonl").read_bytes() == before
    # What was entered is what is shown.
    recorded = recorded_study(StudyFolder(tmp_path / "out"))
    assert recorded.method_options == {"all data": {"rounds": 2}}
    assert (tmp_path / "out/curves/all/test_accuracy.png").exists()


def test_what_a_preset_writes_is_read_as_the_same(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    assert flatfed("study", "write", "fedgloss/table-6", file).code == 0
    study, preset = Study.read(file), find_preset("fedgloss/table-6").resolved("small")
    assert study.method_options == preset.method_options
    assert {key: options(study, *key)["rounds"] for key in study.columns() if "centralised" in key[1]} == {
        key: 5 for key in study.columns() if "centralised" in key[1]
    }


@pytest.mark.parametrize("item", ["table-6", "fig-15", "fig-16", "fig-18"])
def test_centralised_training_has_the_work_of_the_federated_rounds(item: str) -> None:
    for scale in ("paper", "small"):
        study = find_preset(f"fedgloss/{item}").resolved(scale)
        federated, central = "fedgloss+sam", [name for name in study.methods if name.startswith("centralised")]
        assert central
        for setting in study.settings:
            of = options(study, setting, federated)
            for variant in central:
                assert options(study, setting, variant)["rounds"] == of["rounds"] * of["per_round"] / of["clients"]
