"""`flatfed claims`, as people and programs see it."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from cli.command import flatfed, on_terminal, refused
from flatfed.published.claims import claims
from flatfed.runs.results import KeptResults
from flatfed.studies.claimed.variants import find_variant, find_variants, taken_apart

STUDY = """\
dataset: digits
rounds: 2
clients: 6
per-round: 3
model: logreg
evaluate-every: 1
methods:
  fedavg:
  fedsam:
  fedgf:
  fedvssam:
  the same: fedgf(c=0)
settings:
  one class: {alpha: 0}
seeds: 0, 1, 2
report: {targets: 15}
"""


@pytest.fixture(scope="module")
def trained_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "s.yaml").write_text(STUDY, encoding="utf-8")
    outcome = flatfed("study", "run", folder / "s.yaml", "--out", folder / "out", "--jobs", 1)
    assert outcome.code == 0, outcome.err
    return folder / "out"


@pytest.fixture
def study(trained_study: Path, tmp_path: Path) -> Path:
    """A copy, to measure in."""
    return Path(shutil.copytree(trained_study, tmp_path / "study"))


def judged(folder: Path, *options: object) -> dict[str, dict[str, object]]:
    outcome = flatfed("claims", "check", folder, "--json", *options)
    assert (outcome.code, outcome.err) == (0, "")
    return {one["claim"]: one for one in outcome.json}


# --- listing ----------------------------------------------------------------------------------------------------------


def test_all_are_listed() -> None:
    outcome = flatfed("claims")
    assert (outcome.code, outcome.err) == (0, "")
    assert all(claim.id in outcome.out and claim.statement in outcome.out for claim in claims())
    assert "85 claims" in outcome.out


def test_some_are_listed() -> None:
    outcome = flatfed("claims", "--paper", "fedgf", "--kind", "exact")
    assert [word for word in outcome.out.split() if word.startswith("fedgf-")] == [
        *("fedgf-68", "fedgf-69", "fedgf-76", "fedgf-68")
    ]
    assert flatfed("claims", "--paper", "fedgf", "--kind", "counter").out == "no claim for this choice\n"


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_terminal(columns: int) -> None:
    for arguments in (("claims",), ("claims", "show", "fedgloss-05")):
        outcome = on_terminal(*arguments, columns=columns)
        assert outcome.code == 0
        assert max(map(len, outcome.out.splitlines())) <= columns


def test_as_json() -> None:
    records = flatfed("claims", "--json").json
    assert [record["id"] for record in records] == [claim.id for claim in claims()]
    assert records[4]["methods"][0] == "fedgloss+sam"
    assert records[4]["paper"] == "fedgloss"


def test_one_is_shown_with_the_printed_numbers() -> None:
    outcome = flatfed("claims", "show", "fedsam-26")
    assert (outcome.code, outcome.err) == (0, "")
    text = " ".join(outcome.out.split())
    assert "In the paper's own numbers: holds: comparisons: 4 for it" in text
    assert "fedasam @ cifar100-0-some is lower than fedsam @ cifar100-0-some; 30.11 against 70.29" in text
    assert "setting cifar100-0-some: cifar100, cnn, dirichlet 0" in text
    assert flatfed("claims", "show", 26).out == outcome.out


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id)
def test_every_claim_can_be_shown(claim: object) -> None:
    outcome = flatfed("claims", "show", claim.id, "--json")  # type: ignore[attr-defined]
    assert outcome.code == 0
    assert outcome.json["printed"]["outcome"] in ("holds", "undecided")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shw",), "unknown command 'shw'; did you mean 'show'?"),
        (("show", "fedglos-05"), "unknown claim 'fedglos-05'; did you mean 'fedgloss-05'"),
        (("--paper", "fedsan"), "unknown paper 'fedsan'; did you mean 'fedsam'"),
        (("--kind", "exakt"), "unknown kind of claim 'exakt'; did you mean 'exact'?"),
        (("--paper", "fedsam", "show", "26"), "--paper belongs behind show"),
        (("check", "nowhere"), "nowhere is not the folder of a study"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    refused(flatfed("claims", *arguments), message)


# --- judging a study --------------------------------------------------------------------------------------------------


def test_a_study_is_judged(study: Path) -> None:
    found = judged(study)
    assert list(found) == [claim.id for claim in claims()]
    # FedGF with c = 0 is FedSAM bit by bit.
    assert found["fedgf-68"]["outcome"] == "holds"
    assert [one["interval"]["high"] for one in found["fedgf-68"]["comparisons"]] == [0]  # type: ignore[attr-defined]
    assert found["fedsam-30"]["comparisons"][1]["interval"]["count"] == 3  # type: ignore[index]
    assert "judged on digits instead of cifar10, cifar100" in found["fedsam-30"]["sentence"]  # type: ignore[operator]


def test_counts_are_judged_in_any_setting(study: Path) -> None:
    comparisons = judged(study, "--paper", "fedwmsam")["fedwmsam-47"]["comparisons"]
    outcomes = {one["statement"].partition(" @")[0]: one["outcome"] for one in comparisons}  # type: ignore[attr-defined]
    assert outcomes["(fedsam"] == "holds"
    assert outcomes["(fedwmsam"] == "undecided"


def test_what_was_not_measured_is_undecided(study: Path) -> None:
    found = judged(study)["fedgf-72"]
    assert (found["outcome"], found["sentence"]) == (
        "undecided",
        "undecided: not measured: the study has no lambda_max",
    )


def test_what_was_measured_of_the_models_is_used(study: Path) -> None:
    """Results are put where `flatfed flatness` keeps them."""
    sharpness = {"fedavg": 80.0, "fedsam": 40.0}
    for method, value in sharpness.items():
        for seed in (0, 1, 2):
            key = {"round": 2, "weights": "evaluated", "sample": {"of": "train", "seed": 0, "most": None}}
            result = {"numbers": {"lambda_max": value + seed}, "clients": {}, "series": {}, "remark": ""}
            KeptResults(study / "cells" / "one class" / method / f"seed-{seed}").keep(
                key | {"measurement": {"id": "lambda_max"}}, result
            )
    comparisons = judged(study, "--paper", "fedgf")["fedgf-72"]["comparisons"]
    last = comparisons[-1]  # type: ignore[index]
    assert last["statement"] == "fedsam @ one class is lower than fedavg @ one class"
    assert (last["outcome"], last["left"], last["right"]) == ("holds", 41, 81)


def test_a_setting_may_stand_for_one_of_the_claims(study: Path) -> None:
    found = judged(study, "--as", "one class=cifar100-0")
    statements = [one["statement"] for one in found["fedsam-30"]["comparisons"]]  # type: ignore[attr-defined]
    assert statements == [
        "fedasam @ cifar100-0 is higher than fedsam @ cifar100-0",
        "fedsam @ cifar100-0 is higher than fedavg @ cifar100-0",
    ]


def test_a_claim_on_another_division_is_not_judged(study: Path) -> None:
    assert "no setting of the study is divided as the claim's" in str(judged(study)["fedwmsam-50"]["sentence"])


def test_costs_to_a_target_are_those_of_the_history(study: Path) -> None:
    found = judged(study, "--as", "one class=cifar10-moderate")["fedvssam-57"]["comparisons"]
    last = found[-1]  # type: ignore[index]
    assert last["statement"] == "fedvssam @ cifar10-moderate is lower than fedavg @ cifar10-moderate"
    for side, method in (("left", "fedvssam"), ("right", "fedavg")):
        rounds = [reached(study / "cells" / "one class" / method / f"seed-{seed}") for seed in (0, 1, 2)]
        expected = None if math.inf in rounds else pytest.approx(sum(rounds) / 3)
        assert last[side] == expected


def reached(run: Path) -> float:
    """The first round with 15 % or more."""
    lines = (run / "history.jsonl").read_text(encoding="utf-8").splitlines()
    accuracies = [json.loads(line)["test_accuracy"] for line in lines]
    return next((number for number, accuracy in enumerate(accuracies, 1) if accuracy >= 0.15), math.inf)


def test_the_table_of_a_study(study: Path) -> None:
    outcome = flatfed("claims", "check", study, "--paper", "fedsam")
    assert (outcome.code, outcome.err) == (0, "")
    assert "fedsam-30" in outcome.out
    assert "others are undecided" in outcome.out
    nothing = flatfed("claims", "check", study, "--paper", "between")
    assert nothing.out.startswith("the study says nothing about these claims\n")
    wide = on_terminal("claims", "check", study, columns=80)
    assert max(map(len, wide.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("one clas=cifar10-0", "unknown setting of the study 'one clas'; did you mean 'one class'?"),
        ("one class=cifar10-9", "unknown setting of claims 'cifar10-9'; did you mean 'cifar10-0'"),
        ("one class", "--as must be OURS=THEIRS"),
    ],
)
def test_a_mistake_in_what_stands_for_what(study: Path, option: str, message: str) -> None:
    refused(flatfed("claims", "check", study, "--as", option), message)


# --- variants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "variants", "found"),
    [
        ("fedsam", {"x": "fedavg+sam"}, "x"),
        ("fedsam", {"x": "fedsam(rho=0.2)"}, "x"),
        ("fedsam", {"x": "fedsam(rho=0.2)", "y": "fedsam"}, "y"),
        ("fedsam", {"x": "fedsam(rho=0.2)", "y": "fedsam(rho=0.1)"}, None),
        ("fedsam(rho=0.5)", {"x": "fedsam(rho=0.2)", "y": "fedsam(rho=0.50)"}, "y"),
        ("fedgloss+sam", {"x": "fedgloss(admm=false)+sam"}, None),
        ("fedgloss+sam", {"x": "fedgloss(rho_server=0.2, beta=1)+sam(rho=0.1)"}, "x"),
        ("fedgloss(admm=false)+sam", {"x": "fedgloss(beta=3, admm=false)+sam", "y": "fedgloss+sam"}, "x"),
        ("fedgloss", {"x": "fedgloss+sam"}, None),
        ("fedavg+swa(start=0.75)", {"x": "fedavg+swa(start=0.5)"}, None),
        # Without its radius it is another method, unless the claim says so.
        ("fedsam", {"x": "fedsam(rho=0)"}, None),
        ("fedwmsam(rho=0,lam=0)", {"x": "fedwmsam(rho=0, lam=0)"}, "x"),
    ],
)
def test_the_variant_that_a_method_is(method: str, variants: dict[str, str], found: str | None) -> None:
    assert find_variant(method, variants) == found


def test_a_variant_is_not_compared_with_itself() -> None:
    variants = {"whole": "fedwmsam(rho=0.01)", "fixed": "fedwmsam(lam=0.0)"}
    methods = ["fedwmsam", "fedwmsam(lam=0)", "fedwmsam(lam=0.0)"]
    # Two spellings of one: both are it, and no more than that.
    assert find_variants(methods, variants) == {"fedwmsam": "whole", methods[1]: "fixed", methods[2]: "fixed"}
    # One variant that would be two methods is the one that it is spelled as.
    wide = {"all": "fedsam(rho=0.1, eta=2)"}
    assert find_variants(["fedsam(rho=0.1)", "fedsam(eta=2)"], wide) == {}
    assert find_variants(["fedsam(rho=0.1)", "fedsam(rho=0.1,eta=2)"], wide) == {"fedsam(rho=0.1,eta=2)": "all"}


def test_a_spelling_is_taken_apart() -> None:
    name, given = taken_apart("FedAvg + SAM(rho=ramp) + swa(start=0.5,cycle=2)")
    assert name == "fedsam+swa"
    assert json.loads(json.dumps(given)) == {"rho": "ramp", "start": 0.5, "cycle": 2}
