"""Pages made from compact results: what they say is what the runs came to, also where some are missing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flatfed.core.errors import ConfigError
from flatfed.published.claims import claims, find_claim
from flatfed.published.claims.intervals import MeasuredNumbers
from flatfed.published.claims.judging import FAILS, HOLDS, UNDECIDED
from flatfed.studies.evidence.about import read_about
from flatfed.studies.evidence.joint_judge import (
    AT_CHANCE,
    NOT_RUN,
    PARTLY,
    PROVED,
    SET_ASIDE,
    JointJudge,
    JudgedClaim,
    judge_studies,
)
from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.results import Entry
from studies.evidence_bench import cells, copied, publish, row

STUDY: dict[str, Any] = {
    "rounds": 6,
    "evaluate_every": 2,
    "evaluate_last": 2,
    "methods": {"fedavg": None, "fedsam": None, "wild": "fedprox(server_lr=1e30)"},
    "settings": {"one": {"alpha": 0}, "two": {"alpha": 100}},
    "seeds": [0, 1, 2],
    "grid": {"fedsam": {"rho": [0.05, 0.1, 0.2]}},
    "select": {"rounds": 2},
    "report": {
        "reference": "fedavg",
        "targets": [1],
        "flatness": "lambda_max, discrepancy(clients=2)",
        "flatness_samples": 20,
    },
}
ABOUT = """
question: Does it work?
papers: {fedsam: [It is tiny.]}
stands for: {cifar10-0: one, cifar10-0.05: two}
limits: [It says nothing.]
pairs:
  - {method: FedSAM, page: fedsam, paper: fedavg, code: fedsam, differs: why, paper side: a poster, code side: ours}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one published study."""
    return publish(tmp_path_factory.mktemp("evidence"), STUDY, ABOUT)


@pytest.fixture(scope="module")
def evidence(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(root, tmp_path_factory.mktemp("workplace"))


@pytest.fixture(scope="module")
def pages(evidence: Evidence) -> dict[str, str]:
    return evidence.pages()


def test_a_page_has_what_the_runs_came_to(evidence: Evidence, pages: dict[str, str]) -> None:
    table = evidence.studies[0].table
    for method in ("fedavg", "fedsam"):
        entry = table.entry("one", method)
        assert entry.mean is not None and entry.spread is not None
        assert f"{100 * entry.mean:.2f} ± {100 * entry.spread:.2f}" in row(pages["fedsam.md"], method)
    assert "18 of 18 runs that are reported have ended" in pages["fedsam.md"]
    assert "It is tiny." in pages["fedsam.md"] and "It says nothing." in pages["fedsam.md"]


def test_costs_are_counted_against_the_reference(pages: dict[str, str]) -> None:
    shown = cells(pages["fedsam.md"], "fedsam")
    assert shown["traffic per round, x fedavg"] == "1.00"
    assert shown["passes per round, x fedavg"] == "2.00"
    # All of its seeds diverged.
    assert cells(pages["fedsam.md"], "wild")["passes per round, x fedavg"] == "–"


def test_what_diverged_or_was_chosen_stands_there(evidence: Evidence, pages: dict[str, str]) -> None:
    assert "✗ 3 of 3 seeds" in row(pages["fedsam.md"], "wild")
    rho = dict(evidence.studies[0].table.chosen["one", "fedsam"].point)["rho"]
    mark = "" if rho == 0.1 else "°"
    assert f"rho={rho}{mark} |" in row(pages["fedsam.md"], "fedsam")


def test_a_claim_is_judged_by_its_own_setting_alone(evidence: Evidence) -> None:
    judged = {one.claim.id: one for one in evidence.judged}
    # FedSAM against FedAvg on CIFAR-10 in two settings that these stand for.
    assert judged["fedsam-30"].is_tested and judged["fedsam-30"].studies == ("tiny",)
    assert "judged on digits" in judged["fedsam-30"].reason and "3 seeds" in judged["fedsam-30"].reason
    # It is about CIFAR-100, whatever is divided in the same way.
    assert judged["fedsam-26"].outcome == NOT_RUN


def test_a_setting_without_a_run_is_not_taken_for_other_data(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    for folder in part.rglob("two"):
        shutil.rmtree(folder)
    page = Evidence(part, tmp_path / "workplace").pages()["fedsam.md"]
    assert "(judged on digits instead of cifar10" in row(page, "`fedsam-30`")


def with_words(root: Path, tmp_path: Path, more: str) -> Evidence:
    """Return the evidence with more said of the study."""
    part = copied(root, tmp_path / "part")
    (part / "tiny" / "about.yaml").write_text(ABOUT + more)
    return Evidence(part, tmp_path / "workplace")


def test_a_study_does_not_judge_what_it_says_too_little_of(root: Path, tmp_path: Path) -> None:
    evidence = with_words(root, tmp_path, "cannot judge: {fedsam-30: its radius is too small}\n")
    one = next(one for one in evidence.judged if one.claim.id == "fedsam-30")
    assert one.outcome == SET_ASIDE and not one.is_tested
    assert "tiny says too little of it: its radius is too small" in one.reason
    # What would have come of it is shown all the same.
    counting = next(one for one in Evidence(root, tmp_path / "counting").judged if one.claim.id == "fedsam-30")
    (aside,) = one.aside
    assert (aside.study, aside.outcome) == ("tiny", counting.outcome)
    summary = evidence.pages()["README.md"]
    assert aside.sentence in summary.partition("## Run and set aside")[2]
    assert "Run, but set aside: 1." in summary


def test_a_claim_that_another_study_judges_says_what_was_set_aside(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    copied(part / "tiny", part / "again")
    (part / "again" / "about.yaml").write_text(ABOUT + "cannot judge: {fedsam-30: its radius is too small}\n")
    evidence = Evidence(part, tmp_path / "workplace")
    one = next(one for one in evidence.judged if one.claim.id == "fedsam-30")
    assert one.is_tested and one.studies == ("tiny",)
    assert one.aside[0].outcome in (PARTLY, FAILS, UNDECIDED)
    word = {PARTLY: "holds in part", FAILS: "does not hold", UNDECIDED: "is undecided"}[one.aside[0].outcome]
    assert f"set aside: again, where it {word}" in row(evidence.pages()["fedsam.md"], "`fedsam-30`")


def test_an_identity_that_is_set_aside_is_still_proved_by_its_tests(root: Path, tmp_path: Path) -> None:
    evidence = with_words(root, tmp_path, "cannot judge: {fedwmsam-47: so}\n")
    assert {one.claim.id: one.outcome for one in evidence.judged}["fedwmsam-47"] == PROVED


def test_what_was_not_run_is_said_in_words(evidence: Evidence) -> None:
    reasons = {one.claim.id: one.reason for one in evidence.judged}
    # Settings of claims that state nothing have but their name.
    assert reasons["fedvssam-65"] == "no study has a run of (late), nor of 1 other setting of the claim"
    assert reasons["fedsam-42"].startswith("no study has a run of (cifar100-pam, resnet18-gn, ")
    assert reasons["fedsam-42"].endswith("local epochs)")


def test_what_cannot_be_run_is_told_apart_from_what_was_not(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    (part / "impossible.yaml").write_text("fedsam-42: it takes a year\nfedsam-30: it was run all the same\n")
    page = Evidence(part, tmp_path / "workplace").pages()["README.md"]
    impossible, _, possible = page.partition("## Not run")[2].partition("These could be run:")
    assert "- `fedsam-42`: it takes a year" in impossible and "`fedsam-42`" not in possible.partition("## ")[0]
    assert "`fedsam-30`" not in impossible


@pytest.mark.parametrize(
    ("text", "message"), [("fedsam-420: why", "claim"), ("[fedsam-42]", "with the reason of each")]
)
def test_wrong_words_about_what_cannot_be_run_are_refused(root: Path, tmp_path: Path, text: str, message: str) -> None:
    part = copied(root, tmp_path / "part")
    (part / "impossible.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"impossible.yaml: .*{message}"):
        Evidence(part, tmp_path / "workplace")


def test_models_at_chance_decide_nothing_about_sharpness(root: Path, tmp_path: Path) -> None:
    (study,) = Evidence(root, tmp_path).studies
    claim = find_claim("fedgloss-06")
    before = JointJudge([study]).judge(claim)
    assert before.is_tested and not before.with_chance
    for setting in ("one", "two"):
        study.table.entries[setting, "fedsam"] = Entry(setting, "fedsam", dict.fromkeys(range(3), 0.1))
    after = JointJudge([study]).judge(claim)
    assert after.outcome == UNDECIDED
    assert AT_CHANCE in [one.reason for one in after.verdict.comparisons]
    # What would have come of it is kept where it is something else.
    assert after.with_chance == ("" if before.outcome == UNDECIDED else before.outcome)


def test_every_comparison_can_be_unfolded(evidence: Evidence, pages: dict[str, str]) -> None:
    one = next(one for one in evidence.judged if one.claim.id == "fedsam-30")
    unfolded = pages["fedsam.md"].partition("<details>")[2].partition("</details>")[0]
    assert all(f"  - {compared.sentence}" in unfolded for compared in one.verdict.comparisons)


def test_claims_whose_rules_were_changed_are_marked_and_listed(pages: dict[str, str]) -> None:
    changed = [claim for claim in claims() if claim.changed]
    listed = pages["README.md"].partition("## Changed after runs had been seen")[2].partition("## ")[0]
    assert changed and all(f"- `{claim.id}`: {claim.changed}" in listed for claim in changed)
    for claim in changed:
        assert " † |" in row(pages[f"{claim.paper}.md"], f"`{claim.id}`")
        assert "† Its statement" in pages[f"{claim.paper}.md"]


def test_a_study_of_times_has_them_beside_the_reference_and_no_best(root: Path, tmp_path: Path) -> None:
    evidence = with_words(root, tmp_path, "is timed: true\n")
    page = evidence.pages()["fedsam.md"]
    times = evidence.studies[0].numbers.of("client_seconds")
    ratios = [times["one", "fedsam"][seed] / times["one", "fedavg"][seed] for seed in (0, 1, 2)]
    shown = cells(page, "fedsam")["client time, x fedavg"]
    assert shown == f"{sum(ratios) / 3:.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
    assert cells(page, "fedavg")["client time, x fedavg"] == "–"
    assert "**" not in row(page, "fedavg") + row(page, "fedsam") and "the best is" not in page
    assert "a machine that did no other work" in page


def test_other_studies_show_no_times(pages: dict[str, str]) -> None:
    assert "client time" not in pages["fedsam.md"] and "did other work too" in pages["fedsam.md"]


def judged_by(claim: str, settings: Sequence[str], **means: float) -> JudgedClaim:
    """Judge a claim by the same numbers in some settings, for three seeds."""
    values = {
        (setting, method.replace("_", "+")): dict.fromkeys(range(3), mean)
        for setting in settings
        for method, mean in means.items()
    }
    return judge_studies(find_claim(claim), {"tiny": MeasuredNumbers(values)}, settings)


def test_a_claim_whose_settings_were_not_all_run_holds_in_part() -> None:
    """It is about five numbers of clients."""
    means = {"fedwmsam": 50.0, "fedavg": 40.0, "mofedsam": 41.0, "fedsmoo": 42.0}
    one = judged_by("fedwmsam-55", ["cifar10-beta-0.1-100-clients"], **means)
    assert one.outcome == PARTLY and one.is_tested and one.reason.startswith("in 1 of 5 settings; ")
    assert judged_by("fedwmsam-55", find_claim("fedwmsam-55").settings, **means).outcome == HOLDS


def numbers_of(**means: float) -> MeasuredNumbers:
    """Return accuracies for three seeds: `fedsam`, `fedavg`, and `two_epochs` for fedavg with two local epochs."""
    places = {
        "fedsam": ("cifar10-0", "fedsam"),
        "fedavg": ("cifar10-0", "fedavg"),
        "two_epochs": ("cifar10-0-two-epochs", "fedavg"),
    }
    return MeasuredNumbers({places[name]: dict.fromkeys(range(3), mean) for name, mean in means.items()})


BOTH = ["cifar10-0", "cifar10-0-two-epochs"]


def test_a_rule_across_settings_is_judged_by_one_study_alone() -> None:
    """Networks and rounds of two studies may differ, so that a difference between them says nothing."""
    claim = find_claim("fedsam-33")
    apart = {"a": numbers_of(fedsam=70.0, fedavg=60.0), "b": numbers_of(two_epochs=50.0)}
    alone = judge_studies(claim, apart, BOTH)
    assert alone.outcome == NOT_RUN
    assert alone.reason == "all of its numbers were measured, but no study has them all"
    assert judge_studies(claim, {"a": apart["a"]}, BOTH).reason == "no study has fedavg @ cifar10-0-two-epochs"
    together = {"c": numbers_of(fedsam=50.0, fedavg=40.0, two_epochs=45.0)}
    judged = judge_studies(claim, apart | together, BOTH)
    assert judged.outcome == FAILS and judged.studies == ("c",)
    assert "in 2 of 4 settings" in judged.reason


def test_a_rule_across_settings_is_not_refuted_by_a_part_of_it() -> None:
    """That FedSAM is worse than FedAvg says nothing of two epochs against one."""
    assert judge_studies(find_claim("fedsam-33"), {"a": numbers_of(fedsam=50.0, fedavg=60.0)}, BOTH).outcome == NOT_RUN


def test_what_another_study_decides_otherwise_is_undecided() -> None:
    most = {"fedsam": 50.0, "fedavg": 60.0, "fedasam": 70.0}
    values = {("cifar10-0", name): dict.fromkeys(range(3), mean) for name, mean in most.items()}
    numbers = {"most": MeasuredNumbers(values), "other": numbers_of(fedsam=65.0, fedavg=60.0)}
    judged = judge_studies(find_claim("fedsam-30"), numbers, ["cifar10-0"])
    assert judged.outcome == UNDECIDED and judged.studies == ("most",)
    assert "it fails here, and otherwise in other" in judged.reason
    assert "otherwise in other: holds: fedsam @ cifar10-0 is higher than fedavg @ cifar10-0" in judged.reason
    agreeing = {"most": numbers["most"], "other": numbers_of(fedsam=55.0, fedavg=60.0)}
    assert judge_studies(find_claim("fedsam-30"), agreeing, ["cifar10-0"]).outcome == FAILS


def test_a_setting_that_has_nothing_of_a_claim_takes_nothing_from_it() -> None:
    near = {("cifar10-10", name): dict.fromkeys(range(3), 40.0) for name in ("fedgf(c=0)", "fedsam")}
    numbers = {"near": MeasuredNumbers(near), "one class": numbers_of(fedsam=50.0, fedavg=60.0)}
    judged = judge_studies(find_claim("fedgf-68"), numbers, ["cifar10-10", "cifar10-0"])
    assert judged.outcome == PARTLY and judged.studies == ("near",)
    assert judged.reason.startswith("in 1 of 4 settings; ")


def test_who_trains_is_judged_only_beside_who_should_fail() -> None:
    """That FedAvg is near chance does not refute that SCAFFOLD fails, where nobody trained SCAFFOLD."""
    assert judge_studies(find_claim("fedgf-81"), {"a": numbers_of(fedavg=10.0)}, ["cifar10-0"]).outcome == NOT_RUN


def test_a_rule_is_not_judged_where_the_claim_does_not_mean_it() -> None:
    """On CIFAR-100 the claim does not say that ADMM alone helps."""
    means = {"fedgloss_sam": 9.0, "feddyn_sam": 1.0, "fedsam": 5.0, "fedgloss": 9.0, "feddyn": 1.0, "fedavg": 5.0}
    assert judged_by("fedgloss-22", ["cifar100-0"], **means).outcome == PARTLY
    assert judged_by("fedgloss-22", ["cifar10-0"], **means).outcome == FAILS


def test_an_identity_that_runs_leave_open_is_proved_by_its_tests(evidence: Evidence) -> None:
    judged = {one.claim.id: one for one in evidence.judged}
    # Some of its methods were trained, and not all.
    assert judged["fedwmsam-47"].outcome == PROVED and "test_fedwmsam.py" in judged["fedwmsam-47"].reason
    assert judged["fedgf-68"].outcome == PROVED
    # A part of it is proved, but what it says of training is not.
    assert judged["fedgloss-21"].outcome == NOT_RUN


def test_the_summary_counts_every_claim(evidence: Evidence, pages: dict[str, str]) -> None:
    tested = sum(one.is_tested for one in evidence.judged)
    assert f"Of 85 claims, {tested} were compared with runs" in pages["README.md"]
    assert all(f"`{one.claim.id}`" in pages["README.md"] for one in evidence.judged if one.outcome == NOT_RUN)


def test_a_page_has_what_else_was_measured(pages: dict[str, str]) -> None:
    heads = "| method | discrepancy | sharpness global | sharpness local |"
    assert heads in pages["fedsam.md"]
    line = next(line for line in pages["fedsam.md"].split(heads)[1].splitlines() if line.startswith("| fedavg |"))
    assert line.count("±") == 3


def test_the_ledger_has_the_difference_by_seed(evidence: Evidence, pages: dict[str, str]) -> None:
    table = evidence.studies[0].table
    values = [table.entry("one", method).values for method in ("fedavg", "fedsam")]
    mean = 100 * sum(values[1][seed] - values[0][seed] for seed in values[0]) / 3
    line = next(line for line in pages["ledger.md"].splitlines() if "| why |" in line)
    assert f"{mean:+.2f}".replace("-", "−").replace("+0.00", "0.00") in line
    assert "1 pair. Both sides learn in 1 of them" in pages["ledger.md"]


def test_a_method_is_named_for_each_need_that_runs_speak_of(evidence: Evidence, pages: dict[str, str]) -> None:
    parts = dict(part.split("\n", 1) for part in pages["choosing.md"].split("## ")[1:])
    best = max(evidence.studies[0].table.entry("one", name).mean or 0 for name in ("fedavg", "fedsam"))
    assert f"{100 * best:.2f}" in parts["One class per client"] and parts["One class per client"].count("[tiny]") == 1
    # The target, 1 %, is below chance.
    assert "Left out: 2 settings" in parts["Few rounds"] and "[tiny]" not in parts["Few rounds"]
    assert "No study" in parts["Many classes"]


def test_the_same_results_make_the_same_bytes(root: Path, pages: dict[str, str], tmp_path: Path) -> None:
    assert Evidence(root, tmp_path).pages() == pages


def test_pictures_are_small(evidence: Evidence, tmp_path: Path) -> None:
    files = evidence.draw(tmp_path)
    assert [file.name for file in files] == ["tiny-one.png", "tiny-two.png"]
    assert all(1000 < file.stat().st_size < 150_000 for file in files)


def test_fewer_than_three_seeds_decide_nothing(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    for file in part.glob("tiny/results/cells/*/*/**/seed-2.json"):
        file.unlink()
    evidence = Evidence(part, tmp_path / "workplace")
    assert {one.outcome for one in evidence.judged if one.is_tested} <= {"undecided"}
    assert "(2 of 3 seeds)" in row(evidence.pages()["fedsam.md"], "fedavg")
    assert evidence.readme() == ""


def test_a_study_without_results_says_so(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    shutil.rmtree(part / "tiny" / "results")
    evidence = Evidence(part, tmp_path / "workplace")
    pages = evidence.pages()
    assert "0 of 18 runs that are reported have ended" in pages["README.md"]
    assert "Not run yet: one, two." in pages["fedsam.md"]
    assert not any(one.is_tested for one in evidence.judged)
    assert evidence.draw(tmp_path / "pictures") == []


def test_the_readme_has_a_table_and_a_picture(evidence: Evidence) -> None:
    section = evidence.readme()
    assert section.startswith("## What we found") and "tiny-one.png" in section and "| fedsam |" in section
    assert "Guessing gives 10 %." in section and "2 of 3 methods" in section and "6 rounds, 3 seeds" in section
    # The choice of parameters and the rest stand on the pages.
    assert "| λmax |" in section and "| chosen |" not in section and "rounds to target" not in section


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("question: Does it work?", "", "the question is missing"),
        ("limits", "limit", "limits"),
        ("fedsam: [It", 'fedsam: [{"It": "is: so"}, It', "a sentence is a text"),
        ("fedsam: [It", "fedsome: [It", "paper"),
        ("cifar10-0:", "cifar10-zero:", "setting of claims"),
        ("cifar10-0: one", "cifar10-0: three", "setting of the study"),
        ("paper: fedavg", "paper: fedavig", "method of the study"),
        (", differs: why", "", "a pair has"),
        (", paper side: a poster", "", "a pair has .*paper side"),
        (", code side: ours", ", side: ours", "a pair has .*code side"),
        ("differs: why", "differs: why, points: [{Its: step}]", "a sentence is a text"),
        ("limits:", "cannot judge: {fedsam-300: why}\nlimits:", "claim"),
        ("limits:", "cannot judge: [fedsam-30]\nlimits:", "with their reasons"),
        ("limits:", "draws printed: always\nlimits:", "draws printed is true or false"),
        ("limits:", "is timed: 1\nlimits:", "is timed is true or false"),
    ],
)
def test_words_about_nothing_are_refused(root: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    part = copied(root, tmp_path / "part")
    shutil.rmtree(part / "tiny" / "results")
    file = part / "tiny" / "about.yaml"
    assert old in ABOUT
    file.write_text(ABOUT.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        Evidence(part, tmp_path / "workplace")


def test_a_file_that_is_missing_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"about\.yaml"):
        read_about(tmp_path / "about.yaml")
